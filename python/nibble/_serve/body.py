"""The body of a request: bytes within limits, and the JSON in them."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, NoReturn

from starlette.requests import Request

from .errors import ApiError

if TYPE_CHECKING:
    from .context import Limits

# All bodies that are there together have the room of so many of the largest.
_LARGEST = 16
# Of a whole number, because more would take long. Python takes at least as many, however it is set up.
_MOST_DIGITS = 640


class Bodies:
    """Reads bodies, and bounds the memory of those that come slowly or wait until somebody looks at them."""

    def __init__(self, limits: "Limits"):
        self._limits, self._bytes = limits, 0

    @contextlib.asynccontextmanager
    async def read(self, request: Request) -> AsyncIterator[bytes]:
        """The body, for as long as it is needed."""
        body = bytearray()
        try:
            await self._collect(request, body)
            yield bytes(body)
        finally:
            self._bytes -= len(body)

    async def _collect(self, request: Request, body: bytearray) -> None:
        limits, room = self._limits, _LARGEST * self._limits.body_bytes
        too_large = ApiError(413, f"the body is longer than {limits.body_bytes} bytes, which is the most that is taken")
        _check_head(request, limits.body_bytes, too_large)
        try:
            async with asyncio.timeout(limits.body_seconds):
                async for chunk in request.stream():
                    body += chunk
                    self._bytes += len(chunk)
                    if len(body) > limits.body_bytes:
                        raise too_large
                    if self._bytes > room:
                        message = f"the bodies of all requests are longer than {room} bytes; come again later"
                        raise ApiError(429, message, code="rate_limit_exceeded", retry_after=1)
        except TimeoutError:
            raise ApiError(408, f"the body did not come within {limits.body_seconds:g} seconds") from None


def _check_head(request: Request, most: int, too_large: ApiError) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    # Others could come from any web page without asking first.
    if kind != "application/json":
        raise ApiError(415, f"the content type is '{kind[:60]}', but it must be application/json")
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > most:
        raise too_large


def parse_json(body: bytes) -> Any:
    try:
        return json.loads(body, parse_constant=_refuse, parse_int=_whole)
    except RecursionError:
        raise ApiError(400, "the body is nested too deeply", code="invalid_json") from None
    except ValueError as error:
        raise ApiError(400, f"the body is no JSON: {error}", code="invalid_json") from None


def _whole(digits: str) -> int:
    count = len(digits.removeprefix("-"))
    if count > _MOST_DIGITS:
        raise ApiError(400, f"the body has a number of {count} digits, but it may have {_MOST_DIGITS}")
    return int(digits)


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")
