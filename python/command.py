#!python
"""The command `nibble` of the wheel: the C++ command, with the WebGPU implementations that Python finds, and the
commands that are written in Python."""

import importlib
import importlib.util
import signal
import sys
from pathlib import Path

# Each is a module of nibble._commands with a function main(arguments), which gives the exit code.
IN_PYTHON = {
    "check": "check",
    "embed": "embed",
    "generate": "generate",
    "import": "import_gguf",
    "search": "search",
    "serve": "serve",
}


def main() -> int:
    if module := IN_PYTHON.get(next(iter(sys.argv[1:]), "")):
        return importlib.import_module(f"nibble._commands.{module}").main(sys.argv[2:])
    # The package itself is not imported: it brings NumPy and ExecuTorch along, which would take longer than a command.
    package = Path(importlib.util.find_spec("nibble").origin).parent
    spec = importlib.util.spec_from_file_location("nibble_engines", package / "_engines.py")
    engines = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(engines)
    # As in a program without Python; the command has a handler of its own while it runs a program.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # whoever started it may want it so
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    return engines.main_of(package / "lib" / "libnibble_command.so", "nibble_main")(sys.argv)


if __name__ == "__main__":
    sys.exit(main())
