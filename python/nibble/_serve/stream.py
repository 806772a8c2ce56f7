"""Answers on their way: in chunks, as server-sent events, or whole."""

import asyncio

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from .errors import ApiError
from .events import Done, Event, Failed
from .exchange import Exchange
from .json_text import as_json
from .unread import Unread, Waiting


class EventStream(Response):
    """Events that are there together go out together, so a slow reader costs little; and it stops nobody else, because
    whoever computes does not wait for it."""

    media_type = "text/event-stream"

    def __init__(self, exchange: Exchange, first: list[Event]):
        self._exchange, self._first = exchange, first
        self.background = None
        self.status_code = 200
        # Proxies shall neither keep nor collect it.
        self.init_headers({"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            events, is_last = self._first, False
            while True:
                body, is_last = self._encode(events)
                await send({"type": "http.response.body", "body": body, "more_body": not is_last})
                if is_last:
                    break
                events = await self._exchange.events()
        finally:
            self._exchange.close()

    def _encode(self, events: list[Event]) -> tuple[bytes, bool]:
        job = self._exchange.job
        usage = {"usage": None} if job.wants_usage else {}
        out = []
        for event in events:
            if isinstance(event, Failed):
                return b"".join([*out, _data(as_json(event.error.body))]), True
            if isinstance(event, Done):
                if job.wants_usage:
                    out.append(_data(as_json(job.answer.chunk([], usage=job.answer.usage))))
                return b"".join([*out, _data(b"[DONE]")]), True
            out += [_data(as_json(job.answer.chunk([choice], **usage))) for choice in job.answer.take(event)]
        return b"".join(out), False


# That are handed over at once: more would wait where nobody can take it back.
_PIECE_BYTES = 1 << 16


class WholeAnswer(Response):
    """JSON of maybe many megabytes, which counts as unread until the client has taken it."""

    media_type = "application/json"

    def __init__(self, body: bytes, unread: Unread):
        super().__init__(body)
        self._unread = unread

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        task, failure = asyncio.current_task(), None

        def give_up(why: ApiError) -> None:
            nonlocal failure
            failure = why
            task.cancel()

        waiting, body = Waiting(self._unread, give_up), memoryview(self.body)
        self.body = b""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            waiting.add(len(body))
            while True:
                piece, body = bytes(body[:_PIECE_BYTES]), body[_PIECE_BYTES:]
                await send({"type": "http.response.body", "body": piece, "more_body": len(body) > 0})
                if not body:
                    return
                waiting.take(len(piece))
                await asyncio.sleep(0)  # a fast reader would keep the event loop from all others
        except asyncio.CancelledError:
            if failure is None:
                raise
            task.uncancel()
            # Its head says how long it is, so nothing else can be said: the client sees that it is cut.
            scope["nibble"]["error"] = failure.message
        finally:
            waiting.end()


def _data(text: bytes) -> bytes:
    return b"data: " + text + b"\n\n"
