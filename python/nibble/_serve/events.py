"""What the scheduler tells whoever waits for an answer, and the way it comes from its thread into the event loop."""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .._text.generation import Piece, Usage
from .errors import ApiError
from .unread import LOGPROB_BYTES, PIECE_BYTES, Unread, Waiting


@dataclass(frozen=True)
class Began:
    """The prompt of a choice is being computed."""

    choice: int


@dataclass(frozen=True)
class Wrote:
    choice: int
    piece: Piece


@dataclass(frozen=True)
class Ended:
    choice: int
    reason: str  # "stop" or "length"
    usage: Usage


@dataclass(frozen=True)
class Encoded:
    """Rows of the answer, and their vectors."""

    rows: np.ndarray
    vectors: np.ndarray


@dataclass(frozen=True)
class Failed:
    """The last event of a request that has no good end."""

    error: ApiError


class Done:
    """The last event of a request."""


Event = Began | Wrote | Ended | Encoded | Failed | Done


# That are taken at once. Whoever has not read for long has thousands, which would keep the event loop from all others.
_MOST = 64


class Mailbox:
    """Events for one request. Nobody who posts waits: what it can hold is bounded by the length of an answer, and what
    all of them hold by `unread`. give_up: ends the request when there is too much, and it is the slowest."""

    def __init__(self, loop: asyncio.AbstractEventLoop, unread: Unread, give_up: Callable[[ApiError], None]):
        self._loop, self._give_up = loop, give_up
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._waiting = Waiting(unread, self._drop)
        self._is_closed = False

    def post(self, event: Event) -> None:
        """From any thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._put, event)

    def _put(self, event: Event) -> None:
        if not self._is_closed:
            self._events.put_nowait(event)
            self._waiting.add(_bytes(event))

    def _drop(self, why: ApiError) -> None:
        """What is there is lost; why is the last event."""
        self._is_closed = True
        while not self._events.empty():
            self._events.get_nowait()
        self._events.put_nowait(Failed(why))
        self._give_up(why)

    def close(self) -> None:
        """Nobody takes any more."""
        self._is_closed = True
        self._waiting.end()

    async def take(self) -> list[Event]:
        """Events that are there, at least one."""
        events = [await self._events.get()]
        while not self._events.empty() and len(events) < _MOST:
            events.append(self._events.get_nowait())
        if not self._is_closed:
            self._waiting.take(sum(map(_bytes, events)))
        if not self._events.empty():
            await asyncio.sleep(0)  # get() does not wait, so nobody else would have a turn
        return events


def _bytes(event: Event) -> int:
    if isinstance(event, Encoded):
        return event.vectors.nbytes
    if not isinstance(event, Wrote):
        return PIECE_BYTES
    others = sum(map(len, event.piece.top_logprobs))
    return PIECE_BYTES + LOGPROB_BYTES * (len(event.piece.logprobs) + others)
