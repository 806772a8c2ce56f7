"""Attention and rotary embedding on the device."""

from conformance import attention_cases
from conformance.programs import every_route


@every_route(attention_cases.ALL)
def test_program_gives_what_torch_gives(name, route, program):
    exported = program(name)
    exported.check_calls(exported.open(route))
