"""What was found with a driver that fails, by name; and what SECURITY.md says about it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from faults.sweep import WGPU_MAY_ABORT

HERE = Path(__file__).resolve().parent
ENGINE = os.environ.get("NIBBLE_ENGINE", "")
on_dawn = pytest.mark.skipif(ENGINE != "dawn", reason="wgpu-native aborts")


def outcomes(*faults: tuple[str, int, str], stage: str = "calls") -> list[str]:
    """What the sweep says of faults; it fails where something went wrong."""
    words = ["--stage", stage, *(word for fault in faults for word in ("--fault", *map(str, fault)))]
    done = subprocess.run([sys.executable, HERE / "sweep.py", *words], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return re.findall(r"[^ ]+ {2,}[a-z ]+ {2,}(\d+ .*)", done.stdout)


LOST = """
import sys
sys.path.insert(0, sys.argv[1])
from faults.trial import Trial, make_program, nibble, use_driver, os
driver = use_driver(os.environ["VK_ICD_FILENAMES"])
trial = Trial(driver, make_program())
(device, model, session), failed = trial.use(["calls"])
states = session.states
driver.nibble_faults_set(b"vkQueueSubmit", 1, -4)
place, ids, _ = trial.calls_of_program[0]

def error_of(call):
    try:
        call()
    except nibble.NibbleError as error:
        assert error.code == "device_lost" and "is lost" in str(error), error
        return str(error)
    raise AssertionError("a call on a lost device succeeded")

uses = [
    lambda: model.run(place, ids),
    lambda: session.run(place, ids),
    model.session,
    lambda: nibble.load(trial.path, device=device),
    session.fork,
    lambda: session.save(trial.own("state")),
    session.reset,
    lambda: session.rewind(0),
    lambda: session.run(place, ids),
    lambda: nibble.tune(trial.path, device=device, tune_ms=100, output=trial.own("tuning")),
]
said = {error_of(use) for use in uses}
assert len(said) == 1, said
assert session.states == states
assert not trial.own("state").exists() and not trial.own("tuning").exists()
other, failed = trial.use(["calls"])
assert failed is None, failed
assert {error_of(use) for use in uses} == said
for one in (session, model, device, *reversed(other)):
    one.close()
assert (driver.nibble_faults_devices(), driver.nibble_faults_memories()) == (0, 0)
"""


@on_dawn
def test_after_a_device_lost_by_the_driver_another_opens_and_the_old_objects_answer_with_the_error():
    done = subprocess.run([sys.executable, "-c", LOST, str(HERE.parent)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


@on_dawn
def test_a_wait_in_which_the_driver_loses_the_device_ends():
    assert outcomes(("vkWaitForFences", 1, "device lost")) == ["1 device failed"]


def test_a_driver_that_fails_while_adapters_are_looked_for_is_found_the_next_time():
    answers = outcomes(("vkCreateInstance", 1, "out of host memory"), ("vkEnumeratePhysicalDevices", 1, "device lost"))
    assert answers == ["1 right", "1 right"]


@pytest.mark.skipif(ENGINE != "wgpu", reason="Dawn makes no buffer for a small write")
def test_a_call_in_flight_ends_with_an_error_where_another_finds_no_memory_for_its_inputs():
    for function in ("vkCreateBuffer", "vkBindBufferMemory"):
        faults = [(function, call, "out of device memory") for call in range(1, 5)]
        (answer,) = outcomes(*faults, stage="halves")
        assert "abort" not in answer


def test_security_md_names_the_calls_in_which_wgpu_native_may_abort():
    text = (HERE.parents[1] / "SECURITY.md").read_text()
    engines = text.split("\n## Engines\n")[1].split("\n## ")[0]
    assert sorted(set(re.findall(r"`(vk\w+)`", engines))) == sorted(WGPU_MAY_ABORT)
