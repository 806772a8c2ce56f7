"""Ops along rows, on the device."""

import pytest

from conformance import rows_cases
from conformance.blob_cases import build
from conformance.programs import check_built, every_route, open_built
from conformance.rows_blob_cases import BUILDERS


@every_route(rows_cases.ALL)
def test_rows_give_what_torch_gives(name, route, program):
    exported = program(name)
    exported.check_calls(exported.open(route))


@pytest.mark.parametrize("name", BUILDERS)
def test_built_rows_give_what_numpy_gives(name, tmp_path):
    program = build(BUILDERS[name], name)
    check_built(open_built(program, tmp_path), program)
