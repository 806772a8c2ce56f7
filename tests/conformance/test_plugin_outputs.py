"""Outputs that a file's two halves disagree about: ExecuTorch's tensor, and what the delegate makes."""

import pytest

from conformance.test_plugin import INVALID_ARGUMENT, NO_EXPORTER, python
from support.vk00 import Blob

RUN = """
import sys, torch, nibble
from executorch.runtime import Runtime
for path in sys.argv[1:]:
    try:
        Runtime.get().load_program(path).load_method("forward").execute([torch.zeros(2)])
    except RuntimeError as error:
        print(error)
"""

# What the delegate makes, and what ExecuTorch plans for it: too small, of another rank, beyond its 32 bits.
SHAPES = [([4], [3]), ([4], [4, 1]), ([0, 3_000_000_000], [0, 4])]


@pytest.mark.host
def test_output_that_cannot_take_its_shape_is_an_invalid_argument(tmp_path):
    paths = []
    for shape, planned in SHAPES:
        b = Blob()
        x, out, none = b.tensor("float32", [2]), b.tensor("float32", shape), b.null()
        b.op("aten.full.default", [b.ints(shape), b.number(1.0), none, none, none, none, out])
        b.inputs, b.outputs = [x], [out]
        b._host[out] = ("float32", planned)
        paths.append(tmp_path / f"{len(paths)}.pte")
        paths[-1].write_bytes(b.pte(dynamic=True))
    done = python(NO_EXPORTER + RUN, *paths)  # another process, should it end
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(INVALID_ARGUMENT) == len(SHAPES), done.stdout
    for shape, _ in SHAPES:
        assert f"nibble: output 0 cannot take the shape {shape}" in done.stderr
