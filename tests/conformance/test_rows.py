"""Ops along rows, on the device."""

import zlib

import numpy as np
import pytest

from conformance import rows_cases
from conformance.programs import OnNibble, every_route
from conformance.rows_blob_cases import BUILDERS


@every_route(rows_cases.ALL)
def test_rows_give_what_torch_gives(name, route, program):
    exported = program(name)
    exported.check_calls(exported.open(route))


@pytest.mark.parametrize("name", BUILDERS)
def test_built_rows_give_what_numpy_gives(name, tmp_path):
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
            np.testing.assert_allclose(result, wanted, max(program.rtol, 1e-6), program.rtol, err_msg=where)
