"""The parameters that all generations have in common, as LanguageModel.prepare() takes them."""

import re
from typing import Any

from .errors import wrong
from .fields import Fields, checked_text, is_number, shown

MOST_STOPS = 16
MOST_LETTERS = 1024  # of a stop string
MOST_BIASES = 1024
# What clients send that changes nothing here.
IGNORED = (
    "metadata",
    "prompt_cache_key",
    "prompt_cache_retention",
    "reasoning_effort",
    "safety_identifier",
    "service_tier",
    "store",
    "user",
    "verbosity",
)


def sampling_of(fields: Fields) -> dict[str, Any]:
    """By default as the protocol says: temperature 1, no truncation, and a seed of its own for each request."""
    settings: dict[str, Any] = {"temperature": _or(fields.number("temperature", 0, 2), 1.0)}
    numbers = {
        "top_p": fields.number("top_p", 0, 1),
        "min_p": fields.number("min_p", 0, 1),
        "presence_penalty": fields.number("presence_penalty", -2, 2),
        "frequency_penalty": fields.number("frequency_penalty", -2, 2),
        "repetition_penalty": fields.number("repetition_penalty", 0.01, 100),
    }
    settings |= {name: value for name, value in numbers.items() if value is not None}
    # Others write -1 for all.
    if top_k := fields.whole("top_k", -1, 1 << 31):
        settings["top_k"] = max(top_k, 0)
    seed = fields.whole("seed", -(1 << 63), (1 << 64) - 1)
    if seed is not None:
        settings["seed"] = seed % (1 << 64)
    # The penalties of the protocol look at all of the text.
    if not numbers.keys().isdisjoint(settings) and any(name.endswith("penalty") for name in settings):
        settings["repetition_window"] = 0
    settings["stop"] = _stops(fields)
    settings["logit_bias"] = _biases(fields)
    return settings


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value


def _stops(fields: Fields) -> list[str]:
    value = fields.take("stop")
    stops = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(stops, list) or len(stops) > MOST_STOPS:
        raise wrong("stop", f"stop is {shown(value)}, but it must be text, or a list of up to {MOST_STOPS} texts")
    for place, stop in enumerate(stops):
        if not isinstance(stop, str) or not stop:
            raise wrong("stop", f"stop[{place}] is {shown(stop)}, but it must be text of at least one letter")
        if len(stop) > MOST_LETTERS:
            raise wrong("stop", f"stop[{place}] has {len(stop)} letters, but it may have {MOST_LETTERS}")
        checked_text(f"stop[{place}]", stop)
    return stops


def _biases(fields: Fields) -> dict[int, float]:
    value = fields.take("logit_bias")
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise wrong("logit_bias", f"logit_bias is {shown(value)}, but it must be an object of token ids and numbers")
    if len(value) > MOST_BIASES:
        raise wrong("logit_bias", f"logit_bias has {len(value)} tokens, but it may have {MOST_BIASES}")
    for token, bias in value.items():
        if not re.fullmatch("[0-9]{1,9}", token):
            raise wrong("logit_bias", f"logit_bias has {shown(token)}, which is no token id")
        if not is_number(bias) or not -100 <= bias <= 100:
            message = f"logit_bias of token {token} is {shown(bias)}, but it must be a number from -100 to 100"
            raise wrong("logit_bias", message)
    return {int(token): float(bias) for token, bias in value.items()}


def max_tokens_of(fields: Fields) -> int | None:
    """How long the answer may be: two names for one thing."""
    old, new = fields.whole("max_tokens", 1, 1 << 31), fields.whole("max_completion_tokens", 1, 1 << 31)
    if old is not None and new is not None and old != new:
        message = f"max_tokens is {old}, but max_completion_tokens is {new}: they say the same and must not differ"
        raise wrong("max_tokens", message)
    return old if new is None else new


def stream_of(fields: Fields) -> tuple[bool, bool]:
    """Whether the answer is streamed, and whether its last piece tells the usage."""
    is_stream = fields.flag("stream")
    options = fields.fields("stream_options")
    if options is None:
        return is_stream, False
    if not is_stream:
        raise wrong("stream_options", "stream_options can only be given with stream: true")
    wants_usage = options.flag("include_usage")
    options.flag("include_obfuscation")
    options.finish()
    return True, wants_usage
