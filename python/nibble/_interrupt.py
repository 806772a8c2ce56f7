"""Ctrl-C during a native call. Python's handlers do not run inside one, so between its submissions the library asks the
main thread whether to stop; in answering, the handlers run. What they raise is raised when the call returns."""

import contextlib
import logging
import signal
import threading
from collections.abc import Iterator
from ctypes import CDLL, CFUNCTYPE, c_bool

StopCheck = CFUNCTYPE(c_bool)
_NO_CHECK = StopCheck(0)
_STOP = StopCheck(True.__bool__)  # none of Python's code, in which a handler would run


def _answers(raised: list[BaseException]) -> Iterator[bool]:
    # A generator and not a function: a handler runs as soon as Python code does, in a function before its `try`. This
    # goes on inside it.
    while True:
        try:
            while True:
                yield bool(raised)
        except GeneratorExit:
            return
        except BaseException as error:
            raised.append(error)


class Watch:
    """In its block the library may ask, if this is the main thread. Other calls of this process, such as ExecuTorch's,
    are not asked, and neither are those of a handler that runs within an answer."""

    def __init__(self, library: CDLL):
        self._library = library
        self._raised: list[BaseException] = []
        self._answers = _answers(self._raised)
        next(self._answers)
        self._check = StopCheck(self._answers.__next__)
        self._ended = threading.local()  # `here` if stop() ended the call of this thread

    def __enter__(self) -> None:
        # A handler may raise between any two of these steps: nothing is counted that would then be wrong for good.
        if _is_main():
            if self._answers.gi_running:
                self._library.nibble_set_stop_check(_NO_CHECK)
            else:
                self._raised.clear()
                self._library.nibble_set_stop_check(self._check)

    def __exit__(self, *_exception) -> None:
        if _is_main():
            if self._answers.gi_running:
                self._library.nibble_set_stop_check(self._check)
            else:
                self._library.nibble_set_stop_check(_NO_CHECK)
                self._raised.clear()
        elif vars(self._ended).pop("here", False):
            self._library.nibble_set_stop_check(_NO_CHECK)

    def go_on(self) -> None:
        """After a callback of a call: those that it made itself asked in their own way."""
        if _is_main() and not self._answers.gi_running:
            self._library.nibble_set_stop_check(self._check)

    def stop(self) -> None:
        """Ends the call that this thread is in."""
        self._ended.here = True
        self._library.nibble_set_stop_check(_STOP)

    def interruption(self) -> BaseException | None:
        """What a handler raised during this thread's call that just failed."""
        return self._raised.pop(0) if self._raised and _is_main() else None


@contextlib.contextmanager
def heard() -> Iterator[None]:
    """Around work of libraries that make another error of a Ctrl-C in their midst, as torch's C++ does, or swallow it:
    what its handler raised comes out of the block, and what the libraries log of it does not."""
    handler = signal.getsignal(signal.SIGINT)
    if not _is_main() or not callable(handler):
        yield
        return
    raised: list[BaseException] = []
    disabled = logging.root.manager.disable

    def hear(number, frame) -> None:
        try:
            handler(number, frame)
        except BaseException as error:
            raised.append(error)
            logging.disable(logging.CRITICAL)
            raise

    signal.signal(signal.SIGINT, hear)
    try:
        yield
    except Exception:
        if not raised:
            raise
    finally:
        signal.signal(signal.SIGINT, handler)
        if raised:
            logging.disable(disabled)
    if raised:
        raise raised[0] from None


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()
