"""Devices, models and sessions in Python: who shares what, who outlives whom, and what threads may do."""

import shutil
import threading

import numpy as np
import pytest

import nibble


def test_devices_are_described(device_name):
    device = nibble.devices()[0]
    assert (device.index, device.name) == (0, device_name)
    assert device.kind in ("discrete", "integrated", "cpu", "unknown")
    assert device.profile["max_storage_binding_size"] >= 128 << 20


@pytest.mark.parametrize("choose", [lambda d: d, lambda d: d.index, lambda d: d.kind, lambda d: d.name[:9].lower()])
def test_device_is_chosen(choose, program):
    device = nibble.devices()[0]
    with nibble.load(program("q4_dynamic_length").path, choose(device)) as loaded:
        assert loaded.device.info == device


def test_models_share_an_open_device(program, device_name):
    path = program("q4_dynamic_length").path
    with nibble.Device() as device:
        assert device.name == device_name
        with nibble.load(path, device) as one:
            compiled = device.compiled_pipelines
            with nibble.load(path, device) as other:
                assert one.device is other.device is device
                assert device.compiled_pipelines == compiled > 0
                device.close()
                assert np.array_equal(one([[1, 2]]), other([[1, 2]]))
    with pytest.raises(nibble.NibbleError, match="this device is closed"):
        nibble.load(path, device)


@pytest.mark.parametrize("name", ["state_accumulates", "state_is_replaced"])
def test_sessions_do_not_need_the_file_after_the_load(name, program, tmp_path):
    path = tmp_path / "model.pte"
    exported = program(name)
    shutil.copy(exported.path, path)
    model = nibble.load(path)
    path.write_bytes(b"")
    for session in (model.session(), model.session()):
        for inputs, expected in exported.calls():
            result = session(*inputs)
            exported.check(result if isinstance(result, tuple) else (result,), expected)


def test_close_on_one_thread_is_an_error_on_others(program):
    """And no crash: what they use is freed when they are done."""
    path = program("q4_dynamic_length").path
    for _ in range(10):
        model = nibble.load(path)
        errors = []

        def work(model=model, errors=errors):
            try:
                while True:
                    model.session()
            except nibble.NibbleError as error:
                errors.append(str(error))

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        model.close()
        for thread in threads:
            thread.join()
        assert errors == ["this model is closed"] * 3


def test_everything_at_once_while_a_model_and_its_device_close(program):
    """Each call gives its result, or says that what it needs is closed."""
    exported = program("q4_dynamic_length")
    inputs, expected = exported.calls()[0]

    def session_of(model):
        with model.session() as session:
            exported.check((session(*inputs),), expected)

    def load_on(model):
        nibble.load(exported.path, model.device).close()

    works = [
        session_of,
        load_on,
        lambda model: exported.check((model(*inputs),), expected),
        lambda model: model.constants,
        lambda model: model.states,
        lambda model: (model.device.name, model.device.live_objects, model.device.compiled_pipelines),
    ]
    for round in range(6):
        model = nibble.load(exported.path, nibble.Device())
        started = threading.Barrier(len(works) + 1)
        closed, failures = [], []

        def work(call, model=model, started=started, closed=closed, failures=failures):
            started.wait()
            try:
                while True:
                    call(model)
            except nibble.NibbleError as error:
                closed.append(str(error))
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(call,)) for call in works]
        for thread in threads:
            thread.start()
        started.wait()
        # Early in one round, and amid the calls in another.
        threading.Event().wait(0.02 * round)
        model.close()
        model.device.close()
        for thread in threads:
            thread.join()
        assert not failures
        assert sorted(closed) == ["this device is closed"] * 2 + ["this model is closed"] * 4


def test_unknown_device_is_an_error_with_all_names(program):
    with pytest.raises(nibble.NibbleError, match='no device matches "abacus"') as error:
        nibble.load(program("q4_dynamic_length").path, "abacus")
    assert error.value.code == "invalid_argument"
    assert nibble.devices()[0].name in str(error.value)


def test_closed_model_says_so_and_its_sessions_live_on(program):
    exported = program("q4_dynamic_length")
    inputs, expected = exported.calls()[0]
    loaded = nibble.load(exported.path)
    session = loaded.session()
    loaded.close()
    loaded.close()
    with pytest.raises(nibble.NibbleError, match="this model is closed"):
        loaded(*inputs)
    exported.check((session(*inputs),), expected)
    session.close()
    with pytest.raises(nibble.NibbleError, match="this session is closed"):
        session(*inputs)


def test_sessions_in_many_threads(program):
    exported = program("q4_mean")
    loaded = nibble.load(exported.path)
    failures = []

    def work(session):
        try:
            for inputs, expected in exported.calls():
                exported.check((session(*inputs),), expected)
        except BaseException as error:
            failures.append(error)

    # The last two share a session, and take turns.
    sessions = [loaded.session(), loaded.session(), loaded, loaded]
    threads = [threading.Thread(target=work, args=(session,)) for session in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
