"""Runs the device tests on Dawn: on_dawn.py LIBRARY [GTEST_OPTIONS...]. Python has its functions."""

import importlib.util
import os
import sys
from pathlib import Path

ENGINES = Path(__file__).parents[2] / "python" / "nibble" / "_engines.py"


def main() -> int:
    spec = importlib.util.spec_from_file_location("nibble_engines", ENGINES)
    engines = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(engines)
    os.environ["NIBBLE_ENGINE"] = "dawn"
    return engines.main_of(Path(sys.argv[1]), "nibble_device_tests")(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
