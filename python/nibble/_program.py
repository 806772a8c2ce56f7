"""Models on NumPy arrays."""

import contextlib
import ctypes
import json
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from . import _native
from ._native import NibbleError, Tensor, check, lib
from ._options import take_path, take_text

_DTYPE_NUMBERS = {np.dtype(name): number for number, name in enumerate(_native.DTYPES)}
_INT64 = np.iinfo(np.int64)


@dataclass(frozen=True)
class DeviceInfo:
    """An adapter. `index` is its place in the list, `number` that among the adapters of its `engine`. `profile` has all
    that planning knows about it: limits and features by name."""

    index: int
    number: int
    engine: str
    name: str
    kind: str
    backend: str
    driver: str
    profile: dict = field(repr=False)

    @classmethod
    def _from_json(cls, text: bytes | dict) -> "DeviceInfo":
        profile = json.loads(text) if isinstance(text, bytes) else dict(text)
        places = (profile.pop("index"), profile.pop("number"))
        return cls(*places, *(profile[key] for key in ("engine", "name", "kind", "backend", "driver")), profile)


@dataclass(frozen=True)
class TensorSpec:
    """An input or output of a program: its dtype and its largest shape. A plain integer has neither."""

    dtype: np.dtype | None
    shape: tuple[int, ...] | None

    @classmethod
    def _from_native(cls, tensor: Tensor) -> "TensorSpec":
        if tensor.is_int:
            return cls(None, None)
        return cls(np.dtype(_native.DTYPES[tensor.dtype]), tuple(tensor.shape[: tensor.rank]))


@dataclass(frozen=True)
class State:
    """A tensor that a session keeps from call to call, such as a KV cache.

    `role` is its argument name in the op that changes it. Calls fill it along the dimension `row_axis` from the front,
    if that is not None; `rows` is how many of these rows are in use after the last call.
    """

    role: str
    dtype: np.dtype
    shape: tuple[int, ...]
    row_axis: int | None
    rows: int


class _Handle:
    """A native object. It goes with its last reference: that of this handle, which close() drops, or that of a call."""

    def __init__(self, owner: ctypes.c_void_p, what: str):
        self._owner: ctypes.c_void_p | None = owner
        self._what = what

    @contextlib.contextmanager
    def use(self) -> Iterator[int]:
        """The pointer, which stays valid to the end of the block: what close() lets go in between is freed then."""
        check(lib.nibble_check_process())
        owner = self._owner
        if owner is None:
            raise NibbleError(f"this {self._what} is closed", "invalid_argument")
        try:
            yield owner.value
        finally:
            del owner  # whoever keeps the traceback of an error does not keep it

    def close(self) -> None:
        self._owner = None


def devices(engine: str | None = None) -> list[DeviceInfo]:
    """All adapters that can run programs; the list may be empty.

    engine: "dawn" or "wgpu"; by default what $NIBBLE_ENGINE says, else all.
    """
    name = take_text(engine or "", "engine must be text")
    _native.prepare(engine)
    found = check(lib.nibble_devices_json(name))
    return [DeviceInfo._from_json(info) for info in json.loads(found)]


class _Closable:
    """For `with`: closed at the end of the block."""

    def __enter__(self):
        return self

    def __exit__(self, *_exception) -> None:
        self.close()


class Device(_Closable):
    """An open adapter. Models on the same device share compiled kernels."""

    def __init__(self, which: str | int | DeviceInfo | None = None, engine: str | None = None):
        """`which`: an index, a kind ("cpu", "discrete", "integrated"), a part of a name, or one of devices(); None for
        $NIBBLE_DEVICE or the best adapter. `engine`: "dawn" or "wgpu"; None for $NIBBLE_ENGINE or any."""
        if isinstance(which, DeviceInfo):
            _refuse_engine(engine, which)
            which, engine = which.number, which.engine
        selector = take_text("" if which is None else str(which), "device must be text")
        name = take_text(engine or "", "engine must be text")
        _native.prepare(engine)
        self._handle = _Handle(check(lib.nibble_device_open(selector, name)), "device")
        with self._handle.use() as device:
            self.info = DeviceInfo._from_json(check(lib.nibble_device_json(device)))

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def live_objects(self) -> int:
        """How many GPU objects this process holds, without the device's cached pipelines. For leak checks."""
        with self._handle.use() as device:
            return lib.nibble_device_live_objects(device)

    @property
    def compiled_pipelines(self) -> int:
        """How many pipelines the device has compiled so far. Calls never compile."""
        with self._handle.use() as device:
            return lib.nibble_device_compiled_pipelines(device)

    def close(self) -> None:
        """Releases the GPU once no model needs it."""
        self._handle.close()

    def __repr__(self) -> str:
        return f"<nibble.Device {self.name}>"


def _refuse_engine(engine: str | None, device: DeviceInfo) -> None:
    if engine not in (None, "", device.engine):
        raise NibbleError(
            f"engine is {engine!r}, but the device that is given is one of {device.engine}", "invalid_argument"
        )


def load_program(
    path: str | os.PathLike,
    device: str | int | Device | DeviceInfo | None,
    engine: str | None,
    on_progress: Callable[[int, int], None] | None,
    options: ctypes.Structure,
) -> "Model":
    """load() with its options as nibble_load_options."""
    if isinstance(device, Device):
        _refuse_engine(engine, device.info)
    opened = device if isinstance(device, Device) else Device(device, engine)
    failures = []

    def report(done: int, total: int, _user) -> None:
        try:
            if not failures:
                on_progress(done, total)
        except BaseException as error:  # ctypes would only print it
            failures.append(error)
            _native.watch.stop(error)

    if on_progress is not None:
        options.progress = _native.Progress(report)
    with opened._handle.use() as native, _native.watch:
        owner = lib.nibble_model_load(native, take_path(path), ctypes.byref(options))
        if failures:
            del owner  # the error's traceback has this frame
            raise failures.pop()
        handle = _Handle(check(owner), "model")
    return Model(opened, handle)


class Session(_Closable):
    """One user's state of a model. Calls from several threads run one after the other."""

    def __init__(self, model: "Model", name: str = "session"):
        self._inputs, self._outputs = model.inputs, model.outputs
        with model._handle.use() as made_from:
            self._handle = _Handle(check(lib.nibble_model_session(made_from)), name)
        self._lock = threading.Lock()
        self._in_turn: int | None = None  # a thread

    def run(self, *inputs):
        """Runs the program on arrays, or on values that NumPy can convert to arrays.

        Gives a NumPy array (an int if the program returns a plain integer). If the program does not have exactly one
        output, gives a tuple of them.
        """
        kept = []  # keeps memory alive that the call reads
        native = (Tensor * len(inputs))()
        for index, value in enumerate(inputs):
            spec = self._inputs[index] if index < len(self._inputs) else None
            _fill_input(native[index], value, spec, kept)
        with self._turn() as session, _native.watch:
            check(lib.nibble_session_set_inputs(session, native, len(inputs)))
            results = []
            outputs = (Tensor * len(self._outputs))()
            for index, output in enumerate(outputs):
                check(lib.nibble_session_output(session, index, output))
                if output.is_int:
                    results.append(output.integer)
                    continue
                array = np.empty(tuple(output.shape[: output.rank]), _native.DTYPES[output.dtype])
                output.data, output.bytes = array.ctypes.data, array.nbytes
                results.append(array)
            check(lib.nibble_session_execute(session, outputs, len(outputs)))
        return results[0] if len(results) == 1 else tuple(results)

    __call__ = run

    @property
    def states(self) -> tuple[State, ...]:
        """The tensors that the session keeps from call to call."""
        with self._turn() as session:
            states = json.loads(check(lib.nibble_session_states_json(session)))
        return tuple(
            State(state["role"], np.dtype(state["dtype"]), tuple(state["shape"]), state["row_axis"], state["rows"])
            for state in states
        )

    def cancel(self) -> None:
        """Lets the call that another thread is in fail, with the code "cancelled", as soon as what the GPU works on is
        done. Without a call it does nothing. The tensors that the session keeps may then be partly changed; of a
        cache only the rows that the call fills, so it can be made again."""
        with self._handle.use() as session:
            lib.nibble_session_cancel(session)

    def close(self) -> None:
        """Frees the session's memory, once a call that another thread is in has ended; later calls fail."""
        self._handle.close()

    @contextlib.contextmanager
    def _turn(self) -> Iterator[int]:
        check(lib.nibble_check_process())  # a forked child would wait for a thread that is not there
        if self._in_turn == threading.get_ident():
            raise NibbleError("a signal's handler cannot use the session whose call it interrupts", "invalid_argument")
        with self._lock, self._handle.use() as session:
            try:
                self._in_turn = threading.get_ident()
                yield session
            finally:
                self._in_turn = None


class Model(_Closable):
    """A program's weights and kernels on a GPU, shared by its sessions. Calling the model uses its own session."""

    def __init__(self, device: Device, handle: _Handle):
        self.device = device
        self._handle = handle
        self.inputs = self._specs(lib.nibble_model_input_count, lib.nibble_model_input)
        self.outputs = self._specs(lib.nibble_model_output_count, lib.nibble_model_output)
        self._own = Session(self, "model")

    def _specs(self, count_of, fill) -> tuple[TensorSpec, ...]:
        specs = []
        with self._handle.use() as model:
            for index in range(count_of(model)):
                tensor = Tensor()
                check(fill(model, index, tensor))
                specs.append(TensorSpec._from_native(tensor))
        return tuple(specs)

    @property
    def constants(self) -> dict:
        """What the program's constant methods return, by name, such as {"get_vocab_size": 32000}."""
        with self._handle.use() as model:
            return json.loads(check(lib.nibble_model_constants_json(model)))

    def run(self, *inputs):
        """Runs the program in the model's own session: see Session.run()."""
        return self._own.run(*inputs)

    __call__ = run

    @property
    def states(self) -> tuple[State, ...]:
        """The tensors that the model's own session keeps from call to call."""
        return self._own.states

    def cancel(self) -> None:
        """Lets the call of the model's own session fail: see Session.cancel()."""
        self._own.cancel()

    def session(self) -> Session:
        """A further session. Its state begins with the program's initial values."""
        return Session(self)

    def close(self) -> None:
        """Closes the model's own session, and frees the weights once no other session needs them."""
        self._own.close()
        self._handle.close()

    def __repr__(self) -> str:
        return f"<nibble.Model inputs={list(self.inputs)} outputs={list(self.outputs)}>"


def _fill_input(tensor: Tensor, value, spec: TensorSpec | None, kept: list) -> None:
    """Describes a value to the library, which decides whether it is accepted. Unknown types go by NumPy's name."""
    if spec is not None and spec.dtype is None and hasattr(value, "__index__") and not hasattr(value, "shape"):
        integer = int(value)
        tensor.is_int = 1
        if _INT64.min <= integer <= _INT64.max:
            tensor.integer = integer
        else:
            tensor.word = _keep(str(integer), kept)
        return
    if _is_masked(value):
        tensor.word = _keep("a masked array", kept)
        return
    array = np.asarray(value)
    # A list has no dtype, so convert it if that loses precision at most; otherwise the library refuses it. NumPy gives
    # uint64 for integers beyond int64.
    untold = spec is not None and spec.dtype is not None and not hasattr(value, "dtype") and array.dtype != np.uint64
    if untold and (array.size == 0 or np.can_cast(array.dtype, spec.dtype, "same_kind")):
        array = array.astype(spec.dtype, copy=False)
    native = array.dtype.newbyteorder("=")
    number = _DTYPE_NUMBERS.get(native)
    if number is None:
        tensor.word = _keep(str(native), kept)
    else:
        tensor.dtype = number
        array = np.require(array, native, "C")
        kept.append(array)
    tensor.rank = array.ndim
    known = array.shape[: _native.MAX_RANK]
    tensor.shape[: len(known)] = known
    tensor.data = ctypes.c_void_p(array.ctypes.data)
    tensor.bytes = array.nbytes


def _is_masked(value) -> bool:
    """Whether NumPy would lose a mask on the way to a plain array."""
    if isinstance(value, list | tuple):
        return any(map(_is_masked, value))
    return isinstance(value, np.ma.MaskedArray)


def _keep(word: str, kept: list) -> bytes:
    kept.append(word.encode())
    return kept[-1]
