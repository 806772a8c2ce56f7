"""Ops that move elements, on the device."""

import numpy as np
import pytest

import nibble
from conformance import index_blobs, move_blob_cases, move_cases
from conformance.blob_cases import build
from conformance.index_blobs import indexed
from conformance.programs import ROUTES, check_built, every_route, everyday, open_built
from support.vk00 import Blob

BUILDERS = move_blob_cases.BUILDERS | index_blobs.BUILDERS


@every_route(move_cases.ALL)
def test_program_moves_as_torch_does(name, route, program):
    exported = program(name)
    exported.check_calls(exported.open(route))


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("name", everyday(BUILDERS))
def test_built_program_moves_as_numpy_does(name, route, tmp_path):
    program = build(BUILDERS[name], name)
    check_built(open_built(program, tmp_path, route), program)


def session(blob: Blob, tmp_path, dynamic=False) -> nibble.Model:
    path = tmp_path / "model.pte"
    path.write_bytes(blob.pte(dynamic=dynamic))
    return nibble.load(path)


@pytest.mark.parametrize("bad", [5, -6, 2**31 - 1, -(2**31)])
def test_index_outside_the_table_is_named(bad, tmp_path):
    b = Blob()
    x, ids, out = b.tensor("float32", [5, 3]), b.tensor("int32", [2, 3]), b.tensor("float32", [2, 3, 3])
    b.op("aten.index.Tensor", [x, b.value_list([ids]), out])
    b.inputs, b.outputs = [x, ids], [out]
    program = session(b, tmp_path)
    table = np.arange(15, dtype=np.float32).reshape(5, 3)
    picks = np.array([[0, 4, -5], [1, bad, 2]])
    with pytest.raises(nibble.NibbleError) as error:
        program.run(table, picks)
    assert f"aten.index.Tensor: indices[1, 1] is {bad}, but the table has 5 rows" in str(error.value)
    assert error.value.code == "out_of_range"
    picks[1, 1] = -1
    np.testing.assert_array_equal(program.run(table, picks), table[picks])


def test_bad_one_of_several_index_tensors_is_named(tmp_path):
    program = indexed(np.random.default_rng(0), [5, 4, 3], [[2, 1], [3]])
    inputs, _ = program.calls[0]
    loaded = session(program.blob, tmp_path)
    first, second, *tables = inputs
    second[2] = 4
    with pytest.raises(nibble.NibbleError, match=r"indices\[2\] is 4, but the table has 4 rows"):
        loaded.run(first, second, *tables)
    second[2] = 0
    first[1] = -6
    with pytest.raises(nibble.NibbleError, match=r"indices\[1, 0\] is -6, but the table has 5 rows"):
        loaded.run(first, second, *tables)


def test_index_is_checked_against_the_live_size(tmp_path):
    b = Blob()
    x, ids, out = b.tensor("float32", [6]), b.tensor("int32", [2]), b.tensor("float32", [2])
    b.op("aten.gather.default", [x, b.integer(0), ids, b.boolean(False), out])
    b.inputs, b.outputs = [x, ids], [out]
    program = session(b, tmp_path, dynamic=True)
    values = np.arange(6, dtype=np.float32)
    np.testing.assert_array_equal(program.run(values, np.array([5, -6])), [5, 0])
    with pytest.raises(nibble.NibbleError, match=r"index\[1\] is 4, but the table has 4 rows"):
        program.run(values[:4], np.array([-1, 4]))
    np.testing.assert_array_equal(program.run(values[:4], np.array([-1, 3])), [3, 3])


def test_selecting_past_the_live_end_is_an_error(tmp_path):
    b = Blob()
    x, out = b.tensor("float32", [6, 2]), b.tensor("float32", [2])
    b.op("aten.select_copy.int", [x, b.integer(0), b.integer(-3), out])
    b.inputs, b.outputs = [x], [out]
    program = session(b, tmp_path, dynamic=True)
    values = np.arange(12, dtype=np.float32).reshape(6, 2)
    np.testing.assert_array_equal(program.run(values), values[3])
    np.testing.assert_array_equal(program.run(values[:3]), values[0])
    with pytest.raises(nibble.NibbleError, match="index is -3, but dimension 0 has 2 entries") as error:
        program.run(values[:2])
    assert error.value.code == "out_of_range"
    np.testing.assert_array_equal(program.run(values[:5]), values[2])
