"""Text generation where sessions come and go, threads share them, and Ctrl-C ends a call."""

import gc
import itertools
import subprocess
import sys
import threading

import numpy as np
import pytest

import nibble
from conformance.test_generate_hostile import refused
from nibble import _native
from nibble._interrupt import StopCheck
from nibble._options import take_path
from nibble._text import generator
from support.scripted_model import CONTEXT, Script

NEVER = []


@pytest.fixture
def folder(tmp_path):
    return Script().make(tmp_path / "model")


@pytest.fixture
def model(folder):
    with nibble.LanguageModel(folder) as loaded:
        yield loaded


@pytest.mark.host
def test_saving_can_be_interrupted(model, tmp_path, monkeypatch):
    def interrupted(path):
        _native.watch._raised.append(KeyboardInterrupt())  # as if a handler had run in the call
        return take_path(path)

    with model.session() as session:
        session.generate([1, 2, 3], max_tokens=1).run()
        monkeypatch.setattr(generator, "take_path", interrupted)
        with pytest.raises(KeyboardInterrupt):
            session.save(tmp_path / "saved")
        assert not (tmp_path / "saved").exists()


def test_no_session_is_made_that_nobody_uses(folder):
    with nibble.LanguageModel(folder) as model:
        loaded = model.device.live_objects
        with model.session() as session:
            session.generate([1], max_tokens=1).run()
            objects = model.device.live_objects
            assert objects > loaded
            assert session.generate([1], regex="a").run() == "a"
            assert model.context_length == CONTEXT
            assert model.device.live_objects == objects
        assert model.device.live_objects == loaded
        assert model.model.states
        assert model.device.live_objects > loaded
        model.model.cancel()
    assert "this model is closed" in str(refused(lambda: model.model.states))
    refused(model.model.cancel)


# Threads.


@pytest.mark.host
def test_figures_can_be_read_while_a_step_is_computed(folder):
    got, threads = [], []

    def read() -> None:
        got.append((generation.usage.prompt_tokens, len(generation._session.tokens)))

    @StopCheck
    def start_reading() -> bool:
        if not threads:
            threads.append(threading.Thread(target=read))
            threads[0].start()
            threads[0].join(0.05)
        return False

    def run() -> None:
        _native.lib.nibble_set_stop_check(start_reading)  # of this thread
        generation.run()

    with nibble.LanguageModel(folder, max_batch_work=1) as model:
        generation = model.generate([1] * 200, max_tokens=4, stop_ids=NEVER)
        worker = threading.Thread(target=run)
        worker.start()
        worker.join()
        threads[0].join()
    assert [tokens for tokens, _ in got] == [200]


def test_a_session_that_is_closed_while_it_generates_says_so(model):
    session = model.session()
    generation = session.generate([1], stop_ids=NEVER)
    next(generation)
    closer = threading.Thread(target=session.close)
    closer.start()
    closer.join()
    assert "closed" in str(refused(lambda: list(generation)))
    assert "closed" in str(refused(lambda: session.generate([1])))
    refused(generation.cancel)


def test_a_model_that_is_closed_lets_its_sessions_go_on(folder):
    model = nibble.LanguageModel(folder)
    device, session = model.device, model.session()
    generation = session.generate([1], max_tokens=5, stop_ids=NEVER)
    next(generation)
    model.close()
    assert len(generation.ids) + len(list(generation)) == 5
    refused(lambda: model.generate([1]))
    refused(model.session)
    session.close()
    assert device.info.name


def test_threads_that_share_a_session_get_tokens_or_a_sentence(model):
    session = model.session()
    generation = session.generate([1], stop_ids=NEVER)
    sentences, taken = [], []

    def take() -> None:
        try:
            for piece in generation:
                taken.append(piece)
        except nibble.NibbleError as error:
            sentences.append(str(error))

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all("another thread is using this session" in sentence for sentence in sentences)
    list(generation)
    assert len(session.generate([1], max_tokens=3, stop_ids=NEVER).run()) > 0
    session.close()


def test_sessions_come_and_go_while_others_generate(model):
    failures = []

    def run(seed: int) -> None:
        rng = np.random.default_rng(seed)
        try:
            for _ in range(10):
                with model.session() as session:
                    generation = session.generate([1] * int(rng.integers(1, 99)), max_tokens=9, stop_ids=NEVER)
                    for _ in itertools.islice(generation, int(rng.integers(0, 12))):
                        pass
                    with session.fork() as other:
                        other.generate([1, 2], max_tokens=2, stop_ids=NEVER).run()
        except BaseException as error:
            failures.append(error)

    model.generate([1], max_tokens=1).run()  # makes the model's own session
    gc.collect()  # what other tests left
    before = model.device.live_objects
    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert model.device.live_objects == before


# Ctrl-C.

INTERRUPTED = """
import os, signal, sys, threading, nibble
where, folder = sys.argv[1:]
signal.signal(signal.SIGINT, signal.default_int_handler)

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)

if where == "load":
    try:
        nibble.LanguageModel(folder, on_progress=lambda done, total: interrupt())
    except KeyboardInterrupt:
        print("interrupted")
model = nibble.LanguageModel(folder, max_batch_work=1)
generation = model.generate([1] * 200, stop_ids=[])
if where == "decode":
    next(generation)
try:
    if where in ("prompt", "decode"):
        timer = threading.Timer(0.002, interrupt)
        timer.start()
    while True:
        if next(generation, None) is None:
            # It was too quick.
            generation = model.generate([1] * 200, stop_ids=[])
        if where == "between" and len(generation.ids) == 3:
            interrupt()
        if where == "load":
            break
except KeyboardInterrupt:
    print("interrupted")
print(len(list(model.generate([2] * 20, max_tokens=4, stop_ids=[]))))
print([piece for piece in generation] if model._own._current is generation else "ended")
"""


@pytest.mark.host
@pytest.mark.parametrize("where", ["load", "prompt", "decode", "between"])
def test_ctrl_c_is_raised_and_the_session_goes_on(folder, where):
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, where, folder], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["interrupted", "4", "ended"]


def test_nibble_generate_of_a_path_has_usage_at_the_end_and_closes(folder):
    generation = nibble.generate(folder, [1, 2, 3], max_tokens=4, stop_ids=NEVER)
    model = generation._model
    assert len("".join(map(str, generation))) >= 1
    assert (generation.usage.prompt_tokens, generation.usage.completion_tokens) == (3, 4)
    assert generation.stats["device"]
    refused(lambda: model.generate([1]))
    refused(lambda: nibble.generate(folder, [1] * (CONTEXT + 1)))
