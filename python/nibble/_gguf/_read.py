"""Reads GGUF files. Parsing is the library's work; what it says of a broken file becomes one sentence."""

import hashlib
import os
from collections import Counter
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from .._native import NibbleError


def refuse(path: os.PathLike | str, why: str, code: str = "invalid_program") -> NibbleError:
    return NibbleError(f"'{path}' cannot be imported: {why}", code)


class _Reader(gguf.GGUFReader):
    """The library's reader takes a slice past the end for a short one, and would count through an absurd length."""

    def _get(self, offset, dtype, count=1, override_order=None):
        end = int(offset) + int(count) * np.dtype(dtype).itemsize
        if int(offset) < 0 or end > len(self.data):
            raise ValueError(f"it ends at byte {len(self.data)}, but something in it lasts to byte {end}")
        return super()._get(offset, dtype, count, override_order)


class Gguf:
    """A GGUF file: metadata by key, and tensors by name."""

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        try:
            self._reader = _Reader(self.path)
        except OSError as error:
            raise NibbleError(f"'{path}' cannot be read: {error.strerror or error}", "io") from None
        except (ValueError, LookupError, ArithmeticError, TypeError, RecursionError, MemoryError) as error:
            raise refuse(path, f"it is not a whole GGUF file ({_words(error)})") from None
        if self._reader.byte_order != "I":
            raise refuse(path, "it is in the other byte order")
        self.tensors = {tensor.name: tensor for tensor in self._reader.tensors}
        self._read: set[str] = set()

    def refuse(self, why: str, code: str = "invalid_program") -> NibbleError:
        return refuse(self.path, why, code)

    def get(self, key: str, kind: type | tuple[type, ...], default: Any = None) -> Any:
        """The value of a key, or `default`, which None makes an error."""
        field = self._reader.fields.get(key)
        if field is None:
            if default is None:
                raise self.refuse(f"it has no '{key}'")
            return default
        try:
            value = field.contents()
        except (ValueError, LookupError) as error:
            raise self.refuse(f"'{key}' cannot be read ({_words(error)})") from None
        kinds = kind if isinstance(kind, tuple) else (kind,)
        # A bool is an int to Python, but not to GGUF.
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise self.refuse(f"'{key}' is {_shown(value)}, which is not {' or '.join(k.__name__ for k in kinds)}")
        return value

    def count(self, key: str, most: int, default: int | None = None) -> int:
        """A number from 1 to `most`."""
        value = self.get(key, int, default)
        if not 1 <= value <= most:
            raise self.refuse(f"'{key}' is {value}, but it must be from 1 to {most}")
        return value

    def real(self, key: str, default: float | None = None) -> float:
        """A finite number above 0."""
        value = float(self.get(key, (float, int), default))
        if not 0 < value < 1e30:
            raise self.refuse(f"'{key}' is {value}, but it must be a positive number")
        return value

    def index(self, key: str, size: int) -> int | None:
        """A number from 0 to size - 1, if the key is there."""
        value = self.get(key, int, -1)
        if value == -1:
            return None
        if not 0 <= value < size:
            raise self.refuse(f"'{key}' is {value}, but there are {size} tokens")
        return value

    def has(self, key: str) -> bool:
        return key in self._reader.fields

    def tensor(self, name: str, *shape: int) -> "gguf.gguf_reader.ReaderTensor":
        """A tensor of this shape, [rows, width] as NumPy counts."""
        tensor = self.tensors.get(name)
        if tensor is None:
            raise self.refuse(f"it has no tensor '{name}'")
        self._read.add(name)
        found = [int(size) for size in reversed(tensor.shape)]
        if found != list(shape):
            raise self.refuse(f"tensor '{name}' is {found}, but it must be {list(shape)}")
        return tensor

    def refuse_unread(self) -> None:
        """A model without some of its tensors would be another one."""
        if unread := [name for name in self.tensors if name not in self._read]:
            more = f" and {len(unread) - 1} others" if len(unread) > 1 else ""
            raise self.refuse(f"nobody knows what its tensor '{unread[0]}'{more} would be for", "unsupported")

    def values(self, name: str, *shape: int) -> np.ndarray:
        """A tensor's values in float32, whatever its type."""
        return self.dequantize(self.tensor(name, *shape))

    def dequantize(self, tensor: "gguf.gguf_reader.ReaderTensor") -> np.ndarray:
        kind = tensor.tensor_type.name
        try:
            values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        except NotImplementedError:
            raise self.refuse(f"tensor '{tensor.name}' is {kind}, which the library gguf cannot read") from None
        values = np.ascontiguousarray(values, np.float32).reshape([int(size) for size in reversed(tensor.shape)])
        if not np.isfinite(values).all():
            raise self.refuse(f"tensor '{tensor.name}' ({kind}) holds a value that is not finite")
        return values

    def sha256(self) -> str:
        try:
            with self.path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise NibbleError(f"'{self.path}' cannot be read: {error.strerror}", "io") from None

    def types(self) -> dict[str, int]:
        """How many tensors there are of each type."""
        return dict(Counter(tensor.tensor_type.name for tensor in self.tensors.values()))


def _words(error: Exception) -> str:
    return " ".join(str(error).split()).strip("'.")[:200] or type(error).__name__


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
