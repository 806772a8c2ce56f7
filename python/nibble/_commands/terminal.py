"""What the commands share: arguments, progress, exit codes."""

import argparse
import contextlib
import errno
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable

from .._load import FLAGS
from .._native import NibbleError

FAILED, WRONG_USAGE, INTERRUPTED = 1, 2, 130
_MOST = (1 << 63) - 1


class UsageError(Exception):
    """What the caller has to put right: exit code 2."""


class Parser(argparse.ArgumentParser):
    """Complains as the other commands do."""

    def error(self, message: str):
        sentence = message.removeprefix("argument ").replace(": must be", " must be", 1)
        self.exit(2, f"nibble: {sentence}\nSee: {self.prog} --help\n")


def add_device_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--device", metavar="WHICH", help="adapter: index, kind (discrete, integrated, cpu) or part of its name"
    )
    parser.add_argument("--engine", choices=("dawn", "wgpu"), help="the implementation of WebGPU")


def add_option_flags(parser: argparse.ArgumentParser) -> None:
    """The options of nibble.load(), as `nibble run` has them."""
    group = parser.add_argument_group("options of the program")
    for name, kind, flag, value, must_be, text in FLAGS:
        # In a help text of argparse, % is a sign.
        about = {"dest": name, "default": argparse.SUPPRESS, "help": text.replace("%", "%%")}
        if kind == "flag":
            group.add_argument(flag, action="store_true", **about)
        elif kind in ("names", "variants"):
            about["help"] += "; once for each"
            group.add_argument(flag, action="append", metavar=value, **about)
        else:
            group.add_argument(flag, type=_whole(must_be) if kind == "u64" else str, metavar=value, **about)


def options_of(args: argparse.Namespace) -> dict:
    """Those that were given."""
    return {name: getattr(args, name) for name, *_ in FLAGS if hasattr(args, name)}


def _whole(must_be: str) -> Callable[[str], int]:
    def take(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and int(text) < 1 << 64):
            raise argparse.ArgumentTypeError(f"{must_be}, not {text}")
        return int(text)

    return take


def count(text: str) -> int:
    """For argparse: a number of things."""
    with contextlib.suppress(ValueError):  # of more digits than Python takes
        if not text.isdecimal() or int(text) < 1:
            raise argparse.ArgumentTypeError(f"must be at least 1, but is {text}")
        if int(text) <= _MOST:
            return int(text)
    raise argparse.ArgumentTypeError(f"must be at most {_MOST}, but is {text}")


class Progress:
    """On a terminal, a bar; nothing elsewhere, nor about what is done within half a second."""

    _WIDTH = 32

    def __init__(self, what: str, is_bytes: bool = False):
        self._what, self._is_bytes = what, is_bytes
        self._is_terminal = sys.stderr.isatty()
        self._next = time.monotonic() + 0.5
        self._is_drawn = False

    def __enter__(self) -> Callable[[int, int], None]:
        return self._tell

    def __exit__(self, *_exception) -> None:
        if self._is_drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def _tell(self, done: int, total: int) -> None:
        now = time.monotonic()
        if self._is_terminal and now >= self._next:
            self._next, self._is_drawn = now + 0.1, True
            bar = "#" * (done * self._WIDTH // max(1, total))
            shown = f"{done / 1e6:.0f} of {total / 1e6:.0f} MB" if self._is_bytes else f"{done} of {total}"
            print(f"\r{self._what} [{bar:<{self._WIDTH}}] {shown}\x1b[K", end="", file=sys.stderr, flush=True)


def guard(work: Callable[[], int]) -> int:
    """The work's exit code; what goes wrong is one sentence."""
    # A reader such as head may stop early; that is no failure.
    with contextlib.suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if sys.stderr is None:  # it is closed, as `2>&-` does: print() would take stdout for it
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if sys.stdout is None:
        return complain(f"cannot write the result: {os.strerror(errno.EBADF)}", FAILED)
    # Not every terminal can show every character.
    sys.stdout.reconfigure(errors="replace")
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda note, *_: complain(str(note), 0)
            code = work()
        sys.stdout.flush()
        return code
    except UsageError as error:
        return complain(str(error), WRONG_USAGE)
    except NibbleError as error:
        return complain(str(error), INTERRUPTED if error.code == "cancelled" else FAILED)
    except OSError as error:
        if error.filename is not None:
            return complain(f"'{error.filename}' cannot be used: {error.strerror}", FAILED)
        # What is still to be written would fail again when Python ends.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return complain(f"cannot write the result: {error.strerror}", FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED


def complain(sentence: str, code: int) -> int:
    print(f"nibble: {sentence}", file=sys.stderr)
    return code


def counted(number: int, what: str = "line") -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
