"""POST /v1/completions: texts to go on with."""

from dataclasses import dataclass, field
from typing import Any

from .errors import wrong
from .fields import Fields, checked_text, is_number, shown
from .sampling import IGNORED, max_tokens_of, sampling_of, stream_of

MOST_LOGPROBS = 20
DEFAULT_TOKENS = 16  # the protocol's


@dataclass(frozen=True)
class CompletionRequest:
    model: str
    prompts: list[str | list[int]]
    choices: int = 1  # of each prompt
    max_tokens: int = DEFAULT_TOKENS
    settings: dict[str, Any] = field(default_factory=dict)
    logprobs: int | None = None
    echo: bool = False
    is_stream: bool = False
    wants_usage: bool = False


def completion_request(body: Any, most_choices: int) -> CompletionRequest:
    fields = Fields(body)
    is_stream, wants_usage = stream_of(fields)
    prompts = texts_or_tokens("prompt", fields.take("prompt"))
    request = CompletionRequest(
        model=fields.needed_text("model"),
        prompts=prompts,
        choices=fields.whole("n", 1, most_choices) or 1,
        max_tokens=max_tokens_of(fields) or DEFAULT_TOKENS,
        settings=sampling_of(fields),
        logprobs=fields.whole("logprobs", 0, MOST_LOGPROBS),
        echo=fields.flag("echo"),
        is_stream=is_stream,
        wants_usage=wants_usage,
    )
    if (total := len(prompts) * request.choices) > most_choices:
        raise wrong("prompt", f"{len(prompts)} prompts, n = {request.choices} times each, are {total} answers, but one "
                    f"request may have {most_choices}")  # fmt: skip
    if request.echo and request.logprobs is not None:
        raise wrong("echo", "echo cannot be given with logprobs: those of a prompt are not known")
    best_of = fields.whole("best_of", 1, most_choices)
    if best_of not in (None, request.choices):
        raise wrong("best_of", f"best_of is {best_of}, but it must be as n, {request.choices}")
    if fields.text("suffix"):
        raise wrong("suffix", "suffix cannot be given: the model writes what follows a text alone")
    fields.ignore(IGNORED)
    fields.finish()
    return request


def texts_or_tokens(name: str, value: Any) -> list[str | list[int]]:
    """A text, texts, token ids or lists of them: as a list of texts, or of lists of token ids."""
    if isinstance(value, str):
        return [checked_text(name, value)]
    if value is None:
        raise wrong(name, f"{name} is missing")
    if not isinstance(value, list) or not value:
        raise wrong(name, f"{name} is {shown(value)}, but it must be a text, token ids, or a list of them")
    if is_number(value[0]):
        return [_tokens(name, value)]
    return [_text_or_tokens(f"{name}[{place}]", one) for place, one in enumerate(value)]


def _text_or_tokens(name: str, value: Any) -> str | list[int]:
    if isinstance(value, str):
        return checked_text(name, value)
    if not isinstance(value, list):
        raise wrong(name, f"{name} is {shown(value)}, but it must be text or a list of token ids")
    return _tokens(name, value)


def _tokens(name: str, values: list) -> list[int]:
    if not values:
        raise wrong(name, f"{name} has no tokens")
    for place, token in enumerate(values):
        if not isinstance(token, int) or isinstance(token, bool) or not 0 <= token < 1 << 31:
            raise wrong(name, f"{name}[{place}] is {shown(token)}, but it must be a token id")
    return values
