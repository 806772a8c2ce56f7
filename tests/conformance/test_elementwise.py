"""Functions of single elements, on the device."""

import zlib

import numpy as np
import pytest

from conformance import elementwise_cases
from conformance.elementwise_blobs import BUILDERS
from conformance.programs import OnNibble, every_route


@every_route(elementwise_cases.ALL)
def test_program_gives_what_torch_gives(name, route, program):
    exported = program(name)
    exported.check_calls(exported.open(route))


@pytest.mark.parametrize("name", BUILDERS)
def test_built_program_gives_what_numpy_gives(name, tmp_path):
    with np.errstate(all="ignore"):
        program = BUILDERS[name](np.random.default_rng(zlib.crc32(name.encode())))
    path = tmp_path / "model.pte"
    path.write_bytes(program.pte())
    session = OnNibble(path)
    for call, (inputs, expected) in enumerate(program.calls):
        results = session.run(*inputs)
        assert len(results) == len(expected)
        for index, (result, wanted) in enumerate(zip(results, expected, strict=True)):
            where = f"call {call}, output {index}"
            assert result.dtype == wanted.dtype, where
            assert result.shape == wanted.shape, where
            np.testing.assert_allclose(result, wanted, program.rtol, program.rtol, err_msg=where)
