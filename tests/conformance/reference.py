"""Operators in NumPy, written from their definitions and sharing nothing with torch, the exporter or Nibble."""

import numpy as np


def dequantize_rows(weight: np.ndarray, scales: np.ndarray, group_size: int, is_linear: bool, rows) -> np.ndarray:
    """Rows of a 4-bit table: two nibbles a byte, each a number from -8 to 7 times the scale of its group.

    In the linear order the low nibble comes first, else the high one.
    """
    packed = weight[rows]
    nibbles = np.empty((*packed.shape[:-1], packed.shape[-1] * 2), np.int32)
    nibbles[..., 0::2] = packed & 15 if is_linear else packed >> 4
    nibbles[..., 1::2] = packed >> 4 if is_linear else packed & 15
    spread = np.repeat(scales[rows].astype(np.float32), group_size, axis=-1)
    return (nibbles - 8).astype(np.float32) * spread


def reduce(x: np.ndarray, dims: tuple[int, ...], keepdim: bool, is_mean: bool) -> np.ndarray:
    """Sum or mean of float32, in float64 and rounded once."""
    total = np.sum(x, axis=dims, keepdims=keepdim, dtype=np.float64)
    if is_mean:
        total = total / np.prod([x.shape[d] for d in dims], dtype=np.float64)
    return np.asarray(total, np.float32)


def random_ids(rng: np.random.Generator, rows: int, shape: tuple[int, ...], dtype=np.int64) -> np.ndarray:
    """Ids with the first and the last row, and one of them twice, as far as they fit."""
    ids = rng.integers(0, rows, shape, dtype)
    edges = np.array([rows - 1, 0, rows - 1], dtype)
    flat = ids.reshape(-1)
    flat[: edges.size] = edges[: flat.size]
    return ids
