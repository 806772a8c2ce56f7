"""What was made for clients that have not read it yet. Each answer is bounded; here all of them together are."""

import time
from collections.abc import Callable

from .errors import ApiError

# About what Python takes for a piece of an answer, and for each log-probability in it.
PIECE_BYTES, LOGPROB_BYTES = 1000, 300


class Unread:
    """Where there is too much of it, whoever has taken nothing for the longest time loses the answer; who has more
    waiting counts for more. For one thread, that of the event loop."""

    def __init__(self, most: int):
        self._most, self.bytes = most, 0
        self._waiting: set[Waiting] = set()

    def add(self, waiting: "Waiting", count: int) -> None:
        self.bytes += count
        self._waiting.add(waiting)
        while self.bytes > self._most:
            now = time.monotonic()
            slowest = max(self._waiting, key=lambda one: one.bytes * (now - one.since))
            bytes = slowest.bytes
            slowest.end()
            message = (
                f"the answers that wait to be read take more than {self._most} bytes; this one, of which {bytes} "
                "waited, was read the slowest and is given up"
            )
            slowest.give_up(ApiError(503, message, code="slow_reader"))

    def remove(self, waiting: "Waiting", count: int) -> None:
        self.bytes -= count
        if not waiting.bytes:
            self._waiting.discard(waiting)


class Waiting:
    """What one client has not read yet. give_up: called when it must not wait any longer."""

    def __init__(self, unread: Unread, give_up: Callable[[ApiError], None]):
        self._unread, self.give_up = unread, give_up
        self.bytes, self.since = 0, 0.0

    def add(self, count: int) -> None:
        if not self.bytes:
            self.since = time.monotonic()
        self.bytes += count
        self._unread.add(self, count)

    def take(self, count: int) -> None:
        """The client has taken what came before, and so much more is on its way to it."""
        self.since = time.monotonic()
        self.bytes -= count
        self._unread.remove(self, count)

    def end(self) -> None:
        self.take(self.bytes)
