"""The text of an answer, taken apart into words and calls of tools while it comes."""

from collections.abc import Sequence
from dataclasses import dataclass

from .tool_style import ToolStyle


@dataclass(frozen=True)
class Words:
    text: str


@dataclass(frozen=True)
class CallBegins:
    name: str


@dataclass(frozen=True)
class CallGoesOn:
    arguments: str


Part = Words | CallBegins | CallGoesOn


class ToolText:
    """Takes what tool_grammar() allows. Calls are handed out as they come, arguments piece by piece."""

    def __init__(self, style: ToolStyle, names: Sequence[str]):
        self._style = style
        self._heads = {style.head(name): name for name in names}
        self._held = ""
        self._state = self._words
        self._depth, self._is_string, self._is_escaped = 0, False, False

    def push(self, text: str) -> list[Part]:
        self._held += text
        parts: list[Part] = []
        # Each state takes what it can, and says whether another one goes on.
        while self._held and self._state(parts):
            pass
        return parts

    def finish(self) -> list[Part]:
        """What was held back. The beginning of a call that never had a name is dropped."""
        parts = [Words(self._held)] if self._held and self._state == self._words else []
        self._held = ""
        return parts

    def _words(self, parts: list[Part]) -> bool:
        if not self._style.opening:
            self._state = self._between if self._held.startswith(self._style.trigger) else self._plain
            return True
        trigger = self._style.trigger
        at = self._held.find(trigger)
        end = at if at >= 0 else len(self._held) - _overlap(self._held, trigger)
        if end:
            parts.append(Words(self._held[:end]))
        self._held = self._held[end:]
        if at < 0:
            return False
        self._state = self._between
        return True

    def _plain(self, parts: list[Part]) -> bool:
        parts.append(Words(self._held))
        self._held = ""
        return False

    def _between(self, parts: list[Part]) -> bool:
        found = [(self._held.find(head), head) for head in self._heads if head in self._held]
        if not found:
            return False
        at, head = min(found)
        parts.append(CallBegins(self._heads[head]))
        self._held = self._held[at + len(head) :]
        self._state = self._arguments
        return True

    def _arguments(self, parts: list[Part]) -> bool:
        """Up to the brace that closes the object."""
        for place, letter in enumerate(self._held):
            if self._is_string:
                self._is_string = self._is_escaped or letter != '"'
                self._is_escaped = letter == "\\" and not self._is_escaped
            elif letter == '"':
                self._is_string = True
            elif letter in "{[":
                self._depth += 1
            elif letter in "}]":
                self._depth -= 1
                if self._depth == 0:
                    parts.append(CallGoesOn(self._held[: place + 1]))
                    self._held = self._held[place + 1 :]
                    self._state = self._between
                    return True
        parts.append(CallGoesOn(self._held))
        self._held = ""
        return False


def _overlap(text: str, word: str) -> int:
    """How many letters at the end of the text may become the word."""
    most = min(len(text), len(word) - 1)
    return next((count for count in range(most, 0, -1) if text.endswith(word[:count])), 0)
