"""Loads and tunes programs, with the options as the library takes them."""

import ctypes
import json
import os
import warnings
from collections.abc import Callable

from . import _native
from ._native import check, lib
from ._options import take_path
from ._program import Device, DeviceInfo, Model, _Handle, _refuse_engine


def load_program(
    path: str | os.PathLike,
    device: str | int | Device | DeviceInfo | None,
    engine: str | None,
    on_progress: Callable[[int, int], None] | None,
    on_tuning: Callable[[int, int], None] | None,
    options: ctypes.Structure,
) -> Model:
    """load() with its options as nibble_load_options."""
    opened = _open(device, engine)
    failures: list[BaseException] = []
    options.progress = _reporter(on_progress, failures)
    options.tuning_progress = _reporter(on_tuning, failures)
    with opened._handle.use() as native, _native.watch:
        owner = lib.nibble_model_load(native, take_path(path), ctypes.byref(options))
        if failures:
            del owner  # the error's traceback has this frame
            raise failures.pop()
        handle = _Handle(check(owner), "model")
    with handle.use() as model:
        notes = json.loads(check(lib.nibble_model_notes_json(model)))
    for note in notes:
        warnings.warn(note, stacklevel=3)
    return Model(opened, handle)


def tune_program(
    path: str | os.PathLike,
    device: str | int | Device | DeviceInfo | None,
    engine: str | None,
    on_progress: Callable[[int, int], None] | None,
    output: str | os.PathLike | None,
    options: ctypes.Structure,
) -> dict:
    """tune() with its options as nibble_load_options."""
    opened = _open(device, engine)
    failures: list[BaseException] = []
    options.progress = _reporter(on_progress, failures)
    file = None if output is None else take_path(output)
    with opened._handle.use() as native, _native.watch:
        text = lib.nibble_tune_json(native, take_path(path), ctypes.byref(options), file)
        if failures:
            raise failures.pop()
        return json.loads(check(text))


def _open(device: str | int | Device | DeviceInfo | None, engine: str | None) -> Device:
    if isinstance(device, Device):
        _refuse_engine(engine, device.info)
        return device
    return Device(device, engine)


def _reporter(on_progress: Callable[[int, int], None] | None, failures: list[BaseException]):
    """What the library calls for on_progress. What that raises ends the call, and is put into the list."""

    def report(done: int, total: int, _user) -> None:
        try:
            if not failures:
                on_progress(done, total)
                _native.watch.go_on()
        except BaseException as error:  # ctypes would only print it
            failures.append(error)
            _native.watch.stop()

    return _native.Progress(report) if on_progress is not None else _native.Progress()
