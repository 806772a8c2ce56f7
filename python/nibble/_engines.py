"""Where the WebGPU implementations are, and how Nibble's library gets them. It imports nothing of Nibble, because the
command runs it without the package."""

import ctypes
import importlib.util
import os
import warnings
from collections.abc import Callable
from ctypes import CFUNCTYPE, POINTER, c_bool, c_char_p, c_int, c_size_t, c_void_p
from pathlib import Path

Provider = CFUNCTYPE(None)
_NO_PROVIDER = Provider(0)

FUNCTIONS = {
    "nibble_set_engine_library": (c_bool, [c_char_p, c_char_p]),
    "nibble_set_wgpu_functions": (c_bool, [POINTER(c_char_p), POINTER(c_void_p), c_size_t]),
    "nibble_set_wgpu_provider": (None, [Provider]),
}


def open_library(path: Path, functions: dict[str, tuple]) -> ctypes.CDLL:
    """A library of Nibble's with these functions and the ones that engines need, told where the engines are."""
    library = ctypes.CDLL(os.fspath(path))
    for name, (result, arguments) in (FUNCTIONS | functions).items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    # A path set here would override the variable, but the user's choice must win.
    if "NIBBLE_WGPU_LIBRARY" not in os.environ and (wgpu := _wgpu_library()):
        library.nibble_set_engine_library(b"wgpu", os.fsencode(wgpu))

    def provide() -> None:
        dawn = _dawn_functions()
        names = (c_char_p * len(dawn))(*(name.encode() for name in dawn))
        library.nibble_set_wgpu_functions(names, (c_void_p * len(dawn))(*dawn.values()), len(dawn))
        library.nibble_set_wgpu_provider(_NO_PROVIDER)
        library.has_dawn = bool(dawn)

    # Called when Dawn is first needed: opening this library loads no other.
    library.provide_dawn = provide
    library.has_dawn = False
    library.keeps = Provider(provide)
    library.nibble_set_wgpu_provider(library.keeps)
    return library


def main_of(path: Path, name: str) -> Callable[[list[str]], int]:
    """A library's main function, `int(int argc, char** argv)`, to be called with a list of words."""
    library = open_library(path, {name: (c_int, [c_int, POINTER(c_char_p)])})

    def main(words: list[str]) -> int:
        argv = (c_char_p * (len(words) + 1))(*map(os.fsencode, words), None)
        return getattr(library, name)(len(words), argv)

    return main


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
    folders = (spec and spec.submodule_search_locations) or ()
    found = [path for folder in folders for path in Path(folder).glob("_lib/_wgpu_dawn.*")]
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
