#!python
"""The command `nibble` of the wheel: the C++ command, with the WebGPU implementations that Python finds."""

import ctypes
import importlib.util
import os
import signal
import sys
from pathlib import Path


def main() -> int:
    # The package itself is not imported: it brings NumPy and ExecuTorch along, which would take longer than a command.
    package = Path(importlib.util.find_spec("nibble").origin).parent
    spec = importlib.util.spec_from_file_location("nibble_engines", package / "_engines.py")
    engines = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(engines)
    words = [os.fsencode(word) for word in sys.argv]
    argv = (ctypes.c_char_p * (len(words) + 1))(*words, None)
    arguments = [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)]
    library = engines.open_library(package / "lib" / "libnibble_command.so", {"nibble_main": (ctypes.c_int, arguments)})
    # As in a program without Python.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    return library.nibble_main(len(words), argv)


if __name__ == "__main__":
    sys.exit(main())
