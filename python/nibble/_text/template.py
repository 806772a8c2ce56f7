"""Chat templates: how a model wants a conversation written. Templates come with models, so they run in a sandbox."""

import datetime
import json
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from .._native import NibbleError
from .needed import needed

Message = Mapping[str, Any]
# What the code of a template can raise by itself.
_OF_TEMPLATES = (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError)
# The most elements that `text * number` may have: far more than any context holds.
_MOST_REPEATED = 1 << 24


class ChatTemplate:
    """A Jinja template of the kind that models carry. One that fails is an error, never another format."""

    def __init__(self, text: str, tokens: Mapping[str, str]):
        """`tokens`: the names of special tokens, such as {"bos_token": "<s>"}."""
        sandbox = needed("jinja2.sandbox")
        jinja2 = needed("jinja2")
        environment = _bounded(sandbox.ImmutableSandboxedEnvironment)(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _refuse
        environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
        self.text = text
        self._errors = jinja2.TemplateError
        self._tokens = dict(tokens)
        try:
            self._template = environment.from_string(text)
        except (jinja2.TemplateError, *_OF_TEMPLATES) as error:
            raise NibbleError(f"the chat template cannot be read: {_one_line(error)}", "invalid_program") from None

    def render(self, messages: Sequence[Message], *, add_generation_prompt: bool = True, **variables: Any) -> str:
        """The conversation as the model wants it, up to where its answer begins."""
        check_messages(messages)
        try:
            return self._template.render(
                messages=[dict(message) for message in messages],
                add_generation_prompt=add_generation_prompt,
                **self._tokens,
                **variables,
            )
        except _RefusedError as error:
            message = f"the chat template refuses these messages: {_one_line(error)}"
            raise NibbleError(message, "invalid_argument") from None
        except (self._errors, *_OF_TEMPLATES) as error:
            message = f"the chat template fails on these messages: {_one_line(error)}"
            raise NibbleError(message, "invalid_argument") from None


def check_messages(messages: Sequence[Message]) -> None:
    """One sentence about the first message that is none."""
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Sequence):
        raise NibbleError(f"messages must be a list, but it is {type(messages).__name__}", "invalid_argument")
    if not messages:
        raise NibbleError("messages must hold at least one message, but it is empty", "invalid_argument")
    for place, message in enumerate(messages):
        if not isinstance(message, Mapping):
            what = type(message).__name__
            raise NibbleError(f"messages[{place}] must be a mapping, but it is {what}", "invalid_argument")
        if not isinstance(message.get("role"), str):
            raise NibbleError(f"messages[{place}] needs a role, such as 'user'", "invalid_argument")
        content = message.get("content")
        if content is not None and not isinstance(content, str | list):
            what = type(content).__name__
            raise NibbleError(f"messages[{place}]['content'] must be text, but it is {what}", "invalid_argument")


def _bounded(sandbox: type) -> type:
    """A sandbox bounds loops, but not numbers: a power of powers would never end, nor would Ctrl-C be heard."""

    class Bounded(sandbox):
        intercepted_binops = frozenset(["*", "**"])

        def call_binop(self, context, operator, left, right):
            if operator == "**":
                raise ValueError("it raises numbers to powers")
            for many, times in ((left, right), (right, left)):
                if isinstance(times, int) and hasattr(many, "__len__") and len(many) * times > _MOST_REPEATED:
                    raise ValueError(f"it repeats something {times} times")
            return super().call_binop(context, operator, left, right)

    return Bounded


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:400] or type(error).__name__


class _RefusedError(Exception):
    """A template's own word against a conversation."""


def _refuse(message: str) -> NoReturn:
    raise _RefusedError(message)


def _to_json(value: Any, indent: int | None = None, **_: Any) -> str:
    """As models are trained on it: letters as they are, and nothing escaped for HTML."""
    return json.dumps(value, ensure_ascii=False, indent=indent)
