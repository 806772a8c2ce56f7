"""Runs the device tests on Dawn: on_dawn.py LIBRARY [GTEST_OPTIONS...]. Python has its functions."""

import ctypes
import importlib.util
import os
import sys
from pathlib import Path

ENGINES = Path(__file__).parents[2] / "python" / "nibble" / "_engines.py"


def main() -> int:
    spec = importlib.util.spec_from_file_location("nibble_engines", ENGINES)
    engines = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(engines)
    words = [os.fsencode(word) for word in sys.argv[1:]]
    argv = (ctypes.c_char_p * (len(words) + 1))(*words, None)
    os.environ["NIBBLE_ENGINE"] = "dawn"
    run = (ctypes.c_int, [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)])
    return engines.open_library(Path(sys.argv[1]), {"nibble_device_tests": run}).nibble_device_tests(len(words), argv)


if __name__ == "__main__":
    sys.exit(main())
