"""Devices, models and sessions in Python: who shares what, who outlives whom, and what threads may do."""

import copy
import pickle
import shutil
import subprocess
import sys
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


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])
def test_native_objects_are_not_duplicated(duplicate, program):
    """A second one would free what is the first one's."""
    with nibble.load(program("q4_dynamic_length").path) as model, model.session() as session:
        expected = model([[1, 2]])
        for one in (model.device, model, session):
            with pytest.raises((TypeError, AttributeError, pickle.PicklingError)):
                duplicate(one)
        assert np.array_equal(model([[1, 2]]), expected)
        assert np.array_equal(session.run([[1, 2]]), expected)


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


def test_an_error_that_is_kept_keeps_no_memory(program):
    path = program("q4_dynamic_length").path

    def fail(*_) -> None:
        raise LookupError

    with nibble.Device() as device:
        before = device.live_objects
        with nibble.load(path, device) as model, model.session() as session:
            with pytest.raises(nibble.NibbleError, match="inputs are given") as of_a_call:
                session()
            with pytest.raises(LookupError) as of_a_load:
                nibble.load(path, device, on_progress=fail)
        assert device.live_objects == before
        del of_a_call, of_a_load


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


AT_EXIT = """
import sys, threading, time
import numpy, nibble
model = nibble.load(sys.argv[1])
x = numpy.load(sys.argv[2])
def call():
    while True: model(x)
for _ in range(2): threading.Thread(target=call, daemon=True).start()
time.sleep(0.3)
"""


def test_process_may_end_while_daemons_are_in_calls(program):
    folder = program("q4_dynamic_length").folder
    command = [sys.executable, "-c", AT_EXIT, folder / "model.pte", folder / "in0_0.npy"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_threads_in_one_session_of_the_c_api_get_errors(program):
    exported = program("q4_dynamic_length")
    (array,) = exported.calls()[0][0]
    tensor = nibble._native.Tensor(dtype=7, rank=array.ndim, data=array.ctypes.data, bytes=array.nbytes)
    tensor.shape[: array.ndim] = array.shape
    said = set()
    with nibble.load(exported.path) as model, model._own._handle.use() as session:

        def use() -> None:
            for _ in range(2000):
                if not nibble.lib.nibble_session_set_inputs(session, tensor, 1):
                    said.add(nibble.lib.nibble_error())
                if nibble.lib.nibble_session_states_json(session) is None:
                    said.add(nibble.lib.nibble_error())

        threads = [threading.Thread(target=use) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert said <= {b"another thread is using this session: give each thread its own"}
