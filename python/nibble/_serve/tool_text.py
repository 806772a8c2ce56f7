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
    """Takes what tool_grammar() allows. Calls are handed out as they come, arguments piece by piece; what looked like a
    call and is none is handed out as words."""

    def __init__(self, style: ToolStyle, names: Sequence[str], is_shaped: bool = False):
        """is_shaped: an answer without calls has a form of its own, so it may hold whatever calls begin with."""
        self._style = style
        self._heads = {style.head(name): name for name in names}
        self._held = ""
        # Where words are free, a call may come after them; otherwise there is one at the beginning, or none.
        self._is_free = bool(style.opening) and not is_shaped
        self._state = self._words if self._is_free else self._first if style.opening or not is_shaped else self._plain
        self._depth, self._is_string, self._is_escaped = 0, False, False

    def push(self, text: str) -> list[Part]:
        self._held += text
        parts: list[Part] = []
        # Each state takes what it can, and says whether another one goes on.
        while self._held and self._state(parts):
            pass
        return parts

    def finish(self) -> list[Part]:
        """What was held back: words, unless it is what stands after a call."""
        parts = [Words(self._held)] if self._held and self._state != self._between else []
        self._held = ""
        return parts

    def _words(self, parts: list[Part]) -> bool:
        trigger = self._style.trigger
        at = self._held.find(trigger)
        end = at if at >= 0 else len(self._held) - _overlap(self._held, trigger)
        if end:
            parts.append(Words(self._held[:end]))
        self._held = self._held[end:]
        if at < 0:
            return False
        self._state = self._first
        return True

    def _first(self, parts: list[Part]) -> bool:
        """The first call stands here, or none."""
        for head, name in self._heads.items():
            beginning = self._style.opening + head
            if self._held.startswith(beginning):
                return self._begin(parts, name, len(beginning))
            if beginning.startswith(self._held):
                return False
        if self._is_free:
            end = len(self._style.trigger)
            parts.append(Words(self._held[:end]))
            self._held = self._held[end:]
        self._state = self._words if self._is_free else self._plain
        return True

    def _begin(self, parts: list[Part], name: str, end: int) -> bool:
        parts.append(CallBegins(name))
        self._held = self._held[end:]
        self._state = self._arguments
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
        return self._begin(parts, self._heads[head], at + len(head))

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
