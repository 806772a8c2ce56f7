"""What a generated text must look like: a JSON schema, a grammar or a pattern, by the library llguidance."""

import functools
import json
from typing import Any

import numpy as np

from .._native import NibbleError
from .grammar_error import grammar_error
from .needed import needed
from .tokenizer import Tokenizer

# Between two tokens of JSON a small model may write spaces for ever. A schema's own "x-guidance" comes before this.
_SPACES = {"whitespace_pattern": r"[\x20\x0A\x0D\x09]{1,32}"}


class Vocabulary:
    """A model's tokens as llguidance wants them. Making it takes about a second, so a model keeps it."""

    def __init__(self, tokenizer: Tokenizer, size: int, stop_ids: list[int]):
        guidance = needed("llguidance")
        try:
            self.native = guidance.LLTokenizer(tokenizer.text, n_vocab=size, eos_token=stop_ids or None)
        except Exception as error:  # the library raises plain exceptions
            message = f"llguidance does not take this tokenizer: {_one_line(error)}"
            raise NibbleError(message, "unsupported") from None
        self.size = size
        # Those that no text of a grammar stands for: it must name them. The library takes more for such than the model.
        self.special_ids = {name: id for name, id in tokenizer.added_ids.items() if self.native.is_special_token(id)}


class Constraint:
    """Which tokens may come next, step by step. field: what the user gave the grammar as."""

    def __init__(self, vocabulary: Vocabulary, grammar: str, field: str = "grammar"):
        guidance = needed("llguidance")
        self.field = field
        self._fill = needed("llguidance.numpy").fill_next_token_bitmask
        self._matcher = guidance.LLMatcher(vocabulary.native, grammar, log_level=0)
        self._mask = np.empty((1, (vocabulary.size + 31) // 32), np.int32)
        self._raise_error("cannot be used")
        # Some that nothing can fit are known only now.
        self._fill(self._matcher, self._mask)
        self._raise_error("cannot be used")

    def copy(self) -> "Constraint":
        """Another one in the same state, which costs less than to read the grammar again."""
        made = object.__new__(Constraint)
        made.field = self.field
        made._fill, made._matcher, made._mask = self._fill, self._matcher.deep_copy(), self._mask.copy()
        return made

    @property
    def is_done(self) -> bool:
        """Whether nothing can follow."""
        return self._matcher.is_stopped()

    def allowed(self) -> np.ndarray:
        """A bit for each token; valid until the next call."""
        self._fill(self._matcher, self._mask)
        self._raise_error("is too complex for this text")
        return self._mask[0]

    def take(self, token: int) -> None:
        self._matcher.consume_token(token)
        self._raise_error("does not allow what was generated")

    def _raise_error(self, what: str) -> None:
        if self._matcher.is_error():
            raise grammar_error(self.field, what, self._matcher.get_error(), self.field == "grammar")


def grammar_of(
    *, schema: Any = None, json_object: bool = False, regex: str | None = None, grammar: str | None = None
) -> tuple[str, str] | None:
    """The grammar for llguidance, and what asks for it; None where nothing does. At most one of them may."""
    given = {"json_schema": schema is not None, "json_object": json_object, "regex": regex is not None}
    given["grammar"] = grammar is not None
    wanted = [name for name, is_given in given.items() if is_given]
    if len(wanted) > 1:
        raise NibbleError(f"only one of {' and '.join(wanted)} can be given", "invalid_argument")
    if not wanted:
        return None
    matcher, field = needed("llguidance").LLMatcher, wanted[0]
    if schema is not None or json_object:
        text = '{"type": "object"}' if schema is None else _schema_text(schema)
        return _made(functools.partial(matcher.grammar_from_json_schema, defaults=_SPACES), text, field), field
    if regex is not None:
        return _made(matcher.grammar_from_regex, regex, field), field
    return _made(matcher.grammar_from_lark, grammar, field), field


def _made(make, text: str, field: str) -> str:
    if not isinstance(text, str):
        raise NibbleError(f"{field} must be text, but it is {type(text).__name__}", "invalid_argument")
    try:
        return make(text)
    except Exception as error:  # the library raises plain exceptions
        raise grammar_error(field, "cannot be used", error, field == "grammar") from None


def _schema_text(schema: Any) -> str:
    if isinstance(schema, str):
        try:
            schema = json.loads(schema)
        except (ValueError, RecursionError) as error:
            raise NibbleError(f"json_schema is no JSON: {error}", "invalid_argument") from None
    if not isinstance(schema, dict):
        raise NibbleError(f"json_schema must be an object, but it is {type(schema).__name__}", "invalid_argument")
    try:
        return json.dumps(schema)
    except (TypeError, ValueError, RecursionError) as error:
        raise NibbleError(f"json_schema cannot be written as JSON: {error}", "invalid_argument") from None


def _one_line(error: object) -> str:
    return " ".join(str(error).split())[:400]
