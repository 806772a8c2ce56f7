"""A connection, before and between requests: how long it may be silent, how many there may be, and in how small pieces
requests may come. uvicorn has no limits for these."""

import asyncio
import re
import resource

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from .context import Limits
from .errors import ApiError
from .json_text import as_json

# Files that the process needs besides connections.
_OTHER_FILES = 128
# What a request's line and headers may have together.
_HEAD_BYTES = 32 << 10
# Each piece of a body takes some microseconds, however small it is: a body of single bytes would take minutes.
_SMALL_BYTES, _MOST_SMALL = 64, 1024


def most_connections(wanted: int) -> int:
    """As many as the process may have open, if that is less."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if files == resource.RLIM_INFINITY else max(min(wanted, files - _OTHER_FILES), 1)


class Connection(H11Protocol):
    def __init__(self, limits: Limits, **given):
        super().__init__(**given)
        self.conn = _Reader()
        self._limits, self._most = limits, most_connections(limits.connections)
        self._alarm: asyncio.TimerHandle | None = None
        self._is_cut = False
        self.silent_since = self.loop.time()

    @property
    def is_silent(self) -> bool:
        """Whether there is no request whose answer is being made."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._begin_silence()
        if len(self.connections) > self._most:
            self._make_room()

    def _make_room(self) -> None:
        """Whoever is silent for the longest time has to go. Where all others are busy, that is the new one."""
        others = [one for one in self.connections if not one._is_cut]
        if len(others) > self._most:
            min((one for one in others if one.is_silent), key=lambda one: one.silent_since).cut()

    def cut(self) -> None:
        """Also what waits to be read by a client that does not read."""
        self._is_cut = True
        self.transport.abort()

    def _begin_silence(self) -> None:
        self._end_silence()
        self.silent_since = self.loop.time()
        self._alarm = self.loop.call_later(self._limits.body_seconds, self._end_if_silent)

    def _end_silence(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _end_if_silent(self) -> None:
        if self.transport.get_write_buffer_size() == 0:
            self.cut()
        else:  # the end of an answer is on its way
            self._alarm = self.loop.call_later(self._limits.body_seconds, self._end_if_silent)

    def handle_events(self) -> None:
        super().handle_events()
        if not self.is_silent:
            self._end_silence()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.is_silent and not self.transport.is_closing():
            self._begin_silence()

    def connection_lost(self, error: Exception | None) -> None:
        self._end_silence()
        super().connection_lost(error)

    def send_400_response(self, message: str) -> None:
        """In the form of all errors. Where an answer has begun, nothing can be said any more."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = as_json(ApiError(400, "the request is no HTTP that is understood here", code="invalid_http").body)
            headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), "Connection": "close"}
            start = h11.Response(status_code=400, headers=list(headers.items()))
            for event in (start, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event))
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()


class _Reader(h11.Connection):
    """The bytes of a client as events."""

    def __init__(self):
        super().__init__(h11.SERVER, _HEAD_BYTES)
        self._small = 0

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        if self.their_state is h11.IDLE:
            # h11 bounds a head of which there is more to come, but not one that came at once.
            there = self.trailing_data[0]
            if len(there) > _HEAD_BYTES and not re.search(rb"\n\r?\n", there[:_HEAD_BYTES]):
                raise h11.RemoteProtocolError("the head is too long")
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._small = 0
        elif isinstance(event, h11.Data) and len(event.data) < _SMALL_BYTES:
            self._small += 1
            if self._small > _MOST_SMALL:
                raise h11.RemoteProtocolError("the body comes in too small pieces")
        return event
