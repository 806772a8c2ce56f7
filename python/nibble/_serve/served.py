"""The models that are served: language models with their sessions, and encoders."""

import secrets
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from .._encode.models import KNOWN
from .._encoder import Encoder, plan_batches
from .._native import NibbleError
from .._program import Device
from .._text.constraint import Constraint, grammar_of
from .._text.generation import Prepared
from .._text.grammar_error import GrammarError
from .._text.language_model import LanguageModel, TextSession
from .chat_prompt import chat_prompt
from .chat_request import ChatRequest
from .completion_request import CompletionRequest
from .errors import ApiError, from_nibble, wrong
from .fields import shown
from .pool import SessionPool
from .tool_grammar import tool_grammar
from .tool_style import style_of
from .tool_text import ToolText

_ANY_OBJECT = {"type": "object"}
_FORMAT = "response_format.json_schema.schema"
NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})
# That a token stands for at most, on average: of a text with more it need not be known how many tokens it has.
_LETTERS = 64


class ServedText:
    """A language model. `slots` of its sessions run at once; they may take `session_memory` bytes, idle ones too."""

    kind = "text"

    def __init__(
        self,
        id: str,
        path: str,
        slots: int,
        session_memory: int | None = None,
        max_tokens: int | None = None,
        options: Mapping[str, Any] = NO_OPTIONS,
    ):
        """max_tokens: of an answer, at most; None: as many as the context has room for. options: of nibble.load()."""
        self.id, self.path, self.slots, self._session_memory = id, path, slots, session_memory
        self._max_tokens, self._options = max_tokens, options
        self.created = int(time.time())

    def open(self, device: Device, on_progress=None) -> None:
        self.model = LanguageModel(self.path, device, on_progress=on_progress, **self._options)
        first = self.model.session()
        facts = first._generator
        self.context, self.vocabulary, self.session_bytes = facts.context_length, facts.vocabulary, facts.session_bytes
        most = 2 * self.slots
        if self._session_memory is not None:
            most = self._session_memory // self.session_bytes
            if most < self.slots:
                raise NibbleError(
                    f"{self.slots} sessions of '{self.id}' take {self.slots * self.session_bytes} bytes, "
                    f"but they may take {self._session_memory}",
                    "invalid_argument",
                )
        self.pool = SessionPool(self.model.session, most)
        self.pool.add(first)

    def close(self) -> None:
        self.pool.close_idle()
        self.model.close()

    def take_session(self, prompt: Sequence[int]) -> TextSession:
        """Where memory is short, what idle sessions keep makes room."""
        try:
            return self.pool.take(prompt)
        except NibbleError as error:
            if error.code != "out_of_memory":
                raise
        self.pool.close_idle()
        return self.pool.take(prompt)

    def prepare_chat(self, request: ChatRequest) -> list[Prepared]:
        if self.model.template is None:
            message = f"the model '{self.id}' has no chat template: it takes texts alone, at /v1/completions"
            raise wrong("model", message)
        template = self.model.template.text
        self._check_length("messages", len(request.messages), "messages")
        messages, variables = chat_prompt(template, request.messages, request.tools)
        shape = {"json_schema": request.json_schema, "json_object": request.json_object}
        try:
            written = self.model.template.render(messages, **variables)
            self._check_letters("messages", written)
            tokens = self.model.tokens_of_written(written)
        except NibbleError as error:
            raise from_nibble(error, "messages") from None
        if request.tools:
            style, special = style_of(template), self.model.vocabulary().special_ids
            schema = _ANY_OBJECT if request.json_object else request.json_schema
            grammar = tool_grammar(request.tools, style, special, schema)
            shape = {"grammar": grammar, "shown_ids": [id for name, id in special.items() if name in style.marks]}
        self._check_length("messages", len(tokens))
        try:
            return self._prepare([tokens] * request.choices, request, shape)
        except NibbleError as error:
            raise from_nibble(error) from None

    def tool_text(self, request: ChatRequest) -> ToolText | None:
        """What takes an answer apart, if there may be calls in it."""
        if not request.tools:
            return None
        names = [tool.name for tool in request.tools.tools]
        has_format = request.json_object or request.json_schema is not None
        return ToolText(style_of(self.model.template.text), names, has_format and not request.tools.is_required)

    def prepare_completion(self, request: CompletionRequest) -> list[Prepared]:
        prompts = []
        for place, prompt in enumerate(request.prompts):
            name = "prompt" if len(request.prompts) == 1 else f"prompt[{place}]"
            if isinstance(prompt, str):
                self._check_letters(name, prompt)
                prompt = self.model.tokens_of(prompt, raw=True)
            self._check_length(name, len(prompt))
            check_tokens(name, prompt, self.vocabulary)
            prompts += [prompt] * request.choices
        try:
            return self._prepare(prompts, request, {})
        except NibbleError as error:
            raise from_nibble(error) from None

    def _prepare(
        self, prompts: list[list[int]], request: ChatRequest | CompletionRequest, shape: dict
    ) -> list[Prepared]:
        settings = dict(request.settings)
        check_tokens("logit_bias", list(settings["logit_bias"]), self.vocabulary, are_needed=False)
        seed = settings.pop("seed", None)
        if request.logprobs is not None:
            settings |= {"logprobs": True, "top_logprobs": request.logprobs}
        most = min(filter(None, (request.max_tokens, self._max_tokens)), default=None)
        # Each answer draws for itself, and all of them again in the same way.
        seeds = [secrets.randbits(63) if seed is None else (seed + place) % (1 << 64) for place in range(len(prompts))]
        try:
            first = self.model.prepare(prompts[0], max_tokens=most, seed=seeds[0], **settings, **shape)
        except GrammarError as error:
            raise self._shape_error(request, error) from None
        if first.constraint is not None:
            first.constraint.field = "tools" if request.tools else _FORMAT
        others = zip(prompts[1:], seeds[1:], strict=True)
        return [first, *(first.again(prompt, seed) for prompt, seed in others)]

    def _shape_error(self, request: ChatRequest, error: GrammarError) -> GrammarError:
        """By the name of what asked for the grammar; of tools that is the first whose parameters are wrong."""
        for place, tool in enumerate(request.tools.tools if request.tools else ()):
            try:
                Constraint(self.model.vocabulary(), *grammar_of(schema=tool.parameters))
            except GrammarError as own:
                return own.of(f"tools[{place}].function.parameters")
        is_of_format = request.json_schema is not None or not request.tools
        return error.of(_FORMAT if is_of_format else "tools")

    def _check_letters(self, name: str, text: str) -> None:
        """Before its tokens are made, which takes long for megabytes."""
        if len(text) > self.context * _LETTERS:
            raise self._too_long(name, f"{len(text)} letters")

    def _check_length(self, name: str, count: int, what: str = "tokens") -> None:
        if count >= self.context:
            raise self._too_long(name, f"{count} {what}")

    def _too_long(self, name: str, what: str) -> ApiError:
        room = f"the context of the model '{self.id}' holds {self.context} tokens, the answer included"
        return wrong(name, f"{name} has {what}, but {room}", "context_length_exceeded")


class ServedEncoder:
    """A model that makes vectors of texts."""

    kind = "encoder"
    slots = 4

    def __init__(self, id: str, path: str, options: Mapping[str, Any] = NO_OPTIONS):
        self.id, self.path, self._options = id, path, options
        self.created = int(time.time())

    def open(self, device: Device, on_progress=None) -> None:
        path = self.path if self.path in KNOWN else Path(self.path)
        self.encoder = Encoder(path, device=device, **self._options)

    def close(self) -> None:
        self.encoder.close()

    def batches(self, lengths: list[int]) -> list[np.ndarray]:
        return plan_batches(np.array(lengths), self.encoder.batch)

    def tokens_of(self, inputs: list[str | list[int]]) -> list[list[int]]:
        """With the model's special tokens; one that has too many, or none, is an error."""
        texts = []
        for place, one in enumerate(inputs):
            name = "input" if len(inputs) == 1 else f"input[{place}]"
            if not isinstance(one, str):
                check_tokens(name, one, self.encoder.vocabulary)
            elif len(one) > self.encoder.max_length * _LETTERS:
                raise self._too_long(name, f"{len(one)} letters")
            tokens = self.encoder.tokens_of(one)
            if not tokens:
                raise wrong(name, f"{name} has no tokens that the model '{self.id}' knows")
            if len(tokens) > self.encoder.max_length:
                raise self._too_long(name, f"{len(tokens)} tokens")
            texts.append(tokens)
        return texts

    def _too_long(self, name: str, what: str) -> ApiError:
        message = f"{name} has {what}, but the model '{self.id}' takes {self.encoder.max_length} tokens"
        return wrong(name, message, "context_length_exceeded")


Served = ServedText | ServedEncoder


class Serving:
    """All models, on one device. They are opened together, and together again after the device was lost."""

    def __init__(self, models: Sequence[Served], device: str | None, engine: str | None):
        self.models = {model.id: model for model in models}
        self._device, self._engine = device, engine

    def open(self, on_progress=None) -> None:
        self.device = Device(self._device, self._engine)
        for model in self.models.values():
            model.open(self.device, on_progress)

    def close(self) -> None:
        for model in self.models.values():
            model.close()
        self.device.close()

    def reopen(self) -> None:
        self.close()
        self.open()

    def find(self, id: str, kind: str) -> Served:
        model = self.models.get(id)
        if model is None:
            known = ", ".join(self.models)
            message = f"there is no model {shown(id)} here, but {known}"
            raise ApiError(404, message, param="model", code="model_not_found")
        if model.kind != kind:
            what = "makes vectors of texts" if model.kind == "encoder" else "writes text"
            other = "/v1/embeddings" if model.kind == "encoder" else "/v1/chat/completions and /v1/completions"
            raise wrong("model", f"the model '{id}' {what}: it is for {other}")
        return model


def check_tokens(name: str, tokens: Sequence[int], vocabulary: int, are_needed: bool = True) -> None:
    if are_needed and not tokens:
        raise wrong(name, f"{name} has no tokens")
    for token in tokens:
        if token >= vocabulary:
            raise wrong(name, f"{name} has the token {token}, but the model's vocabulary has {vocabulary}")
