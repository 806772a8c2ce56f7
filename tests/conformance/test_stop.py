"""Calls and loads that are stopped: by another thread, by Ctrl-C, in Python and in the command."""

import io
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import executorch.runtime
import numpy as np
import pytest
import torch

import nibble
from conformance.command import COMMAND
from support.vk00 import Blob

SIZE = 64


@pytest.fixture(autouse=True)
def default_ctrl_c():
    """A process that a script started in its background ignores Ctrl-C, and so do its children."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


# A submission for each dispatch.
OPTIONS = {"without_passes": ["elementwise_chains"], "max_batch_work": 1}


def sums(path, count: int):
    """A program that adds x to itself `count` times."""
    b = Blob()
    x = total = b.tensor("float32", [SIZE])
    for _ in range(count):
        added = b.tensor("float32", [SIZE])
        b.op("aten.add.Tensor", [total, x, b.integer(1), added])
        total = added
    b.inputs, b.outputs = [x], [total]
    path.write_bytes(b.pte())
    return path


@pytest.fixture(scope="module")
def long_path(tmp_path_factory):
    return sums(tmp_path_factory.mktemp("stop") / "long.pte", 3000)


@pytest.fixture(scope="module")
def long(long_path):
    with nibble.load(long_path, **OPTIONS) as model:
        yield model


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    with nibble.load(sums(tmp_path_factory.mktemp("stop") / "short.pte", 200), **OPTIONS) as model:
        yield model


ONES = np.ones(SIZE, np.float32)


def during_a_call(model, act) -> threading.Thread:
    """Does something as soon as the model's own session is in a call."""

    def wait() -> None:
        while not model._own._lock.locked():
            time.sleep(0.001)
        act()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_another_thread_cancels_a_call_and_the_next_one_is_right(long, short):
    for _ in range(2):
        is_done = threading.Event()

        def cancel(is_done=is_done) -> None:
            while not is_done.wait(0.001):
                long.cancel()

        thread = during_a_call(long, cancel)
        with pytest.raises(nibble.NibbleError, match="the call was cancelled") as raised:
            long(ONES)
        is_done.set()
        thread.join()
        assert raised.value.code == "cancelled"
        short.cancel()  # no call: it does nothing
        assert np.array_equal(short(ONES), 201 * ONES)


def test_a_session_is_cancelled_alone(long, short):
    with short.session() as session:
        session.cancel()
        assert np.array_equal(session(ONES), 201 * ONES)
    with pytest.raises(nibble.NibbleError, match="this session is closed"):
        session.cancel()


def test_ctrl_c_interrupts_a_call(long, short):
    for _ in range(2):
        thread = during_a_call(long, lambda: os.kill(os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            long(ONES)
        thread.join()
        # Python alone would raise it as well, but after the whole call.
        assert nibble._native.ERROR_CODES[nibble.lib.nibble_error_code()] == "cancelled"
        assert "of its 3000 dispatches" in nibble.lib.nibble_error().decode()
        assert np.array_equal(short(ONES), 201 * ONES)


def test_what_a_signal_handler_raises_comes_out_of_the_call(long):
    def handle(*_) -> None:
        raise LookupError("from a handler")

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        thread = during_a_call(long, lambda: os.kill(os.getpid(), signal.SIGUSR1))
        with pytest.raises(LookupError, match="from a handler"):
            long(ONES)
        thread.join()
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_signal_handler_that_raises_nothing_lets_the_call_go_on(short):
    seen = []
    before = signal.signal(signal.SIGUSR1, lambda *_: seen.append(1))
    try:
        thread = during_a_call(short, lambda: os.kill(os.getpid(), signal.SIGUSR1))
        assert np.array_equal(short(ONES), 201 * ONES)
        thread.join()
        assert seen
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_signal_handler_may_close_or_cancel_a_session_but_not_call_it(long_path):
    said = []

    def handle(*_) -> None:
        for use in (lambda: session.states, lambda: session(ONES)):
            with pytest.raises(nibble.NibbleError) as error:
                use()
            said.append(str(error.value))
        session.cancel()
        session.close()

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        with nibble.load(long_path, **OPTIONS) as model:
            session = model._own
            thread = during_a_call(model, lambda: os.kill(os.getpid(), signal.SIGUSR1))
            with pytest.raises(nibble.NibbleError, match="the call was cancelled"):
                model(ONES)
            thread.join()
            with pytest.raises(nibble.NibbleError, match="this model is closed"):
                model(ONES)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert said == ["a signal's handler cannot use the session whose call it interrupts"] * 2


def test_a_signal_handler_that_forks_leaves_a_child_with_an_error(long):
    children = []
    before = signal.signal(signal.SIGUSR1, lambda *_: children.append(os.fork()))
    thread = during_a_call(long, lambda: os.kill(os.getpid(), signal.SIGUSR1))
    try:
        result = long(ONES)
        error = None
    except nibble.NibbleError as raised:
        error = str(raised)
    if children == [0]:
        os._exit(7 if error is not None and "fork" in error else 1)
    signal.signal(signal.SIGUSR1, before)
    thread.join()
    assert np.array_equal(result, 3001 * ONES)
    assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 7


def again_and_again(call) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        call()


def test_ctrl_c_in_a_call_of_executorch_leaves_nothing_for_ours(long_path, short):
    method = executorch.runtime.Runtime.get().load_program(long_path).load_method("forward")
    x = torch.ones(SIZE)
    for _ in range(3):
        timer = threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            again_and_again(lambda: method.execute([x]))
        timer.join()
        assert method.execute([x])[0][0] == 3001
        with pytest.raises(nibble.NibbleError, match="inputs"):
            short(ONES, ONES)


@pytest.mark.parametrize("options", [{}, {"on_progress": lambda *_: None}], ids=["alone", "with_progress"])
def test_ctrl_c_interrupts_a_load(options, program):
    # Python alone would raise it as well, but after the whole load: only one that failed says that it was cancelled.
    path = program("q4_llama_group_32").path
    for _ in range(20):
        timer = threading.Timer(0.03, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            again_and_again(lambda: nibble.load(path, **options).close())
        timer.join()
        if nibble.lib.nibble_error().decode() == "loading was cancelled":
            return
    pytest.fail("no load was cancelled")


# Raises at each step of the package's code in turn, as a handler may that comes there: what was made must go.
AT_EVERY_STEP = """
import sys
from pathlib import Path
import nibble

FILES = {str(Path(nibble.__file__).parent / name) for name in ("_program.py", "_native.py", "_trace.py")}

def interrupted(call, at):
    left = at
    def trace(frame, event, _):
        nonlocal left
        if frame.f_code.co_filename not in FILES:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
        return trace
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return False

def at_every_step(call):
    before, at = device.live_objects, 1
    while interrupted(call, at):
        assert device.live_objects == before, (call, at)
        traced()  # nobody else does
        at += 1
    assert device.live_objects == before and at > 30, (call, at)

def traced():
    with device.trace(sys.argv[2]):
        pass

with nibble.Device() as device:
    with nibble.load(sys.argv[1], device) as model:
        assert device.compiled_pipelines > 0
        at_every_step(lambda: nibble.Device())
        at_every_step(lambda: nibble.load(sys.argv[1], device))
        at_every_step(lambda: model.session())
        at_every_step(lambda: model.session().states)
        at_every_step(lambda: model.session().close())
        at_every_step(traced)
# Whoever opens a device that is open gets that one, with its kernels.
assert nibble.Device().compiled_pipelines == 0
"""


def test_an_interrupt_while_things_are_made_loses_none_of_them(tmp_path):
    command = [sys.executable, "-c", AT_EVERY_STEP, sums(tmp_path / "small.pte", 2), tmp_path / "trace.json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_a_progress_raised_does_not_come_out_of_another_call(program):
    def fail_at_the_end(done: int, total: int) -> None:
        if done == total:
            raise LookupError("from the progress")

    with pytest.raises(LookupError, match="from the progress"):
        nibble.load(program("q4_dynamic_length").path, on_progress=fail_at_the_end)
    with pytest.raises(nibble.NibbleError, match="no device matches"):
        nibble.Device("no such device")


def in_another_thread(call):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


@pytest.mark.parametrize("run", [lambda call: call(), in_another_thread], ids=["main_thread", "another_thread"])
def test_a_progress_that_fails_ends_the_load_at_once(program, run):
    seen = []

    def fail(done: int, total: int) -> None:
        seen.append((done, total))
        raise LookupError("from the progress")

    def check() -> None:
        with pytest.raises(LookupError, match="from the progress"):
            nibble.load(program("q4_llama_group_32").path, on_progress=fail)
        assert nibble.lib.nibble_error().decode() == "loading was cancelled"
        assert len(seen) == 1
        nibble.load(program("q4_llama_group_32").path).close()  # the next one is not ended

    run(check)


def caught(process: subprocess.Popen, number: int) -> bool:
    """Whether a process has a handler for a signal."""
    with open(f"/proc/{process.pid}/status") as status:
        line = next(line for line in status if line.startswith("SigCgt:"))
    return bool(int(line.split()[1], 16) >> (number - 1) & 1)


@pytest.fixture
def run_command(long_path, tmp_path):
    """A command that waits for its input, and how to give it."""
    if COMMAND is None:
        pytest.skip("the command nibble is not installed beside this Python")
    pipe = tmp_path / "x.npy"
    os.mkfifo(pipe)
    words = [COMMAND, "run", long_path, "--input", pipe, "--repeat", "1000000", "--max-batch-work", "1"]
    words += ["--without-pass", "elementwise_chains"]
    process = subprocess.Popen(list(map(str, words)), stderr=subprocess.PIPE, text=True)
    array = io.BytesIO()
    np.save(array, ONES)
    with open(pipe, "wb", buffering=0) as file:  # once the command reads, it has its handler

        def give() -> None:
            file.write(array.getvalue())
            file.close()

        yield process, give
    process.kill()
    process.communicate()


@pytest.mark.parametrize("when", ["before_the_load", "later"])
def test_ctrl_c_ends_the_command_with_one_sentence(when, run_command):
    process, give = run_command
    if when == "before_the_load":
        process.send_signal(signal.SIGINT)
    give()
    if when == "later":
        time.sleep(1)  # in the load or in a call: both end in the same way
        process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130
    assert said.startswith("nibble: ")
    assert said.count("\n") == 1
    assert "cancelled" in said


def test_a_second_ctrl_c_ends_the_command_at_once(run_command):
    process, _ = run_command
    assert caught(process, signal.SIGINT)
    process.send_signal(signal.SIGINT)
    while caught(process, signal.SIGINT):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=120) == -signal.SIGINT


@pytest.mark.skipif(COMMAND is None, reason="the command nibble is not installed beside this Python")
def test_a_command_that_was_told_to_ignore_ctrl_c_goes_on(long_path):
    process = subprocess.Popen(
        [COMMAND, "bench", str(long_path), "--calls", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )  # fmt: skip
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
        time.sleep(0.01)
    _, said = process.communicate()
    assert (process.returncode, said) == (0, "")
