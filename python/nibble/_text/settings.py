"""The settings of a generation, as they go to C++. What their values may be is decided there; here, what they are."""

import math
import operator
from collections.abc import Iterable, Mapping
from typing import Any

from .._native import NibbleError

# What GenerateOptions of C++ have, by the same names.
_NUMBERS = {
    "temperature": float,
    "top_k": int,
    "top_p": float,
    "min_p": float,
    "repetition_penalty": float,
    "repetition_window": int,
    "presence_penalty": float,
    "frequency_penalty": float,
    "max_tokens": int,
    "top_logprobs": int,
}

# What generate() takes besides.
_OTHERS = (
    "system",
    "raw",
    "stop",
    "stop_ids",
    "seed",
    "logprobs",
    "logit_bias",
    "json_schema",
    "json_object",
    "regex",
    "grammar",
)


# All of them, and those that have no fraction.
SETTINGS = (*_NUMBERS, *_OTHERS)
WHOLE_NUMBERS = (*(name for name, kind in _NUMBERS.items() if kind is int), "seed")


def refusal(name: str, wanted: str, value: Any) -> NibbleError:
    shown = repr(value)
    shown = shown if len(shown) <= 60 else f"{shown[:60]}…"
    return NibbleError(f"{name} must be {wanted}, but it is {' '.join(shown.split())}", "invalid_argument")


def whole_number(name: str, value: Any) -> int:
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise refusal(name, "a whole number", value)


def number(name: str, value: Any) -> float:
    try:
        given = math.nan if isinstance(value, bool | str | bytes) else float(value)
    except (TypeError, ValueError, OverflowError):
        given = math.nan
    if not math.isfinite(given):
        raise refusal(name, "a finite number", value)
    return given


def text(name: str, value: Any) -> str:
    """Text that is Unicode: no half of a character."""
    if not isinstance(value, str):
        raise refusal(name, "text", value)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise NibbleError(
            f"{name} has half of a character at {error.start}, which is no Unicode text", "invalid_argument"
        ) from None
    return value


def texts(name: str, value: Any) -> list[str]:
    """One text, or several."""
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, Iterable) or isinstance(value, bytes | Mapping):
        raise refusal(name, "text or a list of texts", value)
    return [text(name, one) for one in value]


def token_ids(name: str, value: Any) -> list[int]:
    if not isinstance(value, Iterable) or isinstance(value, str | bytes | Mapping):
        raise refusal(name, "a list of token ids", value)
    return [whole_number(f"each of {name}", one) for one in value]


def biases(value: Any) -> list[list]:
    if not isinstance(value, Mapping):
        raise refusal("logit_bias", "a mapping of token ids to numbers", value)
    return [
        [whole_number("a token of logit_bias", id), number(f"logit_bias of {id}", bias)] for id, bias in value.items()
    ]


def check_settings(settings: dict) -> dict:
    """The numbers among the settings, by name; None stands for the default."""
    native = {}
    for name, value in settings.items():
        kind = _NUMBERS.get(name)
        if kind is None:
            raise TypeError(f"generate() has no setting {name!r}; there are {', '.join(SETTINGS)}")
        if value is not None:
            native[name] = whole_number(name, value) if kind is int else number(name, value)
    # C++ takes 0 for no limit; who works out how many are left wants none by it.
    if (most := native.get("max_tokens", 1)) < 1:
        raise NibbleError(f"max_tokens is {most}, but it must be at least 1; None is no limit", "invalid_argument")
    return native
