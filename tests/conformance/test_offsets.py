"""4-bit linears with an offset for each group: in one kernel, whichever it is, and without the pass."""

import numpy as np
import pytest

import nibble
from conformance import offset_cases
from conformance.case import as_arrays
from conformance.programs import OnNibble, every_route
from conformance.test_passes import dispatches
from conformance.variants import every_variant


@every_route(offset_cases.ALL)
def test_offsets_give_what_torch_gives(name, route, program):
    exported = program(name)
    exported.check_calls(exported.open(route))


# Whole words of nibbles or not, several sections, gates, rows that share words: each kernel has all its branches.
IN_KERNELS = [f"offsets_{name}" for name in ("small_groups", "odd_width", "parts", "gated", "half_odd")]


@pytest.mark.parametrize("variant", [variant for choice, variant in every_variant() if choice == "product"])
@pytest.mark.parametrize("name", IN_KERNELS)
@pytest.mark.host
def test_offsets_are_right_in_every_kernel(name, variant, program):
    exported = program(name)
    exported.check_calls(OnNibble(exported.path, variants={"product": variant}))


@pytest.mark.parametrize("name", [case.name for case in offset_cases.ALL])
@pytest.mark.host
def test_offsets_give_the_same_in_nodes_of_their_own(name, program):
    exported = program(name)
    fused, apart = nibble.load(exported.path), nibble.load(exported.path, without_passes=["offset_linears"])
    for inputs, _ in exported.calls():
        for one, other in zip(as_arrays(fused.run(*inputs)), as_arrays(apart.run(*inputs)), strict=True):
            np.testing.assert_allclose(one, other, exported.case.rtol, exported.case.atol)


@pytest.mark.parametrize("case", offset_cases.ALL, ids=lambda case: case.name)
@pytest.mark.host
def test_linears_with_offsets_take_one_dispatch(case, program):
    path = program(case.name).path
    shape = f"0={','.join(map(str, case.make_calls()[0][0].shape))}"
    assert dispatches(path, shape) == 1
    assert dispatches(path, shape, "--without-pass", "offset_linears") > 3
