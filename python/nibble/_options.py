"""Options as callers write them, turned into fields of nibble_load_options. `must_be` starts the error message for
invalid values.
"""

import json
import operator
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from ._native import NibbleError


def take_text(value: str, must_be: str) -> bytes:
    if not isinstance(value, str):
        raise _refusal(value, must_be)
    return value.encode()


def take_u64(value: int, must_be: str) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise _refusal(value, must_be) from None
    # ctypes would silently truncate a number that does not fit.
    if not 0 <= number < 1 << 64:
        raise _refusal(value, must_be)
    return number


def take_flag(value: bool, must_be: str) -> int:
    if value not in (False, True):
        raise _refusal(value, must_be)
    return int(value)


def take_names(value: Iterable[str], must_be: str) -> bytes:
    # A str is an iterable of str too, but that is never meant.
    names = list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [None]
    if not all(isinstance(name, str) for name in names):
        raise _refusal(value, must_be)
    return ",".join(names).encode()


def take_variants(value: Mapping[str, str] | Iterable[str], must_be: str) -> bytes:
    if isinstance(value, Mapping):
        value = [f"{choice}={variant}" for choice, variant in value.items()]
    return take_names(value, must_be)


def take_tuning(value: str | os.PathLike | Mapping | None, must_be: str) -> bytes | None:
    """Takes the path of a JSON file, or its content."""
    if value is None:
        return None
    if isinstance(value, (str, os.PathLike)):
        try:
            return Path(value).read_bytes()
        except OSError as error:
            raise NibbleError(f"'{value}' cannot be read: {error.strerror}", "io") from error
    if not isinstance(value, Mapping):
        raise _refusal(value, must_be)
    try:
        return json.dumps(value, default=_plain).encode()
    except (TypeError, ValueError):
        raise _refusal(value, must_be) from None


def _plain(value):
    """Converts what json does not handle by itself."""
    return dict(value) if isinstance(value, Mapping) else operator.index(value)


def _refusal(value, must_be: str) -> NibbleError:
    return NibbleError(f"{must_be}, not {value!r}", "invalid_argument")
