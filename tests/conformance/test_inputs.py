"""Types and shapes at the boundary of nibble.load, beyond those that the program names."""

import numpy as np
import pytest

from conformance.programs import OnNibble


@pytest.mark.parametrize(("name", "dtype"), [("q4_dynamic_length", np.int32), ("q4_dynamic_odd", np.int64)])
def test_ids_of_either_width(name, dtype, program):
    exported = program(name)
    session = OnNibble(exported.path)
    for (ids,), expected in exported.calls():
        exported.check(session.run(ids.astype(dtype)), expected)


@pytest.mark.parametrize("dtype", [np.float64, np.float16])
def test_floats_of_any_width(dtype, program):
    exported = program("mul")
    session = OnNibble(exported.path)
    for inputs, _ in exported.calls():
        given = [array.astype(dtype) for array in inputs]
        rounded = [array.astype(np.float32) for array in given]
        wanted = [a * b for a, b in zip(rounded[0::2], rounded[1::2], strict=True)]
        exported.check(session.run(*given), wanted)


def test_booleans_as_bytes(program):
    exported = program("from_bool")
    session = OnNibble(exported.path)
    for (x,), expected in exported.calls():
        exported.check(session.run(x.astype(np.uint8) * 7), expected)


def test_arrays_in_any_order_of_memory(program):
    exported = program("dynamic_broadcast")
    session = OnNibble(exported.path)
    for (a, b), expected in exported.calls():
        exported.check(session.run(np.asfortranarray(a), np.repeat(b, 2, axis=1)[:, ::2]), expected)


def test_numbers_and_lists(program):
    exported = program("q4_dynamic_length")
    session = OnNibble(exported.path)
    for (ids,), expected in exported.calls():
        exported.check(session.run(ids.tolist() or [[]]), expected)


def test_program_runs_on_the_adapter_that_was_asked_for(program, device_name):
    assert OnNibble(program("mul").path).model.device.name == device_name


def test_program_tells_its_inputs_and_outputs(program):
    loaded = OnNibble(program("q4_dynamic_two").path).model
    assert [(spec.dtype, spec.shape) for spec in loaded.inputs] == [(np.int64, (5, 64))]
    assert [(spec.dtype, spec.shape) for spec in loaded.outputs] == [(np.float32, (5, 64, 64))]
    loaded = OnNibble(program("from_int").path).model
    assert [spec.dtype for spec in loaded.outputs] == [np.float32, np.int64, np.bool_]
