"""The sessions of a model: which one a prompt goes to, so that as much of it as possible is computed already."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

_NOTHING = np.empty(0, np.int32)


class Session(Protocol):
    """What is needed of a TextSession."""

    tokens: Sequence[int]

    def fork(self) -> "Session": ...
    def close(self) -> None: ...


@dataclass(eq=False)
class Idle:
    session: Session
    tokens: np.ndarray = field(default_factory=lambda: _NOTHING)  # that it has computed


class SessionPool:
    """At most `most` sessions, of which some are in use and the others keep what they have computed. A session that has
    only tokens of the prompt goes on. One that has others after the common ones is forked, so that both are there
    later. Who was not used for the longest time makes room. Not for several threads."""

    def __init__(self, make: Callable[[], Session], most: int):
        self._make, self.most = make, most
        self._idle: list[Idle] = []  # the one that was used last comes last
        self.in_use = 0

    @property
    def idle(self) -> int:
        return len(self._idle)

    def take(self, prompt: Sequence[int]) -> Session:
        """A session for this prompt. There must be one to have: see `most`."""
        session = self._pick(np.asarray(prompt, np.int32))
        self.in_use += 1
        return session

    def _pick(self, prompt: np.ndarray) -> Session:
        has_room = self.in_use + self.idle < self.most
        # The longest beginning; among equals who loses least by going on, and who was used last.
        best = max(reversed(self._idle), key=lambda one: _fit(one.tokens, prompt), default=None)
        known = common(best.tokens, prompt) if best else 0
        # Also one that has nothing, where nobody has anything in common.
        if best and known == len(best.tokens):
            return self._leave(best)
        if has_room:
            return best.session.fork() if known else self._make()
        oldest = self._idle[0]
        if oldest is best or common(oldest.tokens, prompt) == known:
            return self._leave(oldest)
        self._leave(oldest).close()
        return best.session.fork()

    def _leave(self, one: Idle) -> Session:
        self._idle.remove(one)
        return one.session

    def give_back(self, session: Session) -> None:
        """Keeps what it has computed. Whoever has a part of that alone is of no more use."""
        tokens = np.asarray(session.tokens, np.int32)
        for one in list(self._idle):
            if len(one.tokens) and common(one.tokens, tokens) == len(one.tokens):
                one.tokens = _NOTHING
                self._idle.remove(one)
                self._idle.insert(0, one)
        self._idle.append(Idle(session, tokens))
        self.in_use -= 1

    def add(self, session: Session) -> None:
        """One that has computed nothing yet."""
        self._idle.append(Idle(session))

    def drop(self, session: Session) -> None:
        """A session that failed."""
        self.in_use -= 1
        session.close()

    def close_idle(self) -> None:
        for one in self._idle:
            one.session.close()
        self._idle.clear()


def common(tokens: np.ndarray, prompt: np.ndarray) -> int:
    """How many tokens they have in common from the beginning on."""
    count = min(len(tokens), len(prompt))
    differs = np.flatnonzero(tokens[:count] != prompt[:count])
    return int(differs[0]) if len(differs) else count


def _fit(tokens: np.ndarray, prompt: np.ndarray) -> tuple[int, bool]:
    known = common(tokens, prompt)
    return known, known == len(tokens)
