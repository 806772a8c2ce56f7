"""After load, no live shape compiles a pipeline or finds memory that was not planned."""

import zlib

import numpy as np
import pytest

import nibble
from conformance.built_programs import build_all
from conformance.cases import CASES

pytestmark = pytest.mark.host

CALLS = 12


def dynamic_dimensions(calls, inputs) -> list[set[int]]:
    """Per input, the dimensions that some call of the case has smaller than the largest."""
    return [
        {
            axis
            for arrays, _ in calls
            for axis, (size, most) in enumerate(zip(arrays[index].shape, spec.shape, strict=True))
            if size < most
        }
        for index, spec in enumerate(inputs)
    ]


def random_call(rng, calls, inputs, dynamic) -> list[np.ndarray]:
    """The values of a call of the case in random shapes; dimensions with the same bound mostly go together."""
    arrays, _ = calls[rng.integers(len(calls))]
    sizes = {}
    made = []
    for array, spec, axes in zip(arrays, inputs, dynamic, strict=True):
        shape = list(spec.shape)
        for axis in axes:
            if rng.random() < 0.1:
                sizes.pop(shape[axis], None)
            low = rng.choice([0, 1, 1, 2])
            shape[axis] = sizes.setdefault(shape[axis], int(rng.integers(min(low, shape[axis]), shape[axis] + 1)))
        made.append(np.resize(array, shape) if axes else array)
    return made


DYNAMIC = [case.name for case in CASES.values() if not case.outside and getattr(case, "dynamic", True)]


def check_random_shapes(found) -> bool:
    """Whether its calls are of several shapes."""
    calls = found.calls()
    with nibble.load(found.path) as model:
        dynamic = dynamic_dimensions(calls, model.inputs)
        if not any(dynamic):
            return False
        rng = np.random.default_rng(zlib.crc32(found.name.encode()))
        compiled = model.device.compiled_pipelines
        assert compiled > 0
        succeeded = 0
        for _ in range(CALLS):
            inputs = random_call(rng, calls, model.inputs, dynamic)
            try:
                model.run(*inputs)
                succeeded += 1
            except nibble.NibbleError as error:
                assert error.code != "internal", (found.name, [array.shape for array in inputs], str(error))  # noqa: PT017
        assert model.device.compiled_pipelines == compiled, found.name
        assert succeeded > 0, found.name
    return True


@pytest.mark.parametrize("name", DYNAMIC)
def test_no_shape_compiles_anything(name, program):
    if not check_random_shapes(program(name)):
        pytest.skip("all its calls are of one shape")


def test_no_shape_of_a_program_built_by_hand_compiles_anything(tmp_path):
    assert sum(check_random_shapes(one) for one in build_all(tmp_path) if one.built.dynamic) > 5
