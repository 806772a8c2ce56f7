"""Chooses the adapter, before anything opens a device, and hands out exported programs."""

import functools
import gc
import glob
import json
import os
import subprocess
from pathlib import Path

import pytest

# How each adapter's device calls itself.
DEVICE_NAMES = {"lavapipe": "llvmpipe", "swiftshader": "SwiftShader"}
ADAPTER = os.environ.get("NIBBLE_TEST_ADAPTER", "")
# Encoders' programs are made once, as for ./run, and not in the user's own cache.
os.environ.setdefault("NIBBLE_CACHE", str(Path(__file__).resolve().parents[2] / "build" / "cache"))


def driver_file(adapter: str) -> str:
    """The Vulkan driver's description, where Debian's packages put it."""
    if adapter == "lavapipe":
        found = glob.glob("/usr/share/vulkan/icd.d/lvp_icd*.json")
    else:
        listed = subprocess.run(["dpkg", "-L", "chromium", "chromium-common"], capture_output=True, text=True)
        found = [line for line in listed.stdout.splitlines() if "swiftshader" in line and line.endswith(".json")]
    if not found:
        raise pytest.UsageError(f"NIBBLE_TEST_ADAPTER is {adapter}, but its Vulkan driver is not installed.")
    return found[0]


if ADAPTER:
    if ADAPTER not in DEVICE_NAMES:
        raise pytest.UsageError(f"NIBBLE_TEST_ADAPTER is {ADAPTER}, but it must be one of {', '.join(DEVICE_NAMES)}.")
    os.environ["VK_ICD_FILENAMES"] = driver_file(ADAPTER)


def pytest_configure(config):
    # torch and executorch warn of their own deprecations, hundreds of times.
    for kind in ("DeprecationWarning", "FutureWarning"):
        config.addinivalue_line("filterwarnings", f"ignore::{kind}")


def pytest_collection_modifyitems(config, items):
    """Every day, what is the same on every adapter runs on the first one alone."""
    from conformance.programs import IS_QUICK

    if IS_QUICK:
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("host")])
        items[:] = [item for item in items if not item.get_closest_marker("host")]


def prepare_exporter() -> None:
    """When the first test exports, and not before: most processes never do."""
    from conformance.export_programs import prepare_once

    prepare_once()


@functools.cache
def shared_device(_process: int, *_environment: str | None):
    import nibble

    return nibble.Device()


def open_device(own, device, engine):
    """What loads a program without naming a device gets the same one as others in its process: opening it and compiling
    the same kernels again would take most of the time of these tests."""
    if device is not None or engine is not None:
        return own(device, engine)
    key = (os.getpid(), *map(os.environ.get, ("NIBBLE_DEVICE", "NIBBLE_ENGINE", "NIBBLE_WGPU_LIBRARY")))
    if shared_device(*key).has_failed:
        shared_device.cache_clear()
    return shared_device(*key)


def pytest_sessionstart():
    import nibble._export
    import nibble._loading

    nibble._export._keep_fusion_patterns = prepare_exporter
    nibble._loading._open = functools.partial(open_device, nibble._loading._open)


def pytest_collection_finish():
    # Modules and tests stay to the end, and are many: nobody need look among them for garbage.
    gc.collect()
    gc.freeze()


def pytest_report_header():
    import nibble

    return "adapters: " + ", ".join(device.name for device in nibble.devices())


def pytest_sessionfinish():
    """Writes down which cases passed, where ./test asks for it: a run of some tests says nothing of the others."""
    if out := os.environ.get("NIBBLE_RAN"):
        from conformance.programs import LEFT_OUT, PASSED

        Path(out).parent.mkdir(parents=True, exist_ok=True)
        Path(out).write_text(json.dumps(sorted(PASSED | LEFT_OUT)))


@pytest.fixture(scope="session", autouse=True)
def device_name() -> str:
    """The device that programs run on; it must be the one that was asked for."""
    import nibble

    devices = nibble.devices()
    assert devices, "there is no GPU adapter, not even a software one"
    if ADAPTER:
        assert all(DEVICE_NAMES[ADAPTER] in device.name for device in devices), [device.name for device in devices]
    return devices[0].name


@pytest.fixture(scope="session")
def programs() -> Path:
    """The folder of exported programs."""
    from conformance.export_programs import DEFAULT_OUT

    return Path(os.environ.get("NIBBLE_PROGRAMS", DEFAULT_OUT))


@pytest.fixture
def program(programs):
    """Gives an exported program by its name, exporting it where that has not been done."""
    from conformance.programs import ExportedProgram

    return lambda name: ExportedProgram.get(name, programs)
