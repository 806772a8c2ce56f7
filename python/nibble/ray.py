"""Embeddings and generated text for many rows: callable classes for Ray Data's `map_batches`, which also work on plain
lists, without Ray.

    rows.map_batches(nibble.ray.Embedder, fn_constructor_kwargs={"model": "minilm"}, batch_size=1024, concurrency=2)

    embed = nibble.ray.Embedder("minilm")
    embed({"text": ["Saturn has rings.", None]})    # columns, to which others are added
    embed([{"text": "Saturn has rings."}])          # or rows

Columns that are there stay. A row that cannot be done is not lost: its column `error` has a sentence, which is empty in
all others. What is wrong with all of a batch is raised, and so is what is wrong with the device.
"""

import os
import sys
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ._native import OF_THE_REQUEST, NibbleError
from ._program import Device, DeviceInfo, _Closable, devices
from ._rows import Batch, Columns, Row, plain, take_batch
from ._text.settings import SETTINGS, WHOLE_NUMBERS, refusal, text

__all__ = ["Embedder", "Generator"]

# What a row cannot set: messages have the first two, and there is no column for the others.
_NOT_OF_ROWS = ("system", "raw", "logprobs", "top_logprobs")
_OF_SAMPLING = tuple(name for name in SETTINGS if name not in _NOT_OF_ROWS)


class _OnDevice(_Closable):
    """A model that is opened when this is made, and once more if its device fails during a batch."""

    _READS: tuple[str, ...]
    _MAY_READ: tuple[str, ...] = ()
    _WRITES: tuple[str, ...]

    def __init__(
        self,
        model: str | Path,
        device: str | int | Device | DeviceInfo | None,
        engine: str | None,
        columns: Mapping[str, str] | None,
        options: dict[str, Any],
    ):
        self._arguments = model, device, engine, options
        self._names = _names_of((*self._READS, *self._MAY_READ, *self._WRITES), columns or {})
        self._model = self._open()

    def __call__(self, batch: Columns | Sequence[Row]) -> dict | list[dict]:
        """The rows with the new columns: columns by name for such, an Arrow table for one, a list of rows for one."""
        names = self._names
        taken = take_batch(batch, [names[name] for name in self._READS], [names[name] for name in self._WRITES])
        try:
            made = self._make(taken)
        except NibbleError:
            if not self._model.device.has_failed:
                raise
            self.close()
            self._model = self._open()
            made = self._make(taken)
        return taken.with_columns({names[name]: values for name, values in made.items()})

    def close(self) -> None:
        """Frees the model's memory on the GPU; later calls fail."""
        self._model.close()

    def _open(self):
        model, device, engine, options = self._arguments
        if device is None and not os.environ.get("NIBBLE_DEVICE"):
            device = _given_by_ray(engine)
        return self._load(model, device=device, engine=engine, **options)

    @staticmethod
    @abstractmethod
    def _load(model: str | Path, **options: Any): ...

    @abstractmethod
    def _make(self, batch: Batch) -> dict[str, Sequence | np.ndarray]:
        """The new columns, by the names of this class."""


class Embedder(_OnDevice):
    """Texts as vectors. Reads the column `text`; adds

    embedding: float32 [width]; zeros where there is an error
    tokens: how many the model saw
    truncated: whether the text had more
    error: why there is no vector, or ""

    model, precision, batch, normalize, and the options of nibble.load(): as for nibble.Encoder.
    device, engine: as for nibble.load(). By default the GPU that Ray has given the actor, if it has (`num_gpus`).
    columns: other names for columns, such as {"text": "body", "error": "embedding_error"}.
    """

    _READS = ("text",)
    _WRITES = ("embedding", "tokens", "truncated", "error")

    def __init__(
        self,
        model: str | Path = "minilm",
        *,
        device: str | int | Device | DeviceInfo | None = None,
        engine: str | None = None,
        columns: Mapping[str, str] | None = None,
        **options: Any,
    ):
        super().__init__(model, device, engine, columns, options)

    @staticmethod
    def _load(model: str | Path, **options: Any):
        from ._encoder import Encoder

        return Encoder(model, **options)

    @property
    def width(self) -> int:
        """How many numbers a vector has."""
        return self._model.width

    def _make(self, batch: Batch) -> dict[str, Sequence | np.ndarray]:
        name = self._names["text"]
        texts, errors = batch.column(name), [""] * batch.count
        for place, value in enumerate(texts):
            try:
                text(f"column {name!r}", value)
            except NibbleError as error:
                errors[place] = str(error)
        good = [place for place, error in enumerate(errors) if not error]
        made = self._model.embed([texts[place] for place in good])
        vectors = np.zeros((batch.count, self.width), np.float32)
        tokens, truncated = np.zeros(batch.count, np.int64), np.zeros(batch.count, bool)
        vectors[good], tokens[good], truncated[good] = made.vectors, made.tokens, made.truncated
        for place in good:
            if not tokens[place]:
                errors[place] = f"column {name!r} has no tokens, so there is no vector"
        return {"embedding": vectors, "tokens": tokens, "truncated": truncated, "error": errors}


class Generator(_OnDevice):
    """Answers of a language model. Reads the column `messages` (a list of messages, a user's text, token ids) and, if
    it is there, `sampling_params` (what is set for this row, such as {"max_tokens": 100}); of both, a key that is None
    is as good as absent, however deep, so a row's `json_schema` that needs null is given as JSON text; adds

    generated_text, finish_reason: the answer, and whether it ended by itself ("stop") or was cut ("length")
    prompt_tokens, cached_tokens, completion_tokens: what it took; of the prompt, cached ones were not computed again
    error: why there is no answer, or ""

    Rows that begin alike are computed one after the other, in whichever order they come: what they share is computed
    once for each batch.

    model: what `nibble import` made; options: as those of nibble.load().
    sampling_params: what is set for all rows that do not say otherwise. Settings are those of nibble.generate(), and so
        are their defaults: the likeliest token, and an answer as long as the context has room for.
    device, engine: as for nibble.load(). By default the GPU that Ray has given the actor, if it has (`num_gpus`).
    columns: other names for columns, such as {"messages": "chat"}.
    """

    _READS = ("messages",)
    _MAY_READ = ("sampling_params",)
    _WRITES = (
        "generated_text",
        "finish_reason",
        "prompt_tokens",
        "cached_tokens",
        "completion_tokens",
        "error",
    )

    def __init__(
        self,
        model: str | Path,
        *,
        sampling_params: Mapping[str, Any] | None = None,
        device: str | int | Device | DeviceInfo | None = None,
        engine: str | None = None,
        columns: Mapping[str, str] | None = None,
        **options: Any,
    ):
        self._settings = _settings_of("sampling_params", sampling_params)
        super().__init__(model, device, engine, columns, options)
        # Before the first row: most of what can be wrong with them.
        self._model.prepare([], **self._settings)

    @staticmethod
    def _load(model: str | Path, **options: Any):
        from ._text.language_model import LanguageModel

        return LanguageModel(model, **options)

    def _make(self, batch: Batch) -> dict[str, Sequence | np.ndarray]:
        prompts, errors = self._prompts(batch)
        texts, reasons = [""] * batch.count, [""] * batch.count
        usage = np.zeros((3, batch.count), np.int64)
        # So that the session keeps what neighbours share.
        for place in sorted(prompts, key=lambda place: prompts[place][0]):
            tokens, settings = prompts[place]
            try:
                generation = self._model.generate(tokens, **settings)
                text, used = generation.run(), generation.usage
            except NibbleError as error:
                errors[place] = _of_row(error)
                continue
            texts[place], reasons[place] = text, generation.finish_reason
            usage[:, place] = used.prompt_tokens, used.cached_tokens, used.completion_tokens
        return dict(zip(self._WRITES, (texts, reasons, *usage, errors), strict=True))

    def _prompts(self, batch: Batch) -> tuple[dict[int, tuple[list[int], dict]], list[str]]:
        """Tokens and settings of the rows that have some, and all rows' errors."""
        messages, params = self._names["messages"], self._names["sampling_params"]
        prompts, errors = {}, [""] * batch.count
        for place, (given, settings) in enumerate(zip(batch.column(messages), batch.column(params), strict=True)):
            try:
                own = _settings_of(params, _without_none(plain(settings)))
                prompts[place] = self._model.tokens_of(_prompt_of(messages, given)), {**self._settings, **own}
            except NibbleError as error:
                errors[place] = _of_row(error)
        return prompts, errors


def _names_of(known: Sequence[str], given: Mapping[str, str]) -> dict[str, str]:
    """What each column is called."""
    for name in given:
        if name not in known:
            raise NibbleError(f"columns has {name!r}, but the columns are {', '.join(known)}", "invalid_argument")
    names = {name: given.get(name, name) for name in known}
    for name, called in names.items():
        if list(names.values()).count(called) > 1:
            raise NibbleError(f"columns has {name!r} and another one as {called!r}", "invalid_argument")
    return names


def _of_row(error: NibbleError) -> str:
    """What it says, if it is about a row; all others are about the machine."""
    if error.code not in OF_THE_REQUEST:
        raise error
    return str(error)


def _prompt_of(name: str, value: Any) -> str | list:
    value = plain(value)
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [_without_none(message, "content") for message in value]
    if isinstance(value, list) and all(isinstance(one, int) and not isinstance(one, bool) for one in value):
        return value
    raise refusal(f"column {name!r}", "a list of messages, a text or token ids", value)


def _without_none(value: Any, *but: str) -> Any:
    """At every depth: Arrow gives all mappings of a place the keys of all others. Lists keep theirs."""
    if isinstance(value, dict):
        return {key: _without_none(one) for key, one in value.items() if one is not None or key in but}
    return [_without_none(one) for one in value] if isinstance(value, list) else value


def _settings_of(name: str, value: Any) -> dict[str, Any]:
    """None is as good as absent, of all settings and of each."""
    value = plain(value)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise refusal(name, "a mapping of settings", value)
    settings = {key: one for key, one in value.items() if one is not None}
    for key, one in settings.items():
        if key not in _OF_SAMPLING:
            known = ", ".join(_OF_SAMPLING)
            raise NibbleError(f"{name} has {key!r}, but the settings are {known}", "invalid_argument")
        # Where other rows have no such number, NumPy makes 5.0 of 5.
        if key in WHOLE_NUMBERS and isinstance(one, float) and one.is_integer():
            settings[key] = int(one)
    if isinstance(biases := settings.get("logit_bias"), dict):
        # Arrow's keys are texts.
        numbers = {int(id) if isinstance(id, str) and id.isdecimal() else id: bias for id, bias in biases.items()}
        settings["logit_bias"] = {id: bias for id, bias in numbers.items() if bias is not None}
    return settings


def _given_by_ray(engine: str | None) -> DeviceInfo | None:
    """The GPU that Ray has given this actor, if it has: Ray tells CUDA, but not Vulkan."""
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return None
    return adapter_of(ray.get_runtime_context().get_accelerator_ids().get("GPU", []), devices(engine))


def adapter_of(gpus: Sequence[str], adapters: Sequence[DeviceInfo]) -> DeviceInfo | None:
    """The adapter for a GPU's number, or None if there is no number. The order of the two need not be the same: what
    counts is that actors on one machine have different ones."""
    if not gpus:
        return None
    found = [adapter for adapter in adapters if adapter.kind == "discrete"]
    found = found or [adapter for adapter in adapters if adapter.kind != "cpu"]
    found = [adapter for adapter in found if adapter.engine == found[0].engine]
    number = int(gpus[0]) if gpus[0].isdecimal() else len(found)
    if number >= len(found):
        names = ", ".join(adapter.name for adapter in found) or "none"
        sentence = (
            f"Ray has given this actor GPU {gpus[0]}, but those that can be used are {names}: say which by device="
        )
        raise NibbleError(sentence, "invalid_argument")
    return found[number]
