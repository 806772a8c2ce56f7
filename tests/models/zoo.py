"""The table of whole models: structures of torchvision, timm and torchsr, and some of our own, with random weights."""

from collections.abc import Callable
from dataclasses import dataclass

import executorch.backends.vulkan.custom_ops_lib  # noqa: F401  (registers et_vk)
import torch
from torch import nn

Shape = tuple[int, ...]

# torchvision's own kernels need CUDA's libraries; without them its import wants these operators, which no model uses.
_LIBRARY = torch.library.Library("torchvision", "FRAGMENT")
for _name in ("nms", "qnms"):
    _LIBRARY.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


@dataclass(frozen=True)
class Model:
    """How a model is made, and the shapes of its calls, the first of which the exporter is shown."""

    name: str
    # Whether it shall have its full size; most models have only one.
    make: Callable[[bool], nn.Module]
    small: tuple[Shape, ...]
    full: tuple[Shape, ...]
    # The largest error, in units of the largest result.
    tolerance: float = 1e-4
    # Dimensions of the input that are dynamic, up to the largest of the calls, and from what on; at full size perhaps
    # from another size on, where a model has layers that see a single pixel below.
    dynamic: tuple[int, ...] = ()
    least: int = 1
    least_full: int = 0
    int8: bool = False
    # The stock partitioner would split it, so Nibble's exports it.
    split: bool = False

    def calls(self, full: bool) -> tuple[Shape, ...]:
        return self.full if full else self.small

    def smallest(self, full: bool) -> int:
        return (full and self.least_full) or self.least

    def build(self, full: bool) -> nn.Module:
        torch.manual_seed(0)
        module = self.make(full).eval()
        with torch.no_grad():
            for parameter in module.parameters():
                # Zeros and ones hide mistakes.
                if parameter.numel() > 1 and (parameter == parameter.flatten()[0]).all():
                    parameter += 0.1 * torch.randn_like(parameter)
            for name, buffer in module.named_buffers():
                if name.endswith("running_mean"):
                    buffer.normal_(0, 0.1)
                elif name.endswith("running_var"):
                    buffer.uniform_(0.8, 1.2)
        return module


def of_torchvision(name: str, **options) -> Callable[[bool], nn.Module]:
    def make(full: bool) -> nn.Module:
        import torchvision

        return getattr(torchvision.models, name)(weights=None, **options)

    return make


def vit(full: bool) -> nn.Module:
    import torchvision

    if full:
        return torchvision.models.vit_b_16(weights=None)
    return torchvision.models.VisionTransformer(64, 16, num_layers=3, num_heads=4, hidden_dim=128, mlp_dim=256)


def deeplab(full: bool) -> nn.Module:
    import torchvision

    return torchvision.models.segmentation.deeplabv3_resnet50(weights=None, weights_backbone=None)


def edsr(full: bool) -> nn.Module:
    import torchsr.models

    return torchsr.models.edsr_r16f64(2, False)


def inception_v4(full: bool) -> nn.Module:
    import timm

    return timm.create_model("inception_v4", pretrained=False)


class Wav2Letter(nn.Module):
    """Collobert, Puhrsch, Synnaeve 2016: convolutions from the samples of a sound to letters."""

    def __init__(self, letters: int):
        super().__init__()
        shapes = [(1, 250, 250, 160, 45), (250, 250, 48, 2, 23), *[(250, 250, 7, 1, 3)] * 7]
        shapes += [(250, 2000, 32, 1, 16), (2000, 2000, 1, 1, 0), (2000, letters, 1, 1, 0)]
        self.layers = nn.ModuleList(nn.Conv1d(i, o, k, s, p) for i, o, k, s, p in shapes)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).relu()
        return x.log_softmax(1)


class UNet(nn.Module):
    """Ronneberger, Fischer, Brox 2015, three levels: pooling down, transposed convolutions and links up."""

    def __init__(self, width: int):
        super().__init__()

        def block(inputs: int, outputs: int) -> nn.Module:
            layers = [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()]
            return nn.Sequential(
                *layers, nn.Conv2d(outputs, outputs, 3, padding=1), nn.GroupNorm(4, outputs), nn.ReLU()
            )

        widths = [width, 2 * width, 4 * width]
        self.down = nn.ModuleList(block(i, o) for i, o in zip([3, *widths], widths, strict=False))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, stride=2) for w in widths[1::-1])
        self.join = nn.ModuleList(block(2 * w, w) for w in widths[1::-1])
        self.head = nn.Conv2d(width, 2, 1)

    def forward(self, x):
        links = []
        for level, block in enumerate(self.down):
            x = block(x if level == 0 else nn.functional.max_pool2d(x, 2))
            links.append(x)
        for up, join, link in zip(self.up, self.join, links[1::-1], strict=True):
            x = join(torch.cat((up(x), link), 1))
        return self.head(x)


class Training(nn.Module):
    """A step of AdamW on a network of two layers: weights and both moments come in, and what they become goes out.

    They are no buffers: where a program changes a buffer that several operators read, the exporter gives each a copy.
    """

    def start(self, inputs: int = 20, hidden: int = 33, classes: int = 7) -> list[torch.Tensor]:
        weights = [torch.randn(shape) / shape[1] ** 0.5 for shape in ((hidden, inputs), (classes, hidden))]
        return [tensor for weight in weights for tensor in (weight, *(torch.zeros_like(weight) for _ in range(2)))]

    def forward(self, x, labels, first, first_m, first_v, second, second_m, second_v):
        ops = torch.ops.et_vk
        hidden = (x @ first.t()).relu()
        loss, d_logits = ops.fused_ce(hidden @ second.t(), labels, float(x.shape[0]))
        d_hidden = (d_logits @ second) * (hidden > 0).to(x.dtype)
        d_second, d_first = ops.linear_dW(d_logits, hidden), ops.linear_dW(d_hidden, x)
        return loss, *self.step(first, first_m, first_v, d_first), *self.step(second, second_m, second_v, d_second)

    def step(self, weight, m, v, gradient) -> tuple[torch.Tensor, ...]:
        """AdamW without its first steps' correction. torch.export refuses et_vk.adamw_step, which returns aliases."""
        m = 0.9 * m + 0.1 * gradient
        v = 0.99 * v + 0.01 * gradient * gradient
        return weight * (1 - 1e-4) - 1e-2 * m / (v.sqrt() + 1e-8), m, v


def square(size: int) -> tuple[Shape, ...]:
    return ((1, 3, size, size),)


def sizes(*pairs: tuple[int, int]) -> tuple[Shape, ...]:
    return tuple((1, 3, *pair) for pair in pairs)


MOVING = {
    "small": sizes((96, 80), (64, 96)),
    "full": sizes((224, 192), (160, 224), (97, 131)),
    "dynamic": (2, 3),
    "least": 64,
}
LARGE = {
    "small": sizes((96, 80), (80, 96)),
    "full": sizes((299, 224), (203, 299)),
    "dynamic": (2, 3),
    "least": 75,
    "least_full": 107,
}

MODELS = [
    Model("mv2", of_torchvision("mobilenet_v2"), square(64), square(224)),
    Model("mv3", of_torchvision("mobilenet_v3_small"), square(64), square(224)),
    Model("edsr", edsr, square(16), square(64)),
    Model("resnet18", of_torchvision("resnet18"), square(64), square(224)),
    Model("resnet50", of_torchvision("resnet50"), square(64), square(224)),
    Model("dl3", deeplab, square(64), square(224)),
    Model("w2l", lambda full: Wav2Letter(4096 if full else 64), ((1, 1, 700),), ((10, 1, 700),)),
    Model("ic3", of_torchvision("inception_v3", init_weights=False), square(80), square(299)),
    Model("ic4", inception_v4, square(80), square(299)),
    Model("vit", vit, square(64), square(224), split=True),
    Model("convnext_small", of_torchvision("convnext_small"), square(64), square(224), split=True),
    Model("shufflenet_v2_x1_0", of_torchvision("shufflenet_v2_x1_0"), square(64), square(224), split=True),
    Model("mv2_dynamic", of_torchvision("mobilenet_v2"), **MOVING),
    Model("resnet18_dynamic", of_torchvision("resnet18"), **MOVING),
    Model("resnet50_dynamic", of_torchvision("resnet50"), **MOVING),
    Model("densenet161_dynamic", of_torchvision("densenet161"), **MOVING),
    Model("ic3_dynamic", of_torchvision("inception_v3", init_weights=False), **LARGE),
    Model("mv2_int8", of_torchvision("mobilenet_v2"), square(64), square(224), tolerance=0.05, int8=True),
    Model("resnet18_int8", of_torchvision("resnet18"), square(64), square(224), tolerance=0.05, int8=True),
    Model("unet", lambda full: UNet(64 if full else 8), ((1, 3, 24, 32),), ((1, 3, 192, 256),)),
]
