"""The parameters of a request, read one after the other. What is wrong is one sentence that names the parameter."""

import json
import math
from collections.abc import Iterable
from typing import Any

from .errors import wrong


class Fields:
    """An object of a request. null is as good as absent; what nobody has taken in the end is unknown."""

    def __init__(self, value: Any, where: str = ""):
        if not isinstance(value, dict):
            name = where or "the body"
            raise wrong(where or None, f"{name} must be an object, but it is {shown(value)}")
        self._values, self._where, self._taken = value, where, set()

    def name(self, key: str) -> str:
        return f"{self._where}.{key}" if self._where else key

    def take(self, key: str) -> Any:
        self._taken.add(key)
        return self._values.get(key)

    def ignore(self, keys: Iterable[str]) -> None:
        self._taken.update(keys)

    def _refuse(self, key: str, value: Any, wanted: str):
        return wrong(self.name(key), f"{self.name(key)} is {shown(value)}, but it must be {wanted}")

    def number(self, key: str, low: float, high: float) -> float | None:
        value = self.take(key)
        if value is None:
            return None
        if is_number(value) and low <= value <= high:
            return float(value)
        raise self._refuse(key, value, f"a number from {low:g} to {high:g}")

    def whole(self, key: str, low: int, high: int) -> int | None:
        value = self.take(key)
        if value is None:
            return None
        # 5.0 is 5: JSON has one kind of number.
        if is_number(value) and value == int(value) and low <= value <= high:
            return int(value)
        raise self._refuse(key, value, f"a whole number from {low} to {high}")

    def flag(self, key: str) -> bool:
        value = self.take(key)
        if value is None or isinstance(value, bool):
            return bool(value)
        raise self._refuse(key, value, "true or false")

    def text(self, key: str) -> str | None:
        value = self.take(key)
        if value is None:
            return None
        if not isinstance(value, str):
            raise self._refuse(key, value, "text")
        return checked_text(self.name(key), value)

    def needed_text(self, key: str) -> str:
        value = self.text(key)
        if not value:
            raise wrong(self.name(key), f"{self.name(key)} is missing")
        return value

    def choice(self, key: str, choices: tuple[str, ...]) -> str | None:
        value = self.take(key)
        if value is None or value in choices:
            return value
        raise self._refuse(key, value, " or ".join(choices))

    def items(self, key: str) -> list | None:
        value = self.take(key)
        if value is None or isinstance(value, list):
            return value
        raise self._refuse(key, value, "a list")

    def fields(self, key: str) -> "Fields | None":
        value = self.take(key)
        return None if value is None else Fields(value, self.name(key))

    def finish(self) -> None:
        """Refuses what is unknown: a misspelt name would be ignored otherwise."""
        for key in self._values:
            if key not in self._taken:
                name = self.name(shown(key)[1:-1])
                raise wrong(name, f"{name} is no parameter that is known here", "unknown_parameter")


def is_number(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def checked_text(name: str, text: str) -> str:
    """JSON can hold half a character, of which no tokens can be made."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise wrong(name, f"{name} has half of a character, which is no text") from None
    return text


def shown(value: Any) -> str:
    """A value as a sentence shows it, not at length."""
    if isinstance(value, dict | list):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}" if value else json.dumps(value)
    if isinstance(value, int) and abs(value) >= 1 << 64:
        return "a number beyond 64 bits"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f'{text[:57]}…"'
