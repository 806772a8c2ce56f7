"""The C API of libnibble.so (include/nibble/nibble.h), and nothing more."""

import ctypes
import functools
import os
import types
from collections.abc import Callable
from ctypes import (
    CFUNCTYPE,
    POINTER,
    c_bool,
    c_char_p,
    c_double,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from pathlib import Path

from ._engines import open_library
from ._interrupt import StopCheck, Watch

LIBRARY_DIR = Path(__file__).parent / "lib"
MAX_RANK = 8
# The numbers of nibble_dtype, as NumPy calls them.
DTYPES = ("bool", "uint8", "int8", "int32", "float16", "float32", "float64", "int64")
# The numbers of nibble::ErrorCode.
ERROR_CODES = (
    "invalid_program",
    "unsupported",
    "invalid_argument",
    "out_of_range",
    "out_of_memory",
    "gpu",
    "device_lost",
    "io",
    "internal",
    "cancelled",
)
# What was asked for cannot be; all else is as it was.
OF_THE_REQUEST = ("invalid_argument", "out_of_range", "unsupported")


class NibbleError(RuntimeError):
    """A failure with one sentence for people; `code` names its kind for programs, such as "out_of_range"."""

    __module__ = "nibble"

    def __init__(self, message: str, code: str = "internal"):
        super().__init__(message)
        self.code = code


class Tensor(ctypes.Structure):
    """nibble_tensor"""

    _fields_ = (
        ("dtype", c_int32),
        ("is_int", c_int32),
        ("integer", c_int64),
        ("rank", c_uint32),
        ("shape", c_int64 * MAX_RANK),
        ("data", c_void_p),
        ("bytes", c_uint64),
        ("word", c_char_p),
    )


class Logprob(ctypes.Structure):
    """nibble_logprob"""

    _fields_ = (("id", c_int32), ("logprob", c_double))


class Token(ctypes.Structure):
    """nibble_token"""

    _fields_ = (("id", c_int32), ("logprob", c_double), ("top", POINTER(Logprob)), ("top_count", c_size_t))


Progress = CFUNCTYPE(None, c_uint64, c_uint64, c_void_p)

_FUNCTIONS = {
    "nibble_version": (c_char_p, []),
    "nibble_error": (c_char_p, []),
    "nibble_error_code": (c_int32, []),
    "nibble_check_process": (c_bool, []),
    "nibble_set_stop_check": (None, [StopCheck]),
    "nibble_devices_json": (c_char_p, [c_char_p]),
    "nibble_ops_json": (c_char_p, []),
    "nibble_check_node": (c_bool, [c_char_p]),
    "nibble_device_open": (c_void_p, [c_char_p, c_char_p]),
    "nibble_device_json": (c_char_p, [c_void_p]),
    "nibble_device_has_failed": (c_bool, [c_void_p]),
    "nibble_device_live_objects": (c_uint64, [c_void_p]),
    "nibble_device_compiled_pipelines": (c_uint64, [c_void_p]),
    "nibble_device_start_trace": (c_void_p, [c_void_p]),
    "nibble_device_free": (None, [c_void_p]),
    "nibble_trace_stop": (c_char_p, [c_void_p]),
    "nibble_trace_free": (None, [c_void_p]),
    "nibble_model_load": (c_void_p, [c_void_p, c_char_p, c_void_p]),
    "nibble_model_notes_json": (c_char_p, [c_void_p]),
    "nibble_tune_json": (c_char_p, [c_void_p, c_char_p, c_void_p, c_char_p]),
    "nibble_model_input_count": (c_size_t, [c_void_p]),
    "nibble_model_output_count": (c_size_t, [c_void_p]),
    "nibble_model_input": (c_bool, [c_void_p, c_size_t, POINTER(Tensor)]),
    "nibble_model_output": (c_bool, [c_void_p, c_size_t, POINTER(Tensor)]),
    "nibble_model_constants_json": (c_char_p, [c_void_p]),
    "nibble_model_free": (None, [c_void_p]),
    "nibble_model_session": (c_void_p, [c_void_p]),
    "nibble_session_set_inputs": (c_bool, [c_void_p, POINTER(Tensor), c_size_t]),
    "nibble_session_output": (c_bool, [c_void_p, c_size_t, POINTER(Tensor)]),
    "nibble_session_execute": (c_bool, [c_void_p, POINTER(Tensor), c_size_t]),
    "nibble_session_submit": (c_bool, [c_void_p, POINTER(Tensor), c_size_t]),
    "nibble_session_wait": (c_bool, [c_void_p]),
    "nibble_session_cancel": (None, [c_void_p]),
    "nibble_session_states_json": (c_char_p, [c_void_p]),
    "nibble_session_rewind": (c_bool, [c_void_p, c_int64]),
    "nibble_session_reset": (c_bool, [c_void_p]),
    "nibble_session_fork": (c_void_p, [c_void_p]),
    "nibble_session_save": (c_bool, [c_void_p, c_char_p]),
    "nibble_session_restore": (c_bool, [c_void_p, c_char_p]),
    "nibble_session_free": (None, [c_void_p]),
    "nibble_generator_make": (c_void_p, [c_void_p]),
    "nibble_generator_json": (c_char_p, [c_void_p]),
    "nibble_generator_start": (c_bool, [c_void_p, POINTER(c_int32), c_size_t, c_char_p]),
    "nibble_generator_prefill": (c_int32, [c_void_p]),
    "nibble_generator_next": (c_int32, [c_void_p, POINTER(c_uint32), c_size_t, POINTER(Token)]),
    "nibble_generator_stats_json": (c_char_p, [c_void_p]),
    "nibble_generator_tokens": (c_int64, [c_void_p, POINTER(c_int32), c_size_t]),
    "nibble_generator_stop": (c_bool, [c_void_p]),
    "nibble_generator_cancel": (None, [c_void_p]),
    "nibble_generator_rewind": (c_bool, [c_void_p, c_int64]),
    "nibble_generator_fork": (c_void_p, [c_void_p]),
    "nibble_generator_save": (c_bool, [c_void_p, c_char_p]),
    "nibble_generator_restore": (c_bool, [c_void_p, c_char_p]),
    "nibble_generator_free": (None, [c_void_p]),
    "nibble_text_make": (c_void_p, [POINTER(c_char_p), POINTER(c_size_t), c_size_t]),
    "nibble_text_push": (c_void_p, [c_void_p, c_char_p, c_size_t, POINTER(c_size_t)]),
    "nibble_text_finish": (c_void_p, [c_void_p, POINTER(c_size_t)]),
    "nibble_text_stop": (c_int64, [c_void_p]),
    "nibble_text_free": (None, [c_void_p]),
}
# What makes a native object, and what frees it.
_OWNED = {
    "nibble_device_open": "nibble_device_free",
    "nibble_device_start_trace": "nibble_trace_free",
    "nibble_model_load": "nibble_model_free",
    "nibble_model_session": "nibble_session_free",
    "nibble_generator_make": "nibble_generator_free",
    "nibble_generator_fork": "nibble_generator_free",
    "nibble_text_make": "nibble_text_free",
    "nibble_session_fork": "nibble_session_free",
}


def _owner(free: Callable[[c_void_p], None]) -> type[c_void_p]:
    """A native object that goes with its last reference. ctypes makes it in the very call that makes the native one, so
    nothing that a signal's handler raises comes in between. And none of Python's code frees it, in which what a handler
    raises would be lost: `__del__` is a free(self) in C."""
    members = {"__del__": property(functools.partial(types.MethodType, free)), "__reduce_ex__": _refuse_copy}
    return type("Owner", (c_void_p,), members)


def _refuse_copy(*_):
    """A copy would free the same object."""
    raise TypeError("devices, models and sessions of Nibble cannot be copied")


def _load() -> ctypes.CDLL:
    path = LIBRARY_DIR / "libnibble.so"
    try:
        library = open_library(path, _FUNCTIONS)
    except OSError as error:
        raise ImportError(f"Nibble's library {path} cannot be loaded: {error}") from error
    for make, free in _OWNED.items():
        getattr(library, make).restype = _owner(getattr(library, free))
    return library


lib = _load()
watch = Watch(lib)


def prepare(engine: str | None) -> None:
    """Comes before a call that looks for adapters: it loads Dawn, if that is among the engines. The library would ask
    for it within the call, and ctypes drops what is raised there, such as Ctrl-C."""
    if not lib.has_dawn and (engine or os.environ.get("NIBBLE_ENGINE", "")) in ("", "dawn"):
        lib.provide_dawn()


def last_error() -> BaseException:
    """The calling thread's last error, or what a signal handler raised during the call that failed."""
    if (raised := watch.interruption()) is not None:
        return raised
    code = lib.nibble_error_code()
    name = ERROR_CODES[code] if 0 <= code < len(ERROR_CODES) else "internal"
    return NibbleError(lib.nibble_error().decode(errors="replace"), name)


def check(result):
    """Raises the last error if a call returned NULL or false; otherwise gives its result."""
    if not result:
        raise last_error()
    return result
