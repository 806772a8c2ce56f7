"""Wrong inputs: an error that says what is wrong, and the next call is right."""

import re

import numpy as np
import pytest

import nibble
from conformance.programs import ROUTES


def error_of(session, inputs, capfd) -> str:
    """The sentence of a call that fails; ExecuTorch has it in its log."""
    capfd.readouterr()
    with pytest.raises(RuntimeError) as error:
        session.run(*inputs)
    if isinstance(error.value, nibble.NibbleError):
        assert error.value.code in ("out_of_range", "invalid_argument")
        return str(error.value)
    sentences = re.findall(r"nibble: (.*)", capfd.readouterr().err)
    assert len(sentences) == 1
    return sentences[0]


# Program, operator, shape of the ids, where the bad one is, rows of the table.
TABLES = [
    ("q4_dynamic_length", "et_vk.embedding_q4gsw", np.int64, (1, 5), (0, 3), 1700),
    ("q4_dynamic_odd", "et_vk.embedding_q4gsw", np.int32, (64,), (63,), 2000),
    ("q4_dynamic_two", "et_vk.embedding_q4gsw", np.int64, (4, 7), (2, 6), 61),
    ("embedding_dynamic", "aten.embedding", np.int64, (2,), (0,), 300),
]


@pytest.mark.parametrize("route", [*ROUTES, "sharded"])
@pytest.mark.parametrize(("name", "op", "dtype", "shape", "place", "rows"), TABLES, ids=[t[0] for t in TABLES])
def test_bad_id_from_an_input_is_named(name, op, dtype, shape, place, rows, route, program, capfd):
    exported = program(name)
    session = exported.open(route)
    values = [rows, -1, 2**31 - 1, -(2**31)]
    if dtype == np.int64:
        values += [2**31, 2**32, 2**32 + 1, -(2**32), 2**63 - 1, -(2**63)]
    for value in values:
        ids = np.zeros(shape, dtype)
        ids[place] = value
        sentence = error_of(session, [ids], capfd)
        assert op in sentence
        assert f"{list(place)} is {value}," in sentence
        assert f"{rows} rows" in sentence
        inputs, expected = exported.calls()[0]
        exported.check(session.run(*inputs), expected, ", after a bad id")


@pytest.mark.parametrize("route", [*ROUTES, "sharded"])
def test_bad_id_that_the_graph_computed_is_named(route, program, capfd):
    exported = program("q4_computed_ids")
    session = exported.open(route)
    for id_, value in [(199, 200), (-2, -1), (1000, 1001), (2**31 - 1, -(2**31)), (-(2**31), -(2**31) + 1)]:
        ids = np.full((1, 5), 198)
        ids[0, 2] = id_
        sentence = error_of(session, [ids], capfd)
        assert "et_vk.embedding_q4gsw" in sentence
        assert f"[0, 2] is {value}," in sentence
        assert "200 rows" in sentence
        exported.check_calls(session)


@pytest.mark.parametrize("route", ROUTES)
def test_one_of_several_bad_ids_is_named(route, program, capfd):
    exported = program("q4_computed_ids")
    session = exported.open(route)
    sentence = error_of(session, [np.array([[5, 200, -7, 300, 6, -9]])], capfd)
    assert re.search(r"\[0, 1\] is 201,|\[0, 2\] is -6,|\[0, 3\] is 301,|\[0, 5\] is -8,", sentence)
    exported.check_calls(session)


@pytest.mark.parametrize("route", [*ROUTES, "sharded"])
def test_bad_id_of_a_plain_embedding_that_the_graph_computed_is_named(route, program, capfd):
    exported = program("embedding_computed_ids")
    session = exported.open(route)
    ids = np.zeros((2, 3), np.int64)
    ids[1, 0] = 12
    sentence = error_of(session, [ids], capfd)
    assert "aten.embedding" in sentence
    assert "[1, 0] is 24," in sentence
    assert "23 rows" in sentence
    exported.check_calls(session)


@pytest.mark.parametrize("route", ROUTES)
def test_bad_id_in_a_table_read_twice_is_named(route, program, capfd):
    exported = program("q4_table_twice")
    session = exported.open(route)
    ids = np.zeros((2, 4), np.int64)
    ids[1, 3] = 199
    assert "[1, 3] is 200, but the table has 200 rows" in error_of(session, [ids], capfd)
    exported.check_calls(session)


@pytest.mark.parametrize("route", ROUTES)
def test_input_past_32_bits_is_named(route, program, capfd):
    exported = program("q4_computed_ids")
    session = exported.open(route)
    sentence = error_of(session, [np.array([[1, 2, 3, 2**31, 5]])], capfd)
    assert "input 0[0, 3] is 2147483648" in sentence
    exported.check_calls(session)


WRONG_INPUTS = [
    ("too_few", [], "0 inputs are given, but the program takes 2"),
    ("too_many", ["a", "b", "a"], "3 inputs are given, but the program takes 2"),
    ("dtype", ["a", "ids"], "input 1 is int64, but the program takes float32"),
    ("rank", ["a", "matrix"], "input 1 has shape [1, 5], but the program takes [5]"),
    ("too_large", ["larger", "b"], "input 0 has shape [4, 5], but the program takes"),
    ("complex", ["a", "complex"], "input 1 is complex128, but the program takes float32"),
]


@pytest.mark.parametrize(("what", "inputs", "sentence"), WRONG_INPUTS, ids=[w[0] for w in WRONG_INPUTS])
def test_wrong_input_is_named(what, inputs, sentence, program, capfd):
    exported = program("forced_half")
    arrays = {
        "a": np.ones((3, 5), np.float32),
        "b": np.ones(5, np.float32),
        "ids": np.ones(5, np.int64),
        "matrix": np.ones((1, 5), np.float32),
        "larger": np.ones((4, 5), np.float32),
        "complex": np.ones(5, np.complex128),
    }
    session = exported.open("nibble")
    assert sentence in error_of(session, [arrays[name] for name in inputs], capfd)
    exported.check_calls(session)


@pytest.mark.parametrize(("what", "inputs"), [w[:2] for w in WRONG_INPUTS[:5]], ids=[w[0] for w in WRONG_INPUTS[:5]])
def test_wrong_input_is_refused_through_executorch(what, inputs, program):
    exported = program("forced_half")
    arrays = {
        "a": np.ones((3, 5), np.float32),
        "b": np.ones(5, np.float32),
        "ids": np.ones(5, np.int64),
        "matrix": np.ones((1, 5), np.float32),
        "larger": np.ones((4, 5), np.float32),
    }
    session = exported.open("executorch")
    with pytest.raises(RuntimeError):
        session.run(*(arrays[name] for name in inputs))
    exported.check_calls(session)


@pytest.mark.parametrize("length", [65, 100])
def test_input_past_its_largest_size_is_named(length, program, capfd):
    exported = program("q4_dynamic_length")
    session = exported.open("nibble")
    sentence = error_of(session, [np.zeros((1, length), np.int64)], capfd)
    assert sentence == f"input 0 has shape [1, {length}], but the program takes at most [1, 64]"
    exported.check_calls(session)


def test_static_size_must_match(program, capfd):
    exported = program("forced_half")
    session = exported.open("nibble")
    sentence = error_of(session, [np.ones((2, 5), np.float32), np.ones(5, np.float32)], capfd)
    assert "input 0 has shape [2, 5]" in sentence
    exported.check_calls(session)
