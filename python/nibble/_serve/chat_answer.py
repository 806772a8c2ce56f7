"""The answer to a chat: words and calls of tools."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from .._text.generation import Piece
from .answer import Answer, Bytes, logprob_of
from .chat_request import ChatRequest
from .tool_text import CallBegins, CallGoesOn, Part, ToolText, Words


@dataclass
class _Choice:
    tool_text: ToolText | None
    words: list[str] = field(default_factory=list)
    calls: list[dict] = field(default_factory=list)
    logprobs: list[dict] = field(default_factory=list)
    reason: str | None = None


class ChatAnswer(Answer):
    object, chunk_object, prefix = "chat.completion", "chat.completion.chunk", "chatcmpl"

    def __init__(
        self, request: ChatRequest, tool_text: Callable[[], ToolText | None], bytes_of: Bytes, keeps: bool = True
    ):
        super().__init__(request.model, request.choices, keeps)
        self._made = [_Choice(tool_text()) for _ in range(request.choices)]
        self._wants_logprobs, self._bytes_of = request.logprobs is not None, bytes_of

    def _begin(self, choice: int) -> list[dict]:
        return [self._delta(choice, {"role": "assistant", "content": ""})]

    def _write(self, choice: int, piece: Piece) -> list[dict]:
        made = self._made[choice]
        logprobs = [
            logprob_of(one, self._bytes_of, top) for one, top in zip(piece.logprobs, piece.top_logprobs, strict=True)
        ]
        if self._keeps:
            made.logprobs += logprobs
        parts = made.tool_text.push(piece.text) if made.tool_text else [Words(piece.text)]
        deltas = [self._part(choice, part) for part in parts] or [{}]
        # Tokens have their log-probabilities with the first chunk that they are a part of.
        chunks = [self._delta(choice, delta, logprobs if not n else []) for n, delta in enumerate(deltas)]
        return [one for one in chunks if one["delta"] or one["logprobs"]]

    def _part(self, choice: int, part: Part) -> dict:
        made = self._made[choice]
        if isinstance(part, Words):
            if self._keeps:
                made.words.append(part.text)
            return {"content": part.text}
        if isinstance(part, CallBegins):
            function = {"name": part.name, "arguments": ""}
            made.calls.append({"id": f"call_{secrets.token_hex(12)}", "type": "function", "function": function})
            begun = {**made.calls[-1], "function": dict(function)}
            return {"tool_calls": [{"index": len(made.calls) - 1, **begun}]}
        assert isinstance(part, CallGoesOn)
        if self._keeps:
            made.calls[-1]["function"]["arguments"] += part.arguments
        return {"tool_calls": [{"index": len(made.calls) - 1, "function": {"arguments": part.arguments}}]}

    def _end(self, choice: int, reason: str) -> list[dict]:
        made = self._made[choice]
        rest = [self._part(choice, part) for part in made.tool_text.finish()] if made.tool_text else []
        made.reason = "tool_calls" if made.calls and reason == "stop" else reason
        self.reasons.append(made.reason)
        return [*(self._delta(choice, delta) for delta in rest), self._delta(choice, {}, reason=made.reason)]

    def _delta(self, choice: int, delta: dict, logprobs: list[dict] | None = None, reason: str | None = None) -> dict:
        shown = {"content": logprobs, "refusal": None} if logprobs and self._wants_logprobs else None
        return {"index": choice, "delta": delta, "logprobs": shown, "finish_reason": reason}

    def _choices(self) -> list[dict]:
        choices = []
        for index, made in enumerate(self._made):
            words = "".join(made.words)
            message = {"role": "assistant", "content": words if words or not made.calls else None, "refusal": None}
            if made.calls:
                message["tool_calls"] = made.calls
            logprobs = {"content": made.logprobs, "refusal": None} if self._wants_logprobs else None
            choices.append({"index": index, "message": message, "logprobs": logprobs, "finish_reason": made.reason})
        return choices

    @property
    def text(self) -> list:
        """For the log, where it is wanted."""
        return [choice["message"] for choice in self._choices()]
