"""A language model's caches between calls: forked, rewound, reset, saved and restored, against eager torch's logits."""

import subprocess
import sys
import threading

import numpy as np
import pytest

import nibble
from conformance.test_llm import check_logits

NAMES = ["llm_4w_head_18", "llm_qwen3_head_20"]
# The first calls are a prompt of 9 tokens and 20 single ones.
PROMPT, TOKENS = 9, 20


class Talk:
    """The first calls of a model's script, in one session."""

    def __init__(self, exported, session, f16_cache: bool = False):
        # Half precision in the caches costs about 1e-3.
        self.atol = max(exported.case.atol, 2e-2 if f16_cache else 0)
        self.calls = exported.calls("torch")[: 1 + TOKENS]
        self.session = session

    def run(self, first: int, end: int) -> list[np.ndarray]:
        """Calls first to end, each against eager torch."""
        return [self._call(index) for index in range(first, end)]

    def _call(self, index: int) -> np.ndarray:
        inputs, (expected,) = self.calls[index]
        logits = self.session.run(*inputs)
        check_logits(logits, expected, self.atol, f"call {index}")
        return logits

    def at(self, session) -> "Talk":
        talk = object.__new__(Talk)
        talk.atol, talk.calls, talk.session = self.atol, self.calls, session
        return talk


def same(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    return len(one) == len(other) and all(np.array_equal(*pair) for pair in zip(one, other, strict=True))


def rows_of(session) -> int:
    (rows,) = {state.rows for state in session.states}
    return rows


@pytest.fixture(params=[False, True], ids=["f32_cache", "f16_cache"])
def f16_cache(request) -> bool:
    return request.param


@pytest.mark.parametrize("name", NAMES)
def test_a_fork_goes_on_with_the_same_logits(name, f16_cache, program):
    exported = program(name)
    with nibble.load(exported.path, f16_cache=f16_cache) as model:
        talk = Talk(exported, model, f16_cache)
        talk.run(0, 6)
        fork = model.fork()
        other = fork.fork()
        rest = talk.run(6, 12)
        assert same(talk.at(fork).run(6, 12), rest)
        fork.run([[1, 2, 3]], [0])  # its own way, which the others do not see
        assert same(talk.at(other).run(6, 12), rest)
        talk.run(12, 13)


@pytest.mark.parametrize("name", NAMES)
def test_a_rewound_session_computes_the_same_again(name, f16_cache, program):
    exported = program(name)
    with nibble.load(exported.path, f16_cache=f16_cache) as model:
        talk = Talk(exported, model, f16_cache)
        talk.run(0, 4)
        assert rows_of(model) == PROMPT + 3
        rest = talk.run(4, 21)
        model.rewind(PROMPT + 3)
        assert rows_of(model) == PROMPT + 3
        assert same(talk.run(4, 21), rest)
        model.rewind(PROMPT)
        assert same(talk.run(1, 21)[3:], rest)
        model.reset()
        assert rows_of(model) == 0
        assert same(talk.run(0, 21)[4:], rest)


def test_a_rewind_names_both_numbers(program):
    with nibble.load(program("llm_4w_head_18").path) as model:
        model.run([[1, 2, 3]], [0])
        with pytest.raises(nibble.NibbleError, match="cannot be rewound to row 4: 3 are in use") as error:
            model.rewind(4)
        assert error.value.code == "out_of_range"
        for far in (-1, 1 << 70):
            with pytest.raises(nibble.NibbleError, match=f"cannot be rewound to row {far}"):
                model.rewind(far)
        with pytest.raises(TypeError):
            model.rewind("1")
        assert rows_of(model) == 3


RESTORE = """
import sys, numpy, nibble
path, saved, half, tokens, place, out = sys.argv[1:]
with nibble.load(path, f16_cache=half == "True") as model:
    model.restore(saved)
    numpy.save(out, model.run(numpy.load(tokens), numpy.load(place)))
"""


@pytest.mark.parametrize("name", NAMES[:1])
def test_a_saved_session_goes_on_in_another_session_and_process(name, f16_cache, program, tmp_path):
    exported = program(name)
    saved = tmp_path / "saved"
    with nibble.load(exported.path, f16_cache=f16_cache) as model:
        talk = Talk(exported, model, f16_cache)
        talk.run(0, 6)
        model.save(saved)
        assert [path.name for path in tmp_path.iterdir()] == ["saved"]
        rest = talk.run(6, 10)
        with model.session() as other:
            other.run([[5, 6, 7, 8]], [0])
            other.restore(saved)
            assert rows_of(other) == PROMPT + 5
            assert same(talk.at(other).run(6, 10), rest)
    arrays = [tmp_path / "tokens.npy", tmp_path / "place.npy", tmp_path / "out.npy"]
    for array, path in zip(talk.calls[6][0], arrays, strict=False):
        np.save(path, array)
    command = [sys.executable, "-c", RESTORE, exported.path, saved, str(f16_cache), *arrays]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert np.array_equal(np.load(arrays[-1]), rest[0])


def test_a_saved_session_of_another_model_is_refused(program, tmp_path):
    saved = tmp_path / "saved"
    with nibble.load(program(NAMES[0]).path) as model:
        model.run([[1, 2, 3]], [0])
        model.save(saved)
        with nibble.load(program(NAMES[1]).path) as other, pytest.raises(nibble.NibbleError, match="another program"):
            other.restore(saved)
        with (
            nibble.load(program(NAMES[0]).path, f16_cache=True) as half,
            pytest.raises(nibble.NibbleError, match=r"saved with another layout: .* f16_cache"),
        ):
            half.restore(saved)
        saved.write_bytes(saved.read_bytes()[:-9])
        expected = model.run([[4]], [3])
        with pytest.raises(nibble.NibbleError, match="is cut off"):
            model.restore(saved)
        assert rows_of(model) == 4
        assert np.array_equal(model.run([[4]], [3]), expected)


def test_forks_on_threads_do_not_mix(program):
    exported = program(NAMES[0])
    with nibble.load(exported.path) as model:
        talk = Talk(exported, model)
        talk.run(0, 3)
        failures = []

        def go_on(fork) -> None:
            try:
                with fork:
                    for _ in range(3):
                        talk.at(fork).run(3, 10)
                        fork.rewind(PROMPT + 2)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=go_on, args=(model.fork(),)) for _ in range(2)]
        for thread in threads:
            thread.start()
        # Forking goes on while they run.
        for _ in range(5):
            with model.fork() as fork:
                talk.at(fork).run(3, 4)
        for thread in threads:
            thread.join()
        assert not failures


def test_forks_and_saves_leave_no_gpu_object(program, tmp_path):
    with nibble.Device() as device:
        before = device.live_objects
        with nibble.load(program(NAMES[0]).path, device) as model:
            model.run([[1, 2, 3]], [0])
            loaded = device.live_objects
            for _ in range(5):
                with model.fork() as fork:
                    fork.save(tmp_path / "saved")
                    fork.reset()
                    fork.restore(tmp_path / "saved")
                assert device.live_objects == loaded
        assert device.live_objects == before


def test_a_closed_session_does_none_of_it(program, tmp_path):
    with nibble.load(program(NAMES[0]).path) as model:
        session = model.session()
        session.close()
        for call in (lambda: session.rewind(0), session.reset, session.fork, lambda: session.save(tmp_path / "x")):
            with pytest.raises(nibble.NibbleError, match="this session is closed"):
                call()


def test_the_c_api_submits_and_waits(program):
    exported = program("q4_dynamic_length")
    (array,) = exported.calls()[0][0]
    with nibble.load(exported.path) as model, model._own._handle.use() as session:
        expected = model(array)
        result = np.empty_like(expected)
        given = nibble._native.Tensor(dtype=7, rank=array.ndim, data=array.ctypes.data, bytes=array.nbytes)
        given.shape[: array.ndim] = array.shape
        wanted = nibble._native.Tensor(dtype=5, data=result.ctypes.data, bytes=result.nbytes)
        assert nibble.lib.nibble_session_set_inputs(session, given, 1)
        assert nibble.lib.nibble_session_submit(session, wanted, 1)
        with pytest.raises(nibble.NibbleError, match="a call of this session is in flight"):
            model(array)
        assert nibble.lib.nibble_session_wait(session)
        assert np.array_equal(result, expected)
