"""One generation: pieces of text, and what they cost."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .._native import NibbleError
from .constraint import Constraint
from .generator import TextStream

if TYPE_CHECKING:
    from .language_model import LanguageModel, TextSession


def resident_bytes() -> int:
    """What this process has in memory; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, LookupError):
        return 0


@dataclass(frozen=True)
class TokenLogprob:
    """A token, its text and the natural logarithm of the probability that the model gave it."""

    id: int
    text: str
    logprob: float


@dataclass(frozen=True)
class Piece:
    """Some text as it comes: whole characters, of one token or more. str() gives the text."""

    text: str
    ids: tuple[int, ...]
    logprobs: tuple[TokenLogprob, ...] = ()
    top_logprobs: tuple[tuple[TokenLogprob, ...], ...] = ()

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Usage:
    """How many tokens a generation took. Of the prompt, `cached_tokens` were in the session already."""

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int


@dataclass(frozen=True)
class Prepared:
    """A generation before it begins: its prompt, its settings as C++ takes them, and what becomes of its tokens."""

    tokens: list[int]
    settings: dict
    stream: TextStream
    constraint: Constraint | None
    shown: dict[int, bytes]  # special tokens that are text

    def again(self, tokens: list[int], seed: int) -> "Prepared":
        """The same for another prompt, or drawn otherwise."""
        constraint = None if self.constraint is None else self.constraint.copy()
        stream = TextStream(self.stream.stops)
        return Prepared(tokens, {**self.settings, "seed": seed}, stream, constraint, self.shown)


class Generation(Iterator[Piece]):
    """Pieces of text, as they are generated. When it has ended, `finish_reason` is "stop", "length" or "cancelled"."""

    def __init__(self, session: "TextSession", prepared: Prepared):
        self._session, self._stream, self._constraint = session, prepared.stream, prepared.constraint
        self._model, self._generator = session._model, session._generator
        self._shown = prepared.shown
        self._wants_logprobs = prepared.settings["logprobs"]
        self.seed: int = prepared.settings["seed"]
        self.text = ""
        self.ids: list[int] = []
        self.finish_reason: str | None = None
        self._stats: dict | None = None
        self._closes: LanguageModel | None = None  # loaded for this generation alone
        self._has_prompt = True  # of which more than one chunk may be left
        self._held: list[tuple[int, float, list]] = []  # tokens of which no text was handed out yet

    def __next__(self) -> Piece:
        while self.finish_reason is None:
            if (piece := self.step()) is not None:
                return piece
        raise StopIteration

    def step(self) -> Piece | None:
        """Computes one chunk of the prompt or one token, so that others can have their turn before the next. Gives a
        piece if there is something to hand out; `finish_reason` says whether it was the last."""
        self._check_turn()
        if self.finish_reason is not None or self._prefill():
            return None
        token = self._next_token()
        if token is None:
            text = self._stream.finish()
        else:
            self._held.append(token)
            self.ids.append(token[0])
            text = self._stream.push(self._shown.get(token[0]) or self._model.tokenizer.bytes_of(token[0]))
            if self._stream.stop is not None:
                self._end("stop")
        self.text += text
        if not text and not (self._held and (self.finish_reason or self._wants_logprobs)):
            return None
        held, self._held = self._held, []
        return self._piece(text, held)

    def _prefill(self) -> bool:
        """Whether a chunk of the prompt was this step."""
        if self._has_prompt:
            try:
                self._has_prompt = self._generator.prefill()
            except NibbleError as error:
                if error.code != "cancelled":
                    raise
                self._end("cancelled")
                return True
        return self._has_prompt

    def _check_turn(self) -> None:
        if self._session._current is not self:
            raise NibbleError("this generation has ended: its session has begun another one", "invalid_argument")

    def _next_token(self) -> tuple[int, float, list] | None:
        if self._constraint is not None and self._constraint.is_done:
            self._end("stop")
            return None
        allowed = None if self._constraint is None else self._constraint.allowed()
        try:
            token = self._generator.next(allowed)
        except NibbleError as error:
            if error.code != "cancelled":
                raise
            self._end("cancelled")
            return None
        if token is None:
            self._end(self._generator.stats["finish_reason"])
        elif self._constraint is not None:
            self._constraint.take(token[0])
        return token

    def _piece(self, text: str, held: list[tuple[int, float, list]]) -> Piece:
        ids = tuple(id for id, _, _ in held)
        if not self._wants_logprobs:
            return Piece(text, ids)
        chosen = tuple(self._logprob(id, logprob) for id, logprob, _ in held)
        return Piece(text, ids, chosen, tuple(tuple(self._logprob(*one) for one in top) for _, _, top in held))

    def _logprob(self, id: int, logprob: float) -> TokenLogprob:
        return TokenLogprob(id, self._model.tokenizer.bytes_of(id).decode(errors="replace"), logprob)

    def _end(self, reason: str) -> None:
        self.finish_reason = reason
        if reason == "stop":
            self._generator.stop()
        self._stats = self._figures()
        if self._closes is not None:
            self._closes.close()

    def _figures(self) -> dict:
        device = self._model.device.info
        return self._generator.stats | {
            "model_bytes": self._generator.model_bytes,
            "session_bytes": self._generator.session_bytes,
            "resident_bytes": resident_bytes(),
            "device": device.name,
            "engine": device.engine,
        }

    def run(self) -> str:
        """Generates to the end, and gives the whole text."""
        for _ in self:
            pass
        return self.text

    def cancel(self) -> None:
        """Ends it within a step, from any thread. The session can go on with another prompt."""
        if self._session._current is self:
            self._generator.cancel()

    @property
    def stats(self) -> dict:
        """Times, tokens and memory, so far or in the end; what ExecuTorch's own statistics have is called as there."""
        if self._stats is None:
            self._check_turn()
        return self._stats or self._figures()

    @property
    def usage(self) -> Usage:
        stats = self.stats
        return Usage(stats["prompt_tokens"], stats["cached_tokens"], stats["generated_tokens"])
