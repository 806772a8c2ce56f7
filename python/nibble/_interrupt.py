"""Ctrl-C during a native call. Python's handlers do not run inside one, so between its submissions the library asks the
main thread whether to stop; in answering, the handlers run. What they raise is raised when the call returns."""

import threading
from collections.abc import Iterator
from ctypes import CDLL, CFUNCTYPE, c_bool

StopCheck = CFUNCTYPE(c_bool)

_raised: list[BaseException] = []


def _answers() -> Iterator[bool]:
    # A generator and not a function: a handler runs as soon as Python code does, in a function before its `try`. This
    # goes on inside it.
    stop = False
    while True:
        try:
            while True:
                yield stop
                stop = False
        except GeneratorExit:
            return
        except BaseException as error:
            _raised.append(error)
            stop = True


class Watch:
    """Lets the library ask the main thread."""

    def __init__(self, library: CDLL):
        self._library = library
        self._check = None
        self.begin()

    def begin(self) -> None:
        """Comes before calls: the package may have been imported by another thread."""
        if self._check is None and threading.current_thread() is threading.main_thread():
            answers = _answers()
            next(answers)
            self._check = StopCheck(answers.__next__)
            self._library.nibble_set_stop_check(self._check)


def interruption() -> BaseException | None:
    """What a handler raised during this thread's call that just failed."""
    if _raised and threading.current_thread() is threading.main_thread():
        return _raised.pop(0)
    return None
