"""Where what takes long to make is kept."""

import contextlib
import fcntl
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from ._native import NibbleError


def cache_folder() -> Path:
    """$NIBBLE_CACHE, or the user's cache folder for Nibble."""
    if own := os.environ.get("NIBBLE_CACHE"):
        return Path(own).absolute()
    general = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (general if general.is_absolute() else Path.home() / ".cache") / "nibble"


@contextlib.contextmanager
def alone(entry: Path) -> Iterator[None]:
    """Two processes that want the same entry do not both make it; the lock goes with the process."""
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        file = entry.with_name(entry.name + ".lock").open("w")
    except OSError as error:
        raise not_written(entry, error) from None
    with file:
        try:
            wait_for(file)
        except OSError as error:
            raise not_written(entry, error) from None
        yield


def wait_for(file: TextIO) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("nibble: waiting for another process, which makes the same program", file=sys.stderr)
        fcntl.flock(file, fcntl.LOCK_EX)


def not_written(entry: Path, error: OSError) -> NibbleError:
    sentence = f"'{entry.parent}' cannot be written: {error.strerror}; $NIBBLE_CACHE names another folder"
    return NibbleError(sentence, "io")
