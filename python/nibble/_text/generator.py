"""The native generator and text stream, behind small classes."""

import ctypes
import json
from collections.abc import Sequence
from ctypes import POINTER, c_char_p, c_int32, c_size_t, c_uint32

import numpy as np

from .. import _native
from .._native import NibbleError, Token, check, last_error, lib
from .._options import take_path
from .._program import Model, _Handle, _InTurn
from .settings import whole_number

_END, _TOKEN = 0, 1


class Generator(_InTurn):
    """Tokens from a model, one after the other, on a session of its own."""

    def __init__(self, model: Model | None = None, handle: _Handle | None = None):
        if handle is None:
            with model._handle.use() as made_from:
                handle = _Handle(check(lib.nibble_generator_make(made_from)), "session")
        super().__init__(handle)
        with self._turn() as native:
            facts = json.loads(check(lib.nibble_generator_json(native)))
        self.vocabulary: int = facts["vocabulary"]
        self.context_length: int = facts["context_length"]
        self.model_bytes: int = facts["model_bytes"]
        self.session_bytes: int = facts["session_bytes"]

    def start(self, prompt: Sequence[int], settings: dict) -> None:
        tokens = _as_tokens(prompt)
        with self._turn() as native, _native.watch:
            check(lib.nibble_generator_start(native, tokens, len(tokens), json.dumps(settings).encode()))

    def prefill(self) -> bool:
        """Computes a chunk of the prompt, if there is more than one left; what it leaves, next() computes."""
        with self._turn() as native, _native.watch:
            outcome = lib.nibble_generator_prefill(native)
            if outcome < 0:
                raise last_error()
        return outcome == 1

    def next(self, allowed: np.ndarray | None) -> tuple[int, float, list[tuple[int, float]]] | None:
        """Token, its log-probability and those of others, or None at the end."""
        token = Token()
        words, count = (None, 0) if allowed is None else (allowed.ctypes.data_as(POINTER(c_uint32)), allowed.size)
        with self._turn() as native, _native.watch:
            outcome = lib.nibble_generator_next(native, words, count, ctypes.byref(token))
            if outcome not in (_END, _TOKEN):
                raise last_error()
            # It may have come when the token was there, and the next step was handed over.
            if (raised := _native.watch.interruption()) is not None:
                raise raised
            if outcome == _END:
                return None
            top = [(one.id, one.logprob) for one in token.top[: token.top_count]]
        return token.id, token.logprob, top

    @property
    def stats(self) -> dict:
        with self._turn() as native:
            return json.loads(check(lib.nibble_generator_stats_json(native)))

    @property
    def tokens(self) -> list[int]:
        """Those whose keys and values the session holds."""
        with self._turn() as native:
            room = (c_int32 * self.context_length)()
            count = lib.nibble_generator_tokens(native, room, len(room))
            if count < 0:
                raise last_error()
            return list(room[:count])

    def stop(self) -> None:
        """The text has ended."""
        with self._turn() as native:
            check(lib.nibble_generator_stop(native))

    def cancel(self) -> None:
        with self._handle.use() as native:
            lib.nibble_generator_cancel(native)

    def rewind(self, count: int) -> None:
        count = whole_number("count", count)
        if not 0 <= count < 1 << 63:
            raise NibbleError(f"a session can be rewound to 0 tokens or more, but not to {count}", "invalid_argument")
        with self._turn() as native, _native.watch:
            check(lib.nibble_generator_rewind(native, count))

    def fork(self) -> "Generator":
        with self._turn() as native, _native.watch:
            return Generator(handle=_Handle(check(lib.nibble_generator_fork(native)), "session"))

    def save(self, path) -> None:
        with self._turn() as native, _native.watch:
            check(lib.nibble_generator_save(native, take_path(path)))

    def restore(self, path) -> None:
        with self._turn() as native, _native.watch:
            check(lib.nibble_generator_restore(native, take_path(path)))

    def close(self) -> None:
        self._handle.close()


class TextStream:
    """Bytes of tokens to text: whole characters, and nothing of a stop string."""

    def __init__(self, stops: Sequence[str]):
        self.stops = stops
        encoded = [stop.encode() for stop in stops]
        texts = (c_char_p * len(encoded))(*encoded)
        lengths = (c_size_t * len(encoded))(*map(len, encoded))
        self._handle = _Handle(check(lib.nibble_text_make(texts, lengths, len(encoded))), "text")

    def push(self, data: bytes) -> str:
        """What can be handed out now."""
        return self._take(lambda native, length: lib.nibble_text_push(native, data, len(data), length))

    def finish(self) -> str:
        """What was held back."""
        return self._take(lib.nibble_text_finish)

    @property
    def stop(self) -> int | None:
        """Which stop string ended it."""
        with self._handle.use() as native:
            place = lib.nibble_text_stop(native)
        return None if place < 0 else place

    def _take(self, call) -> str:
        length = c_size_t()
        with self._handle.use() as native:
            text = check(call(native, ctypes.byref(length)))
            return ctypes.string_at(text, length.value).decode()


def _as_tokens(prompt: Sequence[int]) -> ctypes.Array:
    try:
        array = np.asarray(prompt)
    except (TypeError, ValueError, OverflowError):
        array = np.empty((0, 0))
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise NibbleError("a prompt must be text, messages or a list of token ids", "invalid_argument")
    limits = np.iinfo(np.int32)
    outside = (array < limits.min) | (array > limits.max)
    if outside.any():
        place = int(np.argmax(outside))
        raise NibbleError(f"token {place} of the prompt is {array[place]}, which is no token id", "out_of_range")
    return (c_int32 * array.size).from_buffer_copy(array.astype(np.int32).tobytes())
