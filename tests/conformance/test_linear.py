"""Matrix products on the device."""

import numpy as np
import pytest

from conformance import linear_cases
from conformance.programs import OnNibble, every_route


@every_route(linear_cases.ALL)
def test_product_gives_what_torch_gives(name, route, program):
    exported = program(name)
    exported.check_calls(exported.open(route))


@pytest.mark.parametrize("name", ["linear_q4_many_rows", "linear_plain_odd"])
def test_products_in_half_precision_are_near(name, program):
    exported = program(name)
    tile = {"variants": {"product": "tile"}}
    halves, floats = OnNibble(exported.path, f16_products=True, **tile), OnNibble(exported.path, **tile)
    has_f16 = halves.model.device.info.profile["shader_f16"]
    for inputs, (wanted,) in exported.calls():
        (got,), (other,) = halves.run(*inputs), floats.run(*inputs)
        assert np.abs(got - wanted).max() <= 2**-8 * np.sqrt(np.mean(np.square(wanted)))
        assert np.array_equal(got, other) != has_f16
