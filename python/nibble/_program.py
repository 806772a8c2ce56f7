"""Models on NumPy arrays."""

import contextlib
import ctypes
import json
import operator
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from . import _native
from ._native import NibbleError, Tensor, check, lib
from ._options import take_path, take_text
from ._tensors import INT64, TensorSpec, fill_input
from ._trace import trace


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

    @property
    def is_closed(self) -> bool:
        return self._owner is None


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
    def has_failed(self) -> bool:
        """Whether it was lost, or failed outside any call: it keeps that failure, and must be opened again."""
        with self._handle.use() as device:
            return lib.nibble_device_has_failed(device)

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

    @contextlib.contextmanager
    def trace(self, path: str | os.PathLike) -> Iterator[None]:
        """For `with`: writes what loads and calls on the adapter do in the block, for chrome://tracing and Perfetto.

        The file has the host's phases and, if the adapter has timestamps, the GPU's dispatches. After an error there is
        none."""
        with self._handle.use() as device, trace(device, path):
            yield

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


class _InTurn:
    """A native object whose calls, from several threads, run one after the other."""

    def __init__(self, handle: _Handle):
        self._handle = handle
        self._lock = threading.Lock()
        self._in_turn: int | None = None  # a thread

    @contextlib.contextmanager
    def _turn(self) -> Iterator[int]:
        check(lib.nibble_check_process())  # a forked child would wait for a thread that is not there
        if self._in_turn == threading.get_ident():
            raise NibbleError("a signal's handler cannot use the session whose call it interrupts", "invalid_argument")
        with self._lock, self._handle.use() as native:
            try:
                self._in_turn = threading.get_ident()
                yield native
            finally:
                self._in_turn = None


class Session(_InTurn, _Closable):
    """One user's state of a model. Calls from several threads run one after the other."""

    def __init__(self, inputs: tuple[TensorSpec, ...], outputs: tuple[TensorSpec, ...], handle: _Handle):
        super().__init__(handle)
        self._inputs, self._outputs = inputs, outputs

    def run(self, *inputs):
        """Runs the program on arrays, or on values that NumPy can convert to arrays.

        Gives a NumPy array (an int if the program returns a plain integer). If the program does not have exactly one
        output, gives a tuple of them.
        """
        kept = []  # keeps memory alive that the call reads
        native = (Tensor * len(inputs))()
        for index, value in enumerate(inputs):
            spec = self._inputs[index] if index < len(self._inputs) else None
            fill_input(native[index], value, spec, kept)
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

    def rewind(self, position: int) -> None:
        """From now on `position` rows are in use of every state that has rows: the next call goes on there. At most as
        many as are in use now. If a state has no rows, only rewind(0) is possible, which is reset()."""
        position = operator.index(position)
        if not INT64.min <= position <= INT64.max:
            raise NibbleError(f"a session cannot be rewound to row {position}", "out_of_range")
        with self._turn() as session, _native.watch:
            check(lib.nibble_session_rewind(session, position))

    def reset(self) -> None:
        """All state is what the program says that it begins with; no rows are in use."""
        with self._turn() as session, _native.watch:
            check(lib.nibble_session_reset(session))

    def fork(self) -> "Session":
        """A further session whose state equals this one's. Rows in use are copied on the device."""
        with self._turn() as session:
            handle = _Handle(check(lib.nibble_session_fork(session)), "session")
        return Session(self._inputs, self._outputs, handle)

    def save(self, path: str | os.PathLike) -> None:
        """Writes the state to a file, which only its owner can read: all of it, or none."""
        with self._turn() as session, _native.watch:
            check(lib.nibble_session_save(session, take_path(path)))

    def restore(self, path: str | os.PathLike) -> None:
        """Takes the state that save() wrote. It must be of this program with the same weights, and of the same layout
        (f16_cache). A file that is refused changes nothing. If reading fails in the middle, calls are refused until the
        session is reset or restored."""
        with self._turn() as session, _native.watch:
            check(lib.nibble_session_restore(session, take_path(path)))

    def cancel(self) -> None:
        """Lets the call that another thread is in fail, with the code "cancelled", as soon as what the GPU works on is
        done. Without a call it does nothing. The tensors that the session keeps may then be partly changed; of a
        cache only the rows that the call fills, so it can be made again."""
        with self._handle.use() as session:
            lib.nibble_session_cancel(session)

    def close(self) -> None:
        """Frees the session's memory, once a call that another thread is in has ended; later calls fail."""
        self._handle.close()


class Model(_Closable):
    """A program's weights and kernels on a GPU, shared by its sessions. Calling the model uses its own session."""

    def __init__(self, device: Device, handle: _Handle):
        self.device = device
        self._handle = handle
        self.inputs = self._specs(lib.nibble_model_input_count, lib.nibble_model_input)
        self.outputs = self._specs(lib.nibble_model_output_count, lib.nibble_model_output)
        self._making = threading.RLock()
        self._made: Session | None = None

    @property
    def _own(self) -> Session:
        """Made when it is first needed: who makes sessions of their own pays for no other."""
        check(lib.nibble_check_process())  # a forked child would wait for a thread that is not there
        with self._making:
            if self._made is None:
                self._made = self._session("model")
                if self._handle.is_closed:  # meanwhile, by another thread or by a signal's handler
                    self._made.close()
            return self._made

    def _specs(self, count_of, fill) -> tuple[TensorSpec, ...]:
        specs = []
        with self._handle.use() as model:
            for index in range(count_of(model)):
                tensor = Tensor()
                check(fill(model, index, tensor))
                specs.append(TensorSpec.from_native(tensor))
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
        with self._handle.use():  # it is not closed
            if self._made is not None:
                self._made.cancel()

    def rewind(self, position: int) -> None:
        """Rewinds the model's own session: see Session.rewind()."""
        self._own.rewind(position)

    def reset(self) -> None:
        """Resets the model's own session: see Session.reset()."""
        self._own.reset()

    def fork(self) -> Session:
        """A further session whose state equals that of the model's own: see Session.fork()."""
        return self._own.fork()

    def save(self, path: str | os.PathLike) -> None:
        """Saves the state of the model's own session: see Session.save()."""
        self._own.save(path)

    def restore(self, path: str | os.PathLike) -> None:
        """Restores the state of the model's own session: see Session.restore()."""
        self._own.restore(path)

    def session(self) -> Session:
        """A further session. Its state begins with the program's initial values."""
        return self._session("session")

    def _session(self, name: str) -> Session:
        with self._handle.use() as model:
            handle = _Handle(check(lib.nibble_model_session(model)), name)
        return Session(self.inputs, self.outputs, handle)

    def close(self) -> None:
        """Closes the model's own session, and frees the weights once no other session needs them."""
        self._handle.close()
        if self._made is not None:
            self._made.close()

    def __repr__(self) -> str:
        return f"<nibble.Model inputs={list(self.inputs)} outputs={list(self.outputs)}>"
