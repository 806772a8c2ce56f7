"""Outputs that a file's two halves disagree about: ExecuTorch's tensor, and what the delegate makes."""

import pytest

from conformance.test_plugin import INVALID_ARGUMENT, python
from support.vk00 import Blob

RUN = """
import sys, torch, nibble
from executorch.runtime import Runtime
method = Runtime.get().load_program(sys.argv[1]).load_method("forward")
try:
    method.execute([torch.zeros(2)])
except RuntimeError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("shape", "planned"),
    [([4], [3]), ([4], [4, 1]), ([0, 3_000_000_000], [0, 4])],
    ids=["too_small", "other_rank", "beyond_32_bits"],
)
def test_output_that_cannot_take_its_shape_is_an_invalid_argument(shape, planned, tmp_path):
    b = Blob()
    x, out, none = b.tensor("float32", [2]), b.tensor("float32", shape), b.null()
    b.op("aten.full.default", [b.ints(shape), b.number(1.0), none, none, none, none, out])
    b.inputs, b.outputs = [x], [out]
    b._host[out] = ("float32", planned)
    path = tmp_path / "model.pte"
    path.write_bytes(b.pte(dynamic=True))
    done = python(RUN, path)
    assert done.returncode == 0, done.stderr
    assert f"nibble: output 0 cannot take the shape {shape}" in done.stderr
    assert INVALID_ARGUMENT in done.stdout
