"""Files that are written completely, or not at all."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from ._native import NibbleError
from ._options import take_path


def check_writable(path: str | os.PathLike) -> Path:
    """Comes before long work: an error if the file could not be written in the end."""
    path = Path(os.fsdecode(take_path(path)))
    try:
        is_other = path.exists() and not path.is_file()
    except OSError as error:  # such as a name that is too long
        raise NibbleError(f"'{path}' cannot be written: {error.strerror}", "io") from None
    if is_other:
        # Whoever may rename over a device or a pipe would lose it.
        raise NibbleError(f"'{path}' cannot be written: it is a folder or no regular file", "io")
    if not os.access(path.parent, os.W_OK):
        raise NibbleError(f"'{path}' cannot be written: its folder is missing or read-only", "io")
    return path


@contextlib.contextmanager
def new_file(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """A file that gets its name when the block has ended without an error."""
    path = check_writable(path)
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with unfinished.open("wb") as file:
            yield file
        unfinished.replace(path)
    except OSError as error:
        raise NibbleError(f"'{path}' cannot be written: {error.strerror}", "io") from None
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
