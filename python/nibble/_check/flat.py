"""Writes FlatBuffers, as far as programs need them. A table is the list of its fields, in the order of the schema."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Scalar:
    form: str  # of struct
    value: Any


@dataclass(frozen=True)
class Numbers:
    form: str
    values: Sequence[Any]


@dataclass(frozen=True)
class Table:
    """Fields are a Scalar, or what lies elsewhere: Numbers, str, bytes (aligned to 16), Table, a list of Tables. None
    is absent."""

    fields: Sequence[Any]


def write(root: Table, identifier: str) -> bytes:
    out = bytearray(4) + identifier.encode()
    # What is referred to comes later, so offsets are positive: places that wait for it, and what it is.
    waiting: list[tuple[int, Any]] = [(0, root)]
    while waiting:
        place, value = waiting.pop()
        at = _append(out, value, waiting)
        struct.pack_into("<I", out, place, at - place)
    return bytes(out)


def _align(out: bytearray, to: int, before: int = 0) -> None:
    """So that what comes after `before` bytes begins at a multiple of `to`."""
    out.extend(bytes(-(len(out) + before) % to))


def _append(out: bytearray, value: Any, waiting: list) -> int:
    if isinstance(value, Table):
        return _append_table(out, value, waiting)
    if isinstance(value, str):
        data = value.encode()
        _align(out, 4)
        at = len(out)
        out.extend(struct.pack("<I", len(data)) + data + b"\0")
    elif isinstance(value, bytes):
        _align(out, 16, before=4)
        at = len(out)
        out.extend(struct.pack("<I", len(value)) + value)
    elif isinstance(value, Numbers):
        _align(out, max(4, struct.calcsize(value.form)), before=4)
        at = len(out)
        out.extend(struct.pack(f"<I{len(value.values)}{value.form}", len(value.values), *value.values))
    else:
        _align(out, 4)
        at = len(out)
        out.extend(struct.pack("<I", len(value)) + bytes(4 * len(value)))
        waiting.extend((at + 4 * (i + 1), one) for i, one in enumerate(value))
    return at


def _append_table(out: bytearray, table: Table, waiting: list) -> int:
    size, places = 4, []
    for field in table.fields:
        width = struct.calcsize(field.form) if isinstance(field, Scalar) else 4
        if field is not None:
            size += -size % width
        places.append(0 if field is None else size)
        size += 0 if field is None else width
    _align(out, 2)
    names = len(out)
    out.extend(struct.pack(f"<{2 + len(places)}H", 4 + 2 * len(places), size, *places))
    _align(out, 8)
    at = len(out)
    out.extend(bytes(size))
    struct.pack_into("<i", out, at, at - names)
    for place, field in zip(places, table.fields, strict=True):
        if isinstance(field, Scalar):
            struct.pack_into(f"<{field.form}", out, at + place, field.value)
        elif field is not None:
            waiting.append((at + place, field))
    return at
