"""Devices by their engine."""

import json
import re
import subprocess
import sys
from importlib import metadata

import pytest

import nibble
from conformance.command import NO_GPU, fail, pytestmark, succeed  # noqa: F401


@pytest.fixture
def all_devices(monkeypatch) -> list[nibble.DeviceInfo]:
    """Those of every engine that is here, whichever one the tests run on."""
    monkeypatch.delenv("NIBBLE_ENGINE", raising=False)
    return nibble.devices()


def test_a_place_in_the_list_means_that_adapter(all_devices):
    for info in all_devices:
        with nibble.Device(info.index) as device:
            assert (device.info.index, device.info.engine) == (info.index, info.engine)
        with nibble.Device(info) as device:
            assert (device.info.number, device.info.engine) == (info.number, info.engine)


def test_an_engine_beside_a_device_that_has_another_is_refused(all_devices, program):
    info = all_devices[0]
    other = "wgpu" if info.engine == "dawn" else "dawn"
    sentence = f"engine is '{other}', but the device that is given is one of {info.engine}"
    with pytest.raises(nibble.NibbleError, match=sentence):
        nibble.Device(info, engine=other)
    with nibble.Device(info, engine=info.engine) as device, pytest.raises(nibble.NibbleError, match=sentence):
        nibble.load(program("q4_dynamic_length").path, device, engine=other)


def test_an_engine_that_does_not_exist_is_named(program):
    for use in (nibble.devices, lambda engine: nibble.Device(engine=engine)):
        with pytest.raises(nibble.NibbleError, match='there is no engine "metal"; there are: '):
            use("metal")
    assert not nibble.lib.nibble_set_engine_library(b"", b"/nonexistent")
    assert nibble.lib.nibble_error().startswith(b'there is no engine ""')


def test_inspect_plans_for_the_engine_that_is_named(program, tmp_path):
    path = program("q4_dynamic_length").path
    engine = nibble.devices()[0].engine
    assert "plan for default limits" in succeed("inspect", path, env=NO_GPU)
    assert "plan for default limits" not in succeed("inspect", path, "--engine", engine)
    assert "--engine" in fail("inspect", path, "--engine", engine, "--device-profile", tmp_path, code=2)


# Ctrl-C while Dawn is loaded, in each of the first calls that want it.
INTERRUPTED = """
import json, signal
import nibble
from nibble import _engines
signal.signal(signal.SIGINT, signal.default_int_handler)
load = _engines._dawn_functions
def interrupted():
    signal.raise_signal(signal.SIGINT)
    return load()
_engines._dawn_functions = interrupted
for use in (nibble.devices, nibble.Device, lambda: nibble.devices("dawn")):
    try:
        use()
        print("not interrupted")
    except KeyboardInterrupt:
        pass
_engines._dawn_functions = load
print(json.dumps([[info.engine, info.name] for info in nibble.devices()]))
"""


def test_ctrl_c_while_dawn_is_loaded_comes_out_of_the_call_and_the_next_one_has_it(all_devices):
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == [[info.engine, info.name] for info in all_devices]


# A Python in which the package wgpudawn is not found.
WITHOUT_DAWN = """
import nibble
from nibble import _engines
_engines._dawn_functions = dict
try:
    nibble.devices("dawn")
except nibble.NibbleError as error:
    print(error)
"""


def test_without_dawn_the_sentence_names_the_extra_that_installs_it(monkeypatch):
    monkeypatch.delenv("NIBBLE_DAWN_LIBRARY", raising=False)
    done = subprocess.run([sys.executable, "-c", WITHOUT_DAWN], capture_output=True, text=True, timeout=120)
    told = re.search(r"pip install '([\w-]+)\[(\w+)\]'", done.stdout)
    assert told, done.stdout + done.stderr
    # The installed package has this name, and this extra brings Dawn.
    wanted = [text for text in metadata.requires(told[1]) if re.search(rf"extra == ['\"]{told[2]}['\"]", text)]
    assert [text.startswith("wgpudawn") for text in wanted] == [True]
