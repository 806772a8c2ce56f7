"""What stands before every request: who may come in, how many at once, what is said about it afterwards."""

import asyncio
import hashlib
import hmac
import ipaddress
import re
import secrets
import time
import traceback
from collections.abc import Iterable, Sequence

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .context import Context
from .errors import ApiError
from .json_text import as_json

# What needs no key: whether it lives, and the page, which asks for one.
_OPEN = ("/health", "/", "/page.js")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
# That a client has to take its answer, when a request has had all its time.
_GRACE_SECONDS = 5


def error_response(error: ApiError) -> Response:
    return Response(as_json(error.body), error.status, error.headers, "application/json")


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server that listens there."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def names_of(host: str, further: Sequence[str]) -> set[str] | None:
    """By which names a server may be called that listens there; None: by any."""
    return {*_LOOPBACK, host, *further} if further or is_loopback(host) else None


class Guard:
    """key: without it nobody gets in. hosts: by which names the server may be called; None: by any."""

    def __init__(self, app: ASGIApp, context: Context, *, key: str | None, hosts: Iterable[str] | None):
        self._app, self._context = app, context
        self._key = _digest(key.encode("utf-8", "surrogateescape")) if key else None
        self._hosts = None if hosts is None else {host.lower() for host in hosts}
        self._inside = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        facts = scope["nibble"] = {"id": f"req_{secrets.token_hex(8)}"}
        status, began = 0, time.monotonic()

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", facts["id"].encode())]
            await send(message)

        self._inside += 1
        failure: ApiError | None = None
        try:
            self._check(scope)
            async with asyncio.timeout(self._context.limits.seconds + _GRACE_SECONDS):
                await self._app(scope, receive, watched)
        except ApiError as error:
            failure = error
        except TimeoutError:
            failure = ApiError(504, "the answer was not taken in time", code="timeout")
        except Exception as error:
            self._context.log.say("error", event="failure", id=facts["id"], error=traceback.format_exception(error))
            failure = ApiError(500, "the server failed", code="internal")
        finally:
            self._inside -= 1
            if failure:
                facts["error"] = failure.message
                if not status and failure.status != 499:
                    await error_response(failure)(scope, receive, watched)
            self._tell(scope, status or (failure.status if failure else 499), time.monotonic() - began)

    def _check(self, scope: Scope) -> None:
        headers = dict(scope["headers"])
        if self._hosts is not None:
            # A page from elsewhere can have its own name point here; it must not talk to what runs here.
            host = re.sub(r":[0-9]*$", "", headers.get(b"host", b"").decode("latin-1")).strip("[]").lower()
            if host not in self._hosts:
                raise ApiError(421, f"the server is not called '{host[:60]}'", code="unknown_host")
        if self._key and scope["path"] not in _OPEN and scope["method"] != "OPTIONS":
            scheme, _, key = headers.get(b"authorization", b"").partition(b" ")
            if scheme.lower() != b"bearer" or not hmac.compare_digest(_digest(key.strip()), self._key):
                what = "the API key is not the right one" if key else "there is no API key: Authorization: Bearer KEY"
                raise ApiError(401, what, code="invalid_api_key")
        if self._inside > self._context.limits.requests and scope["path"] not in _OPEN:
            message = f"{self._context.limits.requests} requests are being served, which is as many as may"
            raise ApiError(429, message, code="rate_limit_exceeded", retry_after=1)

    def _tell(self, scope: Scope, status: int, seconds: float) -> None:
        route = scope.get("route")
        path = getattr(route, "path", "other")
        metrics = self._context.metrics
        metrics.requests[path, status] += 1
        metrics.durations.add(seconds)
        level = "error" if status >= 500 else "info"
        facts = {"event": "request", "method": scope["method"][:20], "path": path, "status": status}
        self._context.log.say(level, **facts, ms=round(seconds * 1e3), **scope["nibble"])


def _digest(key: bytes) -> bytes:
    """Of one length, so that comparing says nothing of it."""
    return hashlib.sha256(key).digest()
