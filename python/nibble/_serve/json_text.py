"""What is sent, as JSON."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

# That the event loop may be busy with one answer before others have their turn.
SLICE_SECONDS = 0.005
# How deep the parts of an answer lie of which there may be thousands: the tokens of choices[].logprobs.content[].
_DEPTH = 5


def as_json(value: Any) -> bytes:
    return _as_text(value).encode("utf-8", "backslashreplace")


async def as_long_json(value: Any) -> bytes:
    """As as_json(), for what may have megabytes: bit by bit, so that others have their turn."""
    loop, texts = asyncio.get_running_loop(), []
    end = loop.time() + SLICE_SECONDS
    for text in _parts(value, _DEPTH):
        texts.append(text)
        if loop.time() > end:
            await asyncio.sleep(0)
            end = loop.time() + SLICE_SECONDS
    return "".join(texts).encode("utf-8", "backslashreplace")


def _as_text(value: Any) -> str:
    """Half a character, which a client may have sent and an error may repeat, stays the escape that it was."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _parts(value: Any, depth: int) -> Iterator[str]:
    if depth and isinstance(value, dict) and value:
        yield "{"
        for place, (key, one) in enumerate(value.items()):
            yield f"{',' if place else ''}{_as_text(key)}:"
            yield from _parts(one, depth - 1)
        yield "}"
    elif depth and isinstance(value, list) and value and isinstance(value[0], dict):
        yield "["
        for place, one in enumerate(value):
            if place:
                yield ","
            yield from _parts(one, depth - 1)
        yield "]"
    else:
        yield _as_text(value)
