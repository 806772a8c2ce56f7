"""State that programs keep, and constants that they share."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conformance import memory_cases
from conformance.programs import ROUTES, OnNibble, every_route


@every_route(memory_cases.ALL)
def test_state_lasts_from_call_to_call(name, route, program):
    exported = program(name)
    exported.check_calls(exported.open(route))


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("name", [case.name for case in memory_cases.STATE])
def test_state_is_private_to_a_loaded_method(name, route, program):
    exported = program(name)
    calls = exported.calls()
    ahead, behind = exported.open(route), exported.open(route)
    exported.check(ahead.run(*calls[0][0]), calls[0][1])
    for call, (inputs, expected) in enumerate(calls):
        exported.check(behind.run(*inputs), expected, f", call {call} behind")
        if call + 1 < len(calls):
            inputs, expected = calls[call + 1]
            exported.check(ahead.run(*inputs), expected, f", call {call + 1} ahead")


@pytest.mark.parametrize("name", [case.name for case in memory_cases.STATE])
def test_state_is_private_to_a_session(name, program):
    exported = program(name)
    first = OnNibble(exported.path)
    exported.check_calls(first)
    with first.model.session() as second:
        for inputs, expected in exported.calls():
            result = second.run(*inputs)
            exported.check(result if isinstance(result, tuple) else (result,), expected, ", second session")


@pytest.mark.parametrize("route", ROUTES)
def test_refused_call_leaves_state_alone(route, program):
    exported = program("state_accumulates")
    calls = exported.calls()
    session = exported.open(route)
    exported.check(session.run(*calls[0][0]), calls[0][1])
    with pytest.raises(RuntimeError):
        session.run(calls[1][0][0].reshape(1, -1))
    for inputs, expected in calls[1:]:
        exported.check(session.run(*inputs), expected)


# In a process of its own: what other tests leave to be freed says nothing here.
CLOSED = """
import sys, time
from pathlib import Path
import nibble
from support.resident import resident_bytes

path, small = map(Path, sys.argv[1:])
with nibble.load(path):
    opened = resident_bytes()
wanted = opened - path.stat().st_size / 2
# Dawn waits a moment for it; if the machine is busy, the next one to be closed finds it.
for _ in range(100):
    if resident_bytes() < wanted:
        sys.exit()
    time.sleep(0.1)
    nibble.load(small).close()
sys.exit(f"{resident_bytes()} bytes are resident of {opened}, but it should be less than {wanted}")
"""


def test_closed_model_gives_its_memory_back(program):
    paths = [str(program(name).path) for name in ("q4_over_128_mib", "add")]
    tests = str(Path(__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", CLOSED, *paths], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": tests}
    )
    assert done.returncode == 0, done.stderr
