"""Ops along rows, on the device."""

from conformance import rows_cases
from conformance.programs import every_route


@every_route(rows_cases.ALL)
def test_rows_give_what_torch_gives(name, route, program):
    exported = program(name)
    exported.check_calls(exported.open(route))
