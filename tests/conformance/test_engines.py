"""Devices by their engine."""

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
