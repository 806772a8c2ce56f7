"""The answer to texts that are to be gone on with."""

from dataclasses import dataclass, field

from .._text.generation import Piece
from .answer import Answer
from .completion_request import CompletionRequest


@dataclass
class _Choice:
    texts: list[str] = field(default_factory=list)
    length: int = 0
    logprobs: dict[str, list] = field(
        default_factory=lambda: {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
    )
    reason: str | None = None


class CompletionAnswer(Answer):
    object = chunk_object = "text_completion"
    prefix = "cmpl"

    def __init__(self, request: CompletionRequest, prompts: list[str], keeps: bool = True):
        """prompts: as texts, for those who want them back."""
        super().__init__(request.model, request.choices, keeps)
        self._echoed = prompts if request.echo else None
        self._made = [_Choice() for _ in range(len(request.prompts) * request.choices)]
        self._wants_logprobs = request.logprobs is not None

    def _begin(self, choice: int) -> list[dict]:
        if self._echoed is None:
            return []
        return [self._add(choice, self._echoed[choice // self._per_prompt], None)]

    def _write(self, choice: int, piece: Piece) -> list[dict]:
        return [self._add(choice, piece.text, self._logprobs(self._made[choice], piece))]

    def _logprobs(self, made: _Choice, piece: Piece) -> dict[str, list] | None:
        if not self._wants_logprobs:
            return None
        found: dict[str, list] = {
            "tokens": [one.text for one in piece.logprobs],
            "token_logprobs": [max(one.logprob, -9999.0) for one in piece.logprobs],
            "top_logprobs": [
                {one.text: max(one.logprob, -9999.0) for one in (*top, chosen)}
                for chosen, top in zip(piece.logprobs, piece.top_logprobs, strict=True)
            ],
            "text_offset": [made.length] * len(piece.logprobs),
        }
        if self._keeps:
            for name, values in found.items():
                made.logprobs[name] += values
        return found

    def _add(self, choice: int, text: str, logprobs: dict[str, list] | None) -> dict:
        made = self._made[choice]
        if self._keeps:
            made.texts.append(text)
        made.length += len(text)
        return {"index": choice, "text": text, "logprobs": logprobs, "finish_reason": None}

    def _end(self, choice: int, reason: str) -> list[dict]:
        self._made[choice].reason = reason
        self.reasons.append(reason)
        return [{"index": choice, "text": "", "logprobs": None, "finish_reason": reason}]

    def _choices(self) -> list[dict]:
        return [
            {
                "index": index,
                "text": "".join(made.texts),
                "logprobs": made.logprobs if self._wants_logprobs else None,
                "finish_reason": made.reason,
            }
            for index, made in enumerate(self._made)
        ]

    @property
    def text(self) -> list:
        """For the log, where it is wanted."""
        return ["".join(made.texts) for made in self._made]
