"""Attention over heads of any size and repeated operands, by kernels that this device would not choose."""

import pytest

from conformance.programs import OnNibble

FORCED = [("attention", "row"), ("attention", "rows"), ("attention", "tile"), ("attention_loads", "elements")]


@pytest.mark.parametrize(("choice", "variant"), FORCED)
@pytest.mark.parametrize("name", ["sdpa_shapes", "sdpa_wider_masks", "sdpa_shapes_dynamic"])
def test_attention_of_any_shape_is_right_by_every_variant(name, choice, variant, program):
    found = program(name)
    found.check_calls(OnNibble(found.path, variants={choice: variant}))
