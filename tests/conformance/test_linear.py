"""Matrix products on the device."""

from conformance import linear_cases
from conformance.programs import every_route


@every_route(linear_cases.ALL)
def test_product_gives_what_torch_gives(name, route, program):
    exported = program(name)
    exported.check_calls(exported.open(route))
