"""Nibble as a backend of stock ExecuTorch: registering, loading, failing, unloading."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import executorch.runtime
import numpy as np
import pytest
import torch

import nibble
from conformance.programs import OnExecutorch
from nibble import _native
from support.resident import resident_bytes

INVALID_ARGUMENT = "0x12"
NOT_FOUND = "0x:20"
NO_ADAPTER = {"VK_ICD_FILENAMES": "/nonexistent", "__EGL_VENDOR_LIBRARY_FILENAMES": "/nonexistent"}
NO_WGPU = {"NIBBLE_WGPU_LIBRARY": "/nonexistent/libwgpu_native.so", "NIBBLE_ENGINE": "wgpu"}

# For a process that runs programs: the runtime takes one class from the exporter's package, and all of that takes three
# seconds to import. Here it is a package that nobody ran, in which the class's module is found.
NO_EXPORTER = """
import importlib.util, sys
sys.modules["executorch.exir"] = importlib.util.module_from_spec(importlib.util.find_spec("executorch.exir"))
"""

USE_PROGRAM = """
import numpy, sys, torch
from executorch.runtime import Runtime
folder = sys.argv[1]
method = Runtime.get().load_program(f"{folder}/model.pte").load_method("forward")
result = method.execute([torch.from_numpy(numpy.load(f"{folder}/in0_0.npy"))])[0]
assert numpy.array_equal(result.numpy(), numpy.load(f"{folder}/torch0_0.npy"))
"""


def python(code: str, *arguments, **variables: str) -> subprocess.CompletedProcess:
    """A fresh process; its import path is this one's, wherever Nibble is imported from."""
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = {**os.environ, "PYTHONPATH": paths, **variables}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


def test_backend_is_registered_and_available():
    assert nibble.registered()
    assert nibble.registered().reason == ""
    registry = executorch.runtime.Runtime.get().backend_registry
    assert registry.is_available("VulkanBackend")
    assert registry.registered_backend_names.count("VulkanBackend") == 1


@pytest.mark.parametrize(
    "order",
    [
        "import nibble, sys\ndel sys.modules['nibble'], sys.modules['nibble._register']\nimport nibble",
        "import executorch.runtime\nimport nibble",
    ],
    ids=["before_and_twice", "after"],
)
@pytest.mark.host
def test_nibble_may_be_imported_before_or_after_executorch_or_twice(order, program):
    done = python(NO_EXPORTER + order + USE_PROGRAM, program("q4_dynamic_length").folder)
    assert done.returncode == 0, done.stderr


@pytest.mark.host
def test_backend_that_somebody_else_registered_stays(tmp_path):
    other = shutil.copy(_native.LIBRARY_DIR / "libnibble_executorch.so", tmp_path / "other.so")
    code = """
import ctypes, importlib.util, sys
library, runtime, other = sys.argv[1:]
for path in sys.argv[1:]:
    ctypes.CDLL(path)
import nibble
assert not nibble.registered()
assert "Another library has registered" in nibble.registered().reason
assert isinstance(nibble.devices(), list)
"""
    runtime = Path(executorch.runtime.__file__).parent.parent / "lib" / "libexecutorch.so"
    done = python(code, _native.LIBRARY_DIR / "libnibble.so", runtime, other)
    assert done.returncode == 0, done.stderr


@pytest.mark.host
def test_without_executorch_nibble_works_alone(program):
    exported = program("q4_dynamic_length")
    code = """
import sys
sys.modules["executorch"] = None
import nibble
assert not nibble.registered()
assert nibble.registered().reason == "The package 'executorch' is not installed."
assert nibble.load(sys.argv[1])([[1, 2]]).shape[:2] == (1, 2)
"""
    done = python(code, exported.path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [(NO_ADAPTER, "there is no GPU adapter"), (NO_WGPU, "wgpu-native could not be loaded")],
    ids=["no_adapter", "no_wgpu"],
)
@pytest.mark.host
def test_without_a_gpu_loading_fails_cleanly(variables, sentence, program):
    code = """
import sys, nibble
from executorch.runtime import Runtime
assert nibble.registered()
assert not Runtime.get().backend_registry.is_available("VulkanBackend")
try:
    Runtime.get().load_program(sys.argv[1]).load_method("forward")
except RuntimeError as error:
    print(error)
"""
    done = python(NO_EXPORTER + code, program("q4_dynamic_length").path, **variables)
    assert done.returncode == 0, done.stderr
    assert NOT_FOUND in done.stdout
    assert f"nibble: {sentence}" in done.stderr


def test_bad_id_is_an_error_code_and_one_sentence(program, capfd):
    exported = program("q4_dynamic_length")
    rows = len(exported.case.make_buffers()["weight"])
    session = exported.open("executorch")
    with pytest.raises(RuntimeError, match=INVALID_ARGUMENT):
        session.run(np.array([[1, 2, rows]]))
    sentences = re.findall("nibble: .*", capfd.readouterr().err)
    assert sentences == [
        f"nibble: et_vk.embedding_q4gsw.default: indices[0, 2] is {rows}, but the table has {rows} rows"
    ]
    exported.check_calls(session)


def test_what_there_is_to_say_about_a_load_is_in_the_log(program, tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("NIBBLE_CACHE", str(tmp_path))
    exported = program("q4_dynamic_length")
    nibble.tune(exported.path, tune_ms=1)
    (kept,) = tmp_path.glob("tunings/*.json")
    kept.write_text("{")
    exported.check_calls(exported.open("executorch"))
    log = capfd.readouterr().err
    assert "the tuning is not a JSON object" in log
    assert f"nibble: {tmp_path}" in log


def test_two_programs_at_once(program):
    first, second = program("q4_dynamic_length"), program("q4_mean")
    sessions = [first.open("executorch"), second.open("executorch"), first.open("executorch")]
    for (a, wanted_a), (b, wanted_b) in zip(first.calls(), second.calls(), strict=False):
        first.check(sessions[0].run(*a), wanted_a)
        second.check(sessions[1].run(*b), wanted_b)
        first.check(sessions[2].run(*a), wanted_a)


def test_program_from_bytes(program):
    exported = program("q4_dynamic_length")
    loaded = executorch.runtime.Runtime.get().load_program(exported.path.read_bytes())
    inputs, expected = exported.calls()[0]
    result = loaded.load_method("forward").execute([torch.from_numpy(inputs[0])])[0]
    exported.check((result.numpy(),), expected)


@pytest.mark.parametrize("byte", range(0, 2000, 97))
def test_broken_blob_leaves_nothing(byte, program, tmp_path, capfd):
    """Wherever a byte is wrong, the program runs or Nibble says why not."""
    exported = program("q4_dynamic_length")
    content = bytearray(exported.path.read_bytes())
    place = content.index(b"VH00") + byte
    content[place] ^= 0xFF
    path = tmp_path / "broken.pte"
    path.write_bytes(content)
    with open_device() as count:
        before = count()
        failed = False
        try:
            OnExecutorch(path).run(np.zeros((1, 2), np.int64))
        except RuntimeError:
            failed = True
        assert len(re.findall("nibble: ", capfd.readouterr().err)) == failed
        assert count() == before


def test_thousand_loads_leave_nothing(program):
    exported = program("q4_dynamic_length")
    inputs, expected = exported.calls()[0]
    with open_device() as count:
        before = count()
        for load in range(1000):
            session = OnExecutorch(exported.path)
            assert count() > before
            if load % 100 == 0:
                exported.check(session.run(*inputs), expected)
            del session
            assert count() == before
            if load == 200:
                warm = resident_bytes()
        assert resident_bytes() - warm < 4 << 20


class open_device:  # noqa: N801
    """Keeps the device open, so that its own objects do not come and go; gives the number of live GPU objects."""

    def __enter__(self):
        self._device = nibble.Device()
        return lambda: self._device.live_objects

    def __exit__(self, *_):
        self._device.close()
