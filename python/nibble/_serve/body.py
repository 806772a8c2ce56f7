"""The body of a request: bytes within limits, and the JSON in them."""

import asyncio
import json
from typing import Any, NoReturn

from starlette.requests import Request

from .context import Limits
from .errors import ApiError


async def read_body(request: Request, limits: Limits) -> bytes:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    # Others could come from any web page without asking first.
    if kind != "application/json":
        raise ApiError(415, f"the content type is '{kind[:60]}', but it must be application/json")
    too_large = ApiError(413, f"the body is longer than {limits.body_bytes} bytes, which is the most that is taken")
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > limits.body_bytes:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limits.body_bytes:
                    raise too_large
    except TimeoutError:
        raise ApiError(408, f"the body did not come within {limits.body_seconds:g} seconds") from None
    return bytes(body)


def parse_json(body: bytes) -> Any:
    try:
        return json.loads(body, parse_constant=_refuse)
    except RecursionError:
        raise ApiError(400, "the body is nested too deeply", code="invalid_json") from None
    except ValueError as error:
        raise ApiError(400, f"the body is no JSON: {error}", code="invalid_json") from None


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")
