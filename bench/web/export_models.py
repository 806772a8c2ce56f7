"""One 4-bit table as a program for Nibble and as a model for onnxruntime-web: export_models.py OUT"""

import sys
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
warnings.filterwarnings("ignore")
sys.path.insert(0, str(ROOT / "tests"))

import numpy as np  # noqa: E402

ROWS, WIDTH, GROUP, MOST = 128256, 2048, 32, 1024


def write_program(path: Path, weight: np.ndarray, scales: np.ndarray) -> None:
    import executorch.backends.vulkan.custom_ops_lib  # noqa: F401  (defines torch.ops.et_vk)
    import torch

    from conformance.case import Function
    from conformance.export_programs import exporter

    lookup = torch.ops.et_vk.embedding_q4gsw.default
    module = Function(lambda m, ids: lookup(m.weight, m.scales, GROUP, ids, True), weight=weight, scales=scales)
    dynamic = ({0: torch.export.Dim("length", max=MOST)},)
    program = exporter()(module, (torch.zeros(2, dtype=torch.int64),), dynamic, {})
    with open(path, "wb") as file:
        program.write_to_file(file)


def write_model(path: Path, weight: np.ndarray, scales: np.ndarray) -> None:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    # Without zero points, unsigned 4-bit numbers count from 8 here: just as Nibble's do.
    node = helper.make_node(
        "GatherBlockQuantized",
        ["weight", "ids", "scales"],
        ["rows"],
        domain="com.microsoft",
        gather_axis=0,
        quantize_axis=1,
        block_size=GROUP,
        bits=4,
    )
    graph = helper.make_graph(
        [node],
        "table",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["length"])],
        [helper.make_tensor_value_info("rows", TensorProto.FLOAT, ["length", WIDTH])],
        [numpy_helper.from_array(weight, "weight"), numpy_helper.from_array(scales, "scales")],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)


def main() -> None:
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    weight = rng.integers(0, 256, (ROWS, WIDTH // 2), np.uint8)
    scales = rng.random((ROWS, WIDTH // GROUP), np.float32) - np.float32(0.5)
    for name, write in (("table.onnx", write_model), ("table.pte", write_program)):
        if not (out / name).exists():
            write(out / name, weight, scales)
            print(f"{name}: {(out / name).stat().st_size} bytes")


if __name__ == "__main__":
    main()
