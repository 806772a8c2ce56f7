"""What programs should give, by eager torch and by NumPy: the two must agree before anything is held against them."""

import pytest

from conformance.cases import CASES

pytestmark = pytest.mark.host


@pytest.mark.parametrize("name", CASES)
def test_torch_and_numpy_agree(name, program):
    exported = program(name)
    for number, ((_, by_torch), (_, by_numpy)) in enumerate(
        zip(exported.calls("torch"), exported.calls("numpy"), strict=True)
    ):
        exported.check(by_numpy, by_torch, f", call {number}")
