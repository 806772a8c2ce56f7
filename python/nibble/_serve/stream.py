"""An answer in chunks, as server-sent events."""

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from .events import Done, Event, Failed
from .exchange import Exchange
from .json_text import as_json


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


def _data(text: bytes) -> bytes:
    return b"data: " + text + b"\n\n"
