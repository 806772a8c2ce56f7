"""Functions of single elements, on the device."""

import pytest

from conformance import elementwise_cases
from conformance.blob_cases import build
from conformance.elementwise_blobs import BUILDERS
from conformance.programs import check_built, every_route, open_built


@every_route(elementwise_cases.ALL)
def test_program_gives_what_torch_gives(name, route, program):
    exported = program(name)
    exported.check_calls(exported.open(route))


@pytest.mark.parametrize("name", BUILDERS)
def test_built_program_gives_what_numpy_gives(name, tmp_path):
    program = build(BUILDERS[name], name)
    check_built(open_built(program, tmp_path), program)
