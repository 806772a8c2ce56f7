"""Packages that only some users need."""

import importlib
from types import ModuleType

from .._native import NibbleError


def needed(name: str, extra: str = "generate") -> ModuleType:
    """Imports a package; without it the error says what to install."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        message = f"this needs the package {name.partition('.')[0]}: pip install 'nibble-runtime[{extra}]' ({error})"
        raise NibbleError(message, "unsupported") from None
