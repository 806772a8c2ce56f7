"""What a device does, for chrome://tracing and Perfetto."""

import contextlib
import os
from collections.abc import Iterator

from ._files import check_writable, new_file
from ._native import check, lib


@contextlib.contextmanager
def trace(device: int, path: str | os.PathLike) -> Iterator[None]:
    """Writes what loads and calls on the native device do within the block. After an error, nothing."""
    path = check_writable(path)
    owner = check(lib.nibble_device_start_trace(device))
    try:
        yield
        events = check(lib.nibble_trace_stop(owner))
    finally:
        del owner  # whoever keeps the traceback of an error does not keep the device traced
    with new_file(path) as file:
        file.write(events)
