"""An answer as the protocol has it: whole, or in chunks while it comes."""

import secrets
import time
from collections.abc import Callable, Iterable
from typing import Any

from .._native import lib
from .._text.generation import TokenLogprob
from .events import Began, Ended, Event, Wrote

FINGERPRINT = f"nibble-{lib.nibble_version().decode()}"


class Answer:
    """What chat and completions have in common: who answers, what it cost, and events that become chunks."""

    object: str
    chunk_object: str
    prefix: str

    def __init__(self, model: str, choices_per_prompt: int, keeps: bool = True):
        """keeps: what was said, for body() and the log; whoever streams needs neither, and answers may be long."""
        self._keeps = keeps
        self.id = f"{self.prefix}-{secrets.token_hex(12)}"
        self._head = {"created": int(time.time()), "model": model, "system_fingerprint": FINGERPRINT}
        self._per_prompt = choices_per_prompt
        self.prompt_tokens = self.cached_tokens = self.completion_tokens = 0
        self._written = 0  # tokens of the choice that is being written
        self.reasons: list[str] = []

    def take(self, event: Event) -> list[dict]:
        """The choices of chunks that an event makes, one choice for each chunk."""
        if isinstance(event, Began):
            return self._begin(event.choice)
        if isinstance(event, Wrote):
            # Now, and not in the end, to which not everyone stays.
            self._written += len(event.piece.ids)
            self.completion_tokens += len(event.piece.ids)
            return self._write(event.choice, event.piece)
        if isinstance(event, Ended):
            usage = event.usage
            if event.choice % self._per_prompt == 0:
                self.prompt_tokens += usage.prompt_tokens
                self.cached_tokens += usage.cached_tokens
            self.completion_tokens += usage.completion_tokens - self._written
            self._written = 0
            return self._end(event.choice, event.reason)
        return []

    def _begin(self, choice: int) -> list[dict]:
        raise NotImplementedError

    def _write(self, choice: int, piece: Any) -> list[dict]:
        raise NotImplementedError

    def _end(self, choice: int, reason: str) -> list[dict]:
        raise NotImplementedError

    def _choices(self) -> list[dict]:
        raise NotImplementedError

    def chunk(self, choices: list[dict], **more: Any) -> dict:
        return {"id": self.id, "object": self.chunk_object, **self._head, "choices": choices, **more}

    def body(self) -> dict:
        return {"id": self.id, "object": self.object, **self._head, "choices": self._choices(), "usage": self.usage}

    @property
    def usage(self) -> dict:
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
        }


Bytes = Callable[[int], bytes]


def logprob_of(one: TokenLogprob, bytes_of: Bytes, top: Iterable[TokenLogprob] | None = None) -> dict:
    """The protocol has no -infinity, but a number that stands for it."""
    described: dict[str, Any] = {
        "token": one.text,
        "logprob": max(one.logprob, -9999.0),
        "bytes": list(bytes_of(one.id)),
    }
    if top is not None:
        described["top_logprobs"] = [logprob_of(other, bytes_of) for other in top]
    return described
