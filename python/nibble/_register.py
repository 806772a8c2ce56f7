"""Registers Nibble with the stock `executorch` package, under the backend id that the exporter writes."""

import ctypes
import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path

from . import _native

BACKEND_ID = "VulkanBackend"


@dataclass(frozen=True)
class Registration:
    """Whether ExecuTorch runs its programs through Nibble. It can be used as a condition; `reason` says why not."""

    ok: bool
    reason: str = ""

    def __bool__(self) -> bool:
        return self.ok


def _register() -> Registration:
    spec = importlib.util.find_spec("executorch")
    folders = list((spec and spec.submodule_search_locations) or ())
    if not folders:
        return Registration(False, "The package 'executorch' is not installed.")
    runtime = next((path for folder in folders if (path := Path(folder) / "lib" / "libexecutorch.so").exists()), None)
    if runtime is None:
        return Registration(False, f"The package 'executorch' in {folders[0]} has no lib/libexecutorch.so.")
    plug_in = _native.LIBRARY_DIR / "libnibble_executorch.so"
    if not plug_in.exists():
        return Registration(False, f"This build of Nibble has no ExecuTorch plug-in: there is no {plug_in}.")
    try:
        # Load the runtime by its path first. The plug-in then finds it by name, wherever both packages are installed.
        ctypes.CDLL(os.fspath(runtime))
        library = ctypes.CDLL(os.fspath(plug_in))
    except OSError as error:
        return Registration(False, f"The ExecuTorch plug-in cannot be loaded: {error}")
    library.nibble_executorch_registered.restype = ctypes.c_int32
    error = library.nibble_executorch_registered()
    if error:
        return Registration(
            False, f"Another library has registered the backend '{BACKEND_ID}' before (ExecuTorch's error {error})."
        )
    return Registration(True)


_registration = _register()


def registered() -> Registration:
    """Whether ExecuTorch's programs run through Nibble in this process, and if not, why."""
    return _registration
