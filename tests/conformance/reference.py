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


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, bias=0.0, scale: float | None = None) -> np.ndarray:
    """softmax(q k^T * scale + bias) v in float64, over [batch, head, row, element]; heads of k and v may be shared."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    shared = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, shared, axis=1), np.repeat(v, shared, axis=1)
    scores = q @ np.swapaxes(k, -1, -2) * (1 / np.sqrt(q.shape[-1]) if scale is None else scale) + bias
    if scores.shape[-1] == 0:
        return np.zeros(q.shape, np.float32)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True) @ v).astype(np.float32)


def cached_attention(q, k, v, k_cache, v_cache, start: int, scale: float | None = None) -> np.ndarray:
    """Writes k and v [batch, row, head, element] to the caches from `start` on; row r sees keys up to start + r."""
    rows = q.shape[1]
    k_cache[:, start : start + rows] = k
    v_cache[:, start : start + rows] = v
    keys = start + rows
    bias = np.where(np.arange(keys) <= start + np.arange(rows)[:, None], 0, -np.inf)
    by_head = [np.swapaxes(x, 1, 2) for x in (q, k_cache[:, :keys], v_cache[:, :keys])]
    return np.ascontiguousarray(np.swapaxes(attention(*by_head, bias, scale), 1, 2))


def rotate_pairs(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    """Turns neighbouring pairs of [batch, row, head, element]; a table row is one angle per pair."""
    pairs = x.reshape(*x.shape[:-1], -1, 2).astype(np.float64)
    turned = pairs[..., 0] + 1j * pairs[..., 1]
    turned = turned * (cos + 1j * sin.astype(np.float64))[: x.shape[1], None, :]
    return np.stack([turned.real, turned.imag], -1).reshape(x.shape).astype(np.float32)


def rotate_halves(x: np.ndarray, cos: np.ndarray, sin: np.ndarray, start: int) -> np.ndarray:
    """Turns element i with element i + width / 2, where width is the tables'; elements past it stay."""
    width, rows = cos.shape[-1], slice(start, start + x.shape[1])
    low, high, rest = np.split(x.astype(np.float64), [width // 2, width], -1)
    cos, sin = cos[rows, None, :], sin[rows, None, :]
    turned = np.concatenate([low, high], -1) * cos + np.concatenate([-high, low], -1) * sin
    return np.concatenate([turned, rest], -1).astype(np.float32)
