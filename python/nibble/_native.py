"""The C API of libnibble.so (include/nibble/nibble.h), and nothing more."""

import ctypes
import importlib.util
import os
import warnings
from ctypes import CFUNCTYPE, POINTER, c_bool, c_char_p, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path

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
)


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


Provider = CFUNCTYPE(None)
Progress = CFUNCTYPE(None, c_uint64, c_uint64, c_void_p)

# Where the wheel `wgpudawn` has it.
_DAWN = "_lib/_wgpu_dawn.*"

_FUNCTIONS = {
    "nibble_version": (c_char_p, []),
    "nibble_error": (c_char_p, []),
    "nibble_error_code": (c_int32, []),
    "nibble_set_engine_library": (c_bool, [c_char_p, c_char_p]),
    "nibble_set_wgpu_functions": (c_bool, [POINTER(c_char_p), POINTER(c_void_p), c_size_t]),
    "nibble_set_wgpu_provider": (None, [Provider]),
    "nibble_devices_json": (c_char_p, [c_char_p]),
    "nibble_ops_json": (c_char_p, []),
    "nibble_check_node": (c_bool, [c_char_p]),
    "nibble_device_open": (c_void_p, [c_char_p, c_char_p]),
    "nibble_device_json": (c_char_p, [c_void_p]),
    "nibble_device_live_objects": (c_uint64, [c_void_p]),
    "nibble_device_compiled_pipelines": (c_uint64, [c_void_p]),
    "nibble_device_free": (None, [c_void_p]),
    "nibble_model_load": (c_void_p, [c_void_p, c_char_p, c_void_p]),
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
    "nibble_session_states_json": (c_char_p, [c_void_p]),
    "nibble_session_free": (None, [c_void_p]),
}


def _wgpu_library() -> Path | None:
    """The library wgpu-native in the wheel `wgpu`, which may be installed in another folder than ours."""
    spec = importlib.util.find_spec("wgpu")
    for folder in (spec and spec.submodule_search_locations) or ():
        for name in ("libwgpu_native-release.so", "libwgpu_native.so"):
            path = Path(folder) / "resources" / name
            if path.exists():
                return path
    return None


def _dawn_functions() -> dict[str, int]:
    """The addresses of Dawn's functions in the wheel `wgpudawn`, if it is here. Its library exports a Python module
    alone, which is loaded without the rest of the package."""
    spec = importlib.util.find_spec("wgpudawn")
    found = [path for folder in (spec and spec.submodule_search_locations) or () for path in Path(folder).glob(_DAWN)]
    if not found:
        return {}
    try:
        spec = importlib.util.spec_from_file_location("_wgpu_dawn", found[0])
        dawn = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(dawn)
    except (ImportError, OSError) as error:
        warnings.warn(f"Dawn cannot be used: {found[0]} cannot be loaded: {error}", stacklevel=2)
        return {}
    names = (name for name in dir(dawn.lib) if name.startswith("wgpu") and name[4].isupper())
    return {name: int(dawn.ffi.cast("uintptr_t", dawn.ffi.addressof(dawn.lib, name))) for name in names}


@Provider
def _provide_dawn() -> None:
    """Called when Dawn is first needed: `import nibble` loads no GPU library."""
    dawn = _dawn_functions()
    names = (c_char_p * len(dawn))(*(name.encode() for name in dawn))
    lib.nibble_set_wgpu_functions(names, (c_void_p * len(dawn))(*dawn.values()), len(dawn))


def _load() -> ctypes.CDLL:
    path = LIBRARY_DIR / "libnibble.so"
    try:
        library = ctypes.CDLL(os.fspath(path))
    except OSError as error:
        raise ImportError(f"Nibble's library {path} cannot be loaded: {error}") from error
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    # A path set here would override the variable, but the user's choice must win.
    if "NIBBLE_WGPU_LIBRARY" not in os.environ and (wgpu := _wgpu_library()):
        library.nibble_set_engine_library(b"wgpu", os.fsencode(wgpu))
    library.nibble_set_wgpu_provider(_provide_dawn)
    return library


lib = _load()


def last_error() -> NibbleError:
    """The calling thread's last error."""
    code = lib.nibble_error_code()
    name = ERROR_CODES[code] if 0 <= code < len(ERROR_CODES) else "internal"
    return NibbleError(lib.nibble_error().decode(errors="replace"), name)


def check(result):
    """Raises the last error if a call returned NULL or false; otherwise gives its result."""
    if not result:
        raise last_error()
    return result
