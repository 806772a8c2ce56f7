"""Matrices of GGUF files as Nibble's linears take them.

Q4_0, Q4_1 and Q4_K hold 4-bit numbers in groups of 32 with a step, and the last two an offset too. They are taken as
they are: the weights of the program are those of the file, exactly. All other types are dequantized (exactly) and
rounded to 8 bits with one step per row, the row's largest magnitude / 127.
"""

from dataclasses import dataclass

import gguf
import numpy as np

from .._quantize import dequantize_q4, quantize_q4
from ._read import Gguf
from ._shape import Shape

GROUP = 32
_BLOCK_ELEMENTS = 1 << 22
_EXACT = ("Q4_0", "Q4_1", "Q4_K")


@dataclass(frozen=True)
class Q4:
    """w[n, k] = (nibble - 8) * scales[k / 32, n] + offsets[k / 32, n]. The nibble of an even k is a byte's low half."""

    packed: np.ndarray  # uint8 [N, K / 2]
    scales: np.ndarray  # float32 [K / 32, N]
    offsets: np.ndarray | None = None  # float32 [K / 32, N]

    def dequantized(self) -> np.ndarray:
        """The float32 matrix [N, K]. Worked out in float64, where nothing is rounded."""
        nibbles = np.stack([self.packed & 15, self.packed >> 4], axis=-1).reshape(len(self.packed), -1)
        values = (nibbles.astype(np.float64) - 8) * np.repeat(self.scales.T, GROUP, axis=1)
        if self.offsets is not None:
            values += np.repeat(self.offsets.T, GROUP, axis=1)
        return values.astype(np.float32)


@dataclass(frozen=True)
class Q8:
    """w[n, k] = steps[n, k] * scales[n]."""

    steps: np.ndarray  # int8 [N, K]
    scales: np.ndarray  # float32 [N]

    def dequantized(self) -> np.ndarray:
        return self.steps.astype(np.float32) * self.scales[:, None]


@dataclass(frozen=True)
class Table:
    """Rows of 4-bit numbers, as quantize_q4 gives them: an embedding, or a part of its sum."""

    packed: np.ndarray  # uint8 [rows, width / 2]
    scales: np.ndarray  # float32 [rows, width / group]

    @property
    def group(self) -> int:
        return self.packed.shape[1] * 2 // self.scales.shape[1]


def read_linear(file: Gguf, name: str, rows: int, width: int) -> Q4 | Q8:
    tensor = file.tensor(name, rows, width)
    kind = tensor.tensor_type.name
    if kind not in _EXACT:
        return to_q8(file.dequantize(tensor))
    matrix = to_q4(tensor.data, kind)
    for values in (matrix.scales, matrix.offsets):
        if values is not None and not np.isfinite(values).all():
            raise file.refuse(f"tensor '{name}' ({kind}) holds a value that is not finite")
    return matrix


def read_tables(file: Gguf, name: str, rows: int, width: int) -> list[Table]:
    """The embedding in 4 bits: exactly if it is Q4_0; else two tables, whose sum it is, by least squares.

    One table alone costs SmolLM2 1 to 2 % of perplexity on prose, and 12 % on a text that it knows by heart.
    """
    tensor = file.tensor(name, rows, width)
    if tensor.tensor_type.name == "Q4_0":
        matrix = read_linear(file, name, rows, width)
        return [Table(matrix.packed, np.ascontiguousarray(matrix.scales.T))]
    group = next((size for size in (GROUP, 16, 8, 4, 2) if width % size == 0), 0)
    if not group:
        raise file.refuse(f"'{name}' is {width} wide, but its width must be even")
    values = file.dequantize(tensor)
    coarse = quantize_q4(values, group)
    rest = quantize_q4(values - dequantize_q4(*coarse, group), group)
    return [Table(*coarse), Table(*rest)]


def what_was_done(kind: str, is_table: bool = False) -> str:
    """For people: how a tensor of this type is stored in the program."""
    if kind == "Q4_0" or (kind in _EXACT and not is_table):
        return f"exact: 4-bit groups of {GROUP}" + ("" if kind == "Q4_0" else ", with offsets")
    if is_table:
        return "requantized: the sum of two tables of 4-bit groups, with the steps of least squared error"
    return "requantized: 8 bits, one step per row"


def to_q8(values: np.ndarray) -> Q8:
    steps = np.empty(values.shape, np.int8)
    scales = np.empty(len(values), np.float32)
    block = max(1, _BLOCK_ELEMENTS // max(1, values.shape[1]))
    for start in range(0, len(values), block):
        part = slice(start, start + block)
        scales[part] = np.abs(values[part]).max(axis=1, initial=0) / np.float32(127)
        exact = values[part] / np.where(scales[part] > 0, scales[part], 1)[:, None]
        steps[part] = np.clip(np.rint(exact), -127, 127)
    return Q8(steps, scales)


def to_q4(data: np.ndarray, kind: str) -> Q4:
    """The blocks of a tensor, uint8 [rows, bytes]: their nibbles in Nibble's order, steps and offsets."""
    size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]][1]
    blocks = np.ascontiguousarray(data).reshape(len(data), -1, size)
    if kind == "Q4_K":
        steps, lows, halves = _super_blocks(blocks)
    else:
        has_low = kind == "Q4_1"
        steps = _half(blocks, 0)
        lows = _half(blocks, 2) if has_low else None
        halves = blocks[..., 4 if has_low else 2 :]
    # First the low nibbles of some bytes, then the high ones; Nibble has neighbours in one byte.
    nibbles = np.stack([halves & 15, halves >> 4], axis=-2).reshape(len(data), -1)
    packed = nibbles[:, 0::2] | (nibbles[:, 1::2] << 4)
    scales = np.ascontiguousarray(steps.T)
    return Q4(packed, scales, None if lows is None else np.ascontiguousarray((8 * steps + lows).T))


def _half(blocks: np.ndarray, at: int) -> np.ndarray:
    """The float16 at a place of each block, in float32 [rows, blocks]."""
    return np.ascontiguousarray(blocks[..., at : at + 2]).view(np.float16)[..., 0].astype(np.float32)


def _super_blocks(blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Q4_K: eight groups of 32, whose 6-bit steps and lows are multiples of two float16 of the block."""
    rows, count = blocks.shape[:2]
    codes, low_codes = gguf.quants.Q4_K.get_scale_min(np.ascontiguousarray(blocks[..., 4:16]).reshape(-1, 12))
    steps = _half(blocks, 0)[..., None] * codes.reshape(rows, count, 8).astype(np.float32)
    lows = _half(blocks, 2)[..., None] * low_codes.reshape(rows, count, 8).astype(np.float32)
    # Two groups share 32 bytes: the first has the low nibbles.
    return steps.reshape(rows, -1), -lows.reshape(rows, -1), blocks[..., 16:].reshape(rows, count, 4, 32)


class Weights:
    """The tensors of a file by their place in the model; `done` tells what became of each kind."""

    def __init__(self, file: Gguf, shape: Shape):
        self._file, self._shape = file, shape
        self.done: dict[str, str] = {}

    def layer(self, number: int) -> dict:
        """Norms, and linears with their biases, by the names that the file has for them."""
        shape = self._shape
        queries, keys = shape.heads * shape.head, shape.kv_heads * shape.head
        sizes = {
            "attn_q": (queries, shape.dim),
            "attn_k": (keys, shape.dim),
            "attn_v": (keys, shape.dim),
            "attn_output": (shape.dim, queries),
            "ffn_gate": (shape.hidden, shape.dim),
            "ffn_up": (shape.hidden, shape.dim),
            "ffn_down": (shape.dim, shape.hidden),
        }
        block = f"blk.{number}."
        linears = {name: self._linear(block + name, *size) for name, size in sizes.items()}
        return {**linears, **{name: self.norm(block + name) for name in ("attn_norm", "ffn_norm")}}

    def norm(self, name: str) -> np.ndarray:
        return self._file.values(f"{name}.weight", self._shape.dim)

    def tables(self) -> list[Table]:
        name = "token_embd.weight"
        tables = read_tables(self._file, name, self._shape.vocabulary, self._shape.dim)
        self._note("embedding", name, is_table=True)
        return tables

    def head(self) -> Q4 | Q8:
        """Files without one use the embedding."""
        name = "output.weight" if "output.weight" in self._file.tensors else "token_embd.weight"
        self._note("head", name)
        return read_linear(self._file, name, self._shape.vocabulary, self._shape.dim)

    def _linear(self, name: str, rows: int, width: int) -> tuple[Q4 | Q8, np.ndarray | None]:
        weight = read_linear(self._file, f"{name}.weight", rows, width)
        self._note("linear", f"{name}.weight")
        bias = f"{name}.bias"
        return weight, self._file.values(bias, rows) if bias in self._file.tensors else None

    def _note(self, what: str, name: str, is_table: bool = False) -> None:
        kind = self._file.tensors[name].tensor_type.name
        self.done[f"{what} {kind}"] = what_was_done(kind, is_table)
