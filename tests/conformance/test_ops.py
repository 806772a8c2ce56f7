"""Operators of the stock exporter on the device."""

import pytest

import nibble
from conformance import long_cases, op_cases
from conformance.programs import every_route


@every_route([*op_cases.ALL, *long_cases.ALL])
def test_program_gives_what_torch_gives(name, route, program):
    exported = program(name)
    exported.check_calls(exported.open(route))


def test_program_with_operators_outside_the_delegate_is_refused_by_their_names(program):
    with pytest.raises(nibble.NibbleError, match=r"aten::mean.*ExecuTorch.*import nibble") as error:
        nibble.load(program("partly_delegated").path)
    assert error.value.code == "unsupported"
