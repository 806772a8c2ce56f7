"""Programs that the exporter will not emit, on the device."""

import numpy as np
import pytest

import nibble
from conformance.blob_cases import BUILDERS, Q4, build, q4_program
from conformance.embedding_cases import table
from conformance.programs import OPENERS, ROUTES, check_built, everyday, open_built
from support.vk00 import Blob


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("name", everyday(BUILDERS))
def test_built_program_gives_what_numpy_gives(name, route, tmp_path):
    program = build(BUILDERS[name], name)
    check_built(open_built(program, tmp_path, route), program)


def failure(blob: Blob, tmp_path, *inputs, dynamic=False) -> nibble.NibbleError:
    path = tmp_path / "model.pte"
    path.write_bytes(blob.pte(dynamic=dynamic))
    with pytest.raises(nibble.NibbleError) as error:
        nibble.load(path).run(*inputs)
    return error.value


@pytest.mark.parametrize("route", ROUTES)
def test_unknown_operators_are_named_all_at_once(route, tmp_path, capfd):
    b = Blob()
    x, y, out = (b.tensor("float32", [2]) for _ in range(3))
    b.op("aten.frobnicate.default", [x, y])
    b.op("et_vk.unheard_of.default", [y, out])
    b.inputs, b.outputs = [x], [out]
    path = tmp_path / "model.pte"
    path.write_bytes(b.pte())
    with pytest.raises(RuntimeError) as error:
        OPENERS[route](path)
    sentence = str(error.value) if route == "nibble" else capfd.readouterr().err
    assert "aten.frobnicate.default" in sentence
    assert "et_vk.unheard_of.default" in sentence


def test_table_without_rows_has_no_id(tmp_path):
    error = failure(q4_program(np.random.default_rng(0), [2], rows=1).blob, tmp_path, [0, 1])
    assert "[1] is 1, but the table has 1 row" in str(error)
    b = Blob()
    weight, scales = table(np.random.default_rng(0), 0, 32, 8)
    ids, out = b.tensor("int32", [2]), b.tensor("float32", [2, 32])
    b.op(Q4, [b.constant(weight), b.constant(scales), b.integer(8), ids, b.boolean(True), out])
    b.inputs, b.outputs = [ids], [out]
    assert "[0] is 0, but the table has 0 rows" in str(failure(b, tmp_path, [0, 0]))


@pytest.mark.parametrize("shape", [(), (3,), (2, 1, 2, 2)])
def test_bad_id_is_named_at_any_rank(shape, tmp_path):
    ids = np.zeros(shape, np.int64)
    ids[tuple(size - 1 for size in shape)] = 20
    error = failure(q4_program(np.random.default_rng(0), list(shape)).blob, tmp_path, ids)
    place = [size - 1 for size in shape] if shape else ""
    assert f"indices{place} is 20, but the table has 20 rows" in str(error)
    assert error.code == "out_of_range"


def test_division_of_integers_by_zero_is_an_error(tmp_path):
    program = BUILDERS["floor_of_negative_quotients"](np.random.default_rng(0))
    path = tmp_path / "model.pte"
    path.write_bytes(program.pte())
    session = nibble.load(path)
    with pytest.raises(nibble.NibbleError, match=r"floordiv.*zero"):
        session.run(np.array([3, 0]))
    assert session.run(np.array([3, 2])) == 1


def test_size_that_does_not_fit_is_an_error(tmp_path):
    program = BUILDERS["integers_from_an_input"](np.random.default_rng(0))
    (x, _), _ = program.calls[0]
    error = failure(program.blob, tmp_path, x, [0, 0, 5], dynamic=True)
    assert "aten.view_copy" in str(error)
    assert "24" in str(error)


def test_integer_inputs(tmp_path):
    b = Blob()
    n, twice = b.symint(), b.symint()
    b.op("mul", [n, b.integer(2), twice])
    b.inputs, b.outputs = [n], [twice]
    path = tmp_path / "model.pte"
    path.write_bytes(b.pte())
    session = nibble.load(path)
    assert session.run(21) == 42
    assert session.run(np.array(4)) == 8
    assert session.run(np.array([5], np.int32)) == 10
    with pytest.raises(nibble.NibbleError, match="input 0"):
        session.run(np.array([1, 2]))
    assert session.run(-3) == -6


def test_operands_that_do_not_fit_are_refused(tmp_path):
    b = Blob()
    x, y, out = b.tensor("float32", [2, 3]), b.tensor("float32", [4]), b.tensor("float32", [2, 3])
    b.op("aten.add.Tensor", [x, y, b.integer(1), out])
    b.inputs, b.outputs = [x, y], [out]
    error = failure(b, tmp_path, np.ones((2, 3), np.float32), np.ones(4, np.float32))
    assert "aten.add" in str(error)
    assert "[2, 3]" in str(error)
    assert "[4]" in str(error)


@pytest.mark.parametrize(
    ("group", "scales", "sentence"),
    [
        (5, (20, 4), "group_size is 5, which does not divide the width 32"),
        (0, (20, 4), "group_size is 0"),
        (-8, (20, 4), "group_size is -8"),
        (8, (20, 3), "weight_scales has shape [20, 3]"),
        (8, (19, 4), "weight_scales has shape [19, 4]"),
    ],
)
def test_wrong_groups_are_refused(group, scales, sentence, tmp_path):
    b = Blob()
    ids, out = b.tensor("int32", [2]), b.tensor("float32", [2, 32])
    weight, scale = b.constant(np.ones((20, 16), np.uint8)), b.constant(np.ones(scales, np.float32))
    b.op(Q4, [weight, scale, b.integer(group), ids, b.boolean(True), out])
    b.inputs, b.outputs = [ids], [out]
    assert sentence in str(failure(b, tmp_path, [0, 1]))
