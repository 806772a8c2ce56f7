"""Requests that are almost right: JSON in which something was changed, or its bytes."""

import copy
import json
import random
from typing import Any

ODD = [
    None, True, False, 0, -1, 1, 1.5, -0.0, 1e308, 10**30, "", "x", "\ud800", "\x00", "auto", "required", "text",
    "user", "tool", "object", "json_schema", [], {}, [[]], [None], {"": None}, {"type": "text"}, {"type": "function"},
    {"type": "object", "properties": {"a": {"$ref": "#"}}}, {"type": "string", "pattern": "("}, "é" * 300, [1] * 2000,
]  # fmt: skip


def places(value: Any, path: tuple = ()) -> list[tuple]:
    """Where something is, everything included."""
    found = [path]
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in items:
        found += places(one, (*path, key))
    return found


def mutate(dice: random.Random, body: Any, all_bodies: list[Any]) -> Any:
    """A few changes: something else in its place, gone, twice, or taken from another request."""
    body = copy.deepcopy(body)
    for _ in range(dice.randint(1, 3)):
        path = dice.choice(places(body))
        if not path:
            if dice.random() < 0.05:
                return dice.choice(ODD)
            body[dice.choice(_names(all_bodies))] = _some(dice, all_bodies)
            continue
        holder = body
        for key in path[:-1]:
            holder = holder[key]
        kind = dice.random()
        if kind < 0.2:
            del holder[path[-1]]
        elif kind < 0.3 and isinstance(holder, list):
            holder.append(holder[path[-1]])
        else:
            holder[path[-1]] = _some(dice, all_bodies)
    return body


def _names(bodies: list[Any]) -> list[str]:
    return sorted({key for body in bodies for key in body} | {"temprature", "\ud800"})


def _some(dice: random.Random, bodies: list[Any]) -> Any:
    if dice.random() < 0.6:
        return copy.deepcopy(dice.choice(ODD))
    value = dice.choice(bodies)
    for key in dice.choice(places(value)):
        value = value[key]
    return copy.deepcopy(value)


def cut(dice: random.Random, body: Any) -> bytes:
    """As bytes, of which some are others."""
    data = bytearray(json.dumps(body).encode())
    for _ in range(dice.choice((0, 0, 0, 0, 1, 3))):
        kind, at = dice.random(), dice.randrange(len(data))
        if kind < 0.4:
            data[at] = dice.randrange(256)
        elif kind < 0.7:
            del data[at : at + dice.randrange(1, 9)]
        else:
            data[at:at] = bytes(dice.randrange(256) for _ in range(dice.randrange(1, 5)))
        if not data:
            break
    return bytes(data)
