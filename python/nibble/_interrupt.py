"""Ctrl-C during a native call. Python's handlers do not run inside one, so between its submissions the library asks the
main thread whether to stop; in answering, the handlers run. What they raise is raised when the call returns."""

import threading
from collections.abc import Iterator
from ctypes import CDLL, CFUNCTYPE, c_bool

StopCheck = CFUNCTYPE(c_bool)
_NO_CHECK = StopCheck(0)


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
    are not asked."""

    def __init__(self, library: CDLL):
        self._library = library
        self._raised: list[BaseException] = []
        answers = _answers(self._raised)
        next(answers)
        self._check = StopCheck(answers.__next__)
        self._depth = 0

    def __enter__(self) -> None:
        if _is_main():
            self._depth += 1
            if self._depth == 1:
                self._raised.clear()
            self._set()

    def __exit__(self, *_exception) -> None:
        if _is_main():
            self._depth -= 1
            self._set()

    def _set(self) -> None:
        # A handler that itself calls the library runs within the answer to a question: it is not asked again.
        self._library.nibble_set_stop_check(self._check if self._depth == 1 else _NO_CHECK)

    def stop(self, why: BaseException) -> None:
        """Ends the main thread's call, as a handler would."""
        if _is_main():
            self._raised.append(why)

    def interruption(self) -> BaseException | None:
        """What a handler raised during this thread's call that just failed."""
        return self._raised.pop(0) if self._raised and _is_main() else None


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()
