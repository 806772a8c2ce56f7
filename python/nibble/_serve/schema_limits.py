"""How large a request's JSON schemas may be. Grammars are made of them, and what a large one costs, in memory and in
each step, is paid by all requests."""

from collections.abc import Iterable
from typing import Any

from .errors import wrong

MOST_VALUES = 5000
MOST_LETTERS = 4096
MOST_PATTERN = 1000
# Of no weight: they are for people.
_WORDS = ("description", "title", "$comment")


def check_schemas(name: str, schemas: Iterable[Any]) -> None:
    """Of all schemas of a request, whose parameter is called `name`."""
    values, rest = 0, [("", schema) for schema in schemas]
    while rest:
        key, value = rest.pop()
        if isinstance(value, str):
            _check_text(name, key, value)
        elif isinstance(value, list):
            values += len(value)
            rest += [(key, one) for one in value]
        elif isinstance(value, dict):
            values += len(value)
            rest += value.items()
            rest += [("pattern" if key == "patternProperties" else "", one) for one in value]
    if values > MOST_VALUES:
        raise wrong(name, f"{name} has {values} values in its schemas, but there may be {MOST_VALUES}")


def _check_text(name: str, key: str, text: str) -> None:
    what, most = ("pattern", MOST_PATTERN) if key.endswith("pattern") else ("text", MOST_LETTERS)
    if len(text) > most and key not in _WORDS:
        raise wrong(name, f"{name} has a {what} of {len(text)} letters in a schema, but it may have {most}")
