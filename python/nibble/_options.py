"""Options as callers write them, turned into fields of nibble_load_options. `must_be` starts the error message for
invalid values.
"""

import json
import operator
import os
import stat
from collections.abc import Iterable, Mapping

from ._native import NibbleError

_MOST_TUNING_BYTES = 4 << 20  # as kMostTuningBytes


def take_text(value: str, must_be: str) -> bytes:
    # C takes a NUL for the end, and cannot take half of a character.
    if not isinstance(value, str) or not _is_plain(value):
        raise _refusal(value, must_be)
    return value.encode()


def take_path(path: str | os.PathLike) -> bytes:
    try:
        encoded = os.fsencode(path)
    except UnicodeEncodeError:
        raise NibbleError(f"{path!r} cannot be opened: a path may not have half of a character in it", "io") from None
    if b"\0" in encoded:
        raise NibbleError(f"'{path}' cannot be opened: a path may not have a NUL in it", "io")
    return encoded


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
    try:
        is_flag = value in (False, True)
    except ValueError:  # of an array, nobody knows
        is_flag = False
    if not is_flag:
        raise _refusal(value, must_be)
    return int(value)


def take_names(value: Iterable[str], must_be: str) -> bytes:
    # A str is an iterable of str too, but that is never meant.
    names = list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [None]
    # In C, a comma is between two names.
    if not all(isinstance(name, str) and _is_plain(name) and "," not in name for name in names):
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
        content = _read_tuning(value)
        if b"\0" in content:
            raise NibbleError(f"'{value}' is not JSON: it has a NUL in it", "invalid_argument")
        return content
    if not isinstance(value, Mapping):
        raise _refusal(value, must_be)
    try:
        return json.dumps(value, default=_plain, allow_nan=False).encode()
    except (TypeError, ValueError):
        raise _refusal(value, must_be) from None
    except RecursionError:
        raise NibbleError(f"{must_be}, not one so deep", "invalid_argument") from None


def _read_tuning(path: str | os.PathLike) -> bytes:
    try:
        # Without O_NONBLOCK, opening a named pipe would wait for a writer.
        with open(take_path(path), "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode):
                raise NibbleError(f"'{path}' cannot be read: it is no regular file", "io")
            if facts.st_size > _MOST_TUNING_BYTES:
                sentence = f"'{path}' has {facts.st_size} bytes, but {_MOST_TUNING_BYTES} are the most"
                raise NibbleError(sentence, "invalid_argument")
            return file.read(_MOST_TUNING_BYTES)
    except OSError as error:
        raise NibbleError(f"'{path}' cannot be read: {error.strerror}", "io") from error


def _is_plain(text: str) -> bool:
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


def _plain(value):
    """Converts what json does not handle by itself."""
    return dict(value) if isinstance(value, Mapping) else operator.index(value)


def _refusal(value, must_be: str) -> NibbleError:
    return NibbleError(f"{must_be}, not {value!r}", "invalid_argument")
