"""fork() after the GPU was used: a child gets an error from every call, waits for nobody, and ends at once."""

import pytest

from conformance.test_plugin import NO_EXPORTER, python

# A child prints what each call gave it, and ends by sys.exit or os._exit. An alarm ends one that hangs.
FORK = """
import os, signal, sys, threading
import nibble
path, when, forks = sys.argv[1], sys.argv[2], int(sys.argv[3])
device = nibble.Device()
model = nibble.load(path, device)
session = model.session()
if when != "after a load":
    model.run([[1, 2]]), session.run([[1, 2]])
done = threading.Event()

def work():
    while not done.is_set():
        model.run([[1, 2]])
        session.run([[1]])
        model.session().close()
        nibble.load(path, device).close()

workers = [threading.Thread(target=work) for _ in range(3 if when == "during calls" else 0)]
for worker in workers:
    worker.start()

def say(what, call):
    try:
        call()
        print(what, "ok", flush=True)
    except nibble.NibbleError as error:
        print(what, error.code, error, flush=True)

def child():
    say("run", lambda: model.run([[1, 2]]))
    say("session.run", lambda: session.run([[1]]))
    say("session", model.session)
    say("states", lambda: session.states)
    say("load", lambda: nibble.load(path))
    say("load", lambda: nibble.load(path, device))
    say("devices", nibble.devices)
    say("Device", nibble.Device)
    say("live_objects", lambda: device.live_objects)
    say("close", session.close)
    say("close", model.close)
    say("close", device.close)

failed = 0
for number in range(forks):
    if (pid := os.fork()) == 0:
        signal.alarm(120)
        child()
        if number % 2:
            os._exit(7)
        sys.exit(7)
    failed += os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 7
done.set()
for worker in workers:
    worker.join()
model.run([[1, 2]])
sys.exit(failed)
"""


@pytest.mark.parametrize(("when", "forks"), [("after a load", 2), ("after a call", 2), ("during calls", 10)])
def test_child_of_a_fork_gets_errors_and_ends(when, forks, program):
    done = python(FORK, program("q4_dynamic_length").path, when, forks)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 12 * forks
    for line in lines:
        what, answer = line.split(" ", 1)
        assert answer == "ok" if what == "close" else answer.startswith("gpu this process was forked from one"), line


def test_fork_before_the_gpu_is_used_leaves_both_processes_free(program):
    code = """
import os, sys, nibble
child = os.fork()
nibble.load(sys.argv[1])([[1, 2]])
sys.exit(child and os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = python(code, program("q4_dynamic_length").path)
    assert done.returncode == 0, done.stderr


def test_fork_in_the_progress_of_a_load_ends_the_child_s_load(program):
    code = """
import os, signal, sys, nibble
children = []
def fork(done, total):
    if not children:
        children.append(os.fork())
        if children == [0]:
            signal.alarm(120)
try:
    nibble.load(sys.argv[1], on_progress=fork)([[1, 2]])
except nibble.NibbleError as error:
    assert children == [0] and "was forked" in str(error)
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 7
"""
    done = python(code, program("q4_dynamic_length").path)
    assert done.returncode == 0, done.stderr


def test_fork_in_the_progress_of_a_tuning_ends_the_child_s_tuning(program, tmp_path):
    code = """
import os, signal, sys, nibble
children = []
def fork(done, total):
    if not children:
        children.append(os.fork())
        if children == [0]:
            signal.alarm(120)
output = sys.argv[2]
try:
    nibble.tune(sys.argv[1], on_progress=fork, output=output)
except nibble.NibbleError as error:
    assert children == [0] and "was forked" in str(error), error
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 7
assert os.path.exists(output)
"""
    done = python(code, program("q4_dynamic_length").path, tmp_path / "tuning.json")
    assert done.returncode == 0, done.stderr


@pytest.mark.host
def test_executorch_s_methods_fail_in_the_child(program):
    code = """
import os, signal, sys, torch, nibble
from executorch.runtime import Runtime
program = Runtime.get().load_program(sys.argv[1])
method, ids = program.load_method("forward"), torch.tensor([[1, 2]])
method.execute([ids])
child = os.fork()
if child:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    method.execute([ids])
    sys.exit()
signal.alarm(120)
for call in (lambda: method.execute([ids]), lambda: program.load_method("forward").execute([ids])):
    try:
        call()
    except Exception:
        continue
    sys.exit("a call succeeded")
sys.exit(7)
"""
    done = python(NO_EXPORTER + code, program("q4_dynamic_length").path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("this process was forked from one") == 2, done.stderr
