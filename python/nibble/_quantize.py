"""4-bit groupwise symmetric quantization, in NumPy."""

import numpy as np

# A group's step is its largest magnitude divided by one of these. With 7 nothing is clipped; 8 gives finer steps, but
# clips the largest magnitude if it is positive.
_DIVISORS = (7.0, 7.5, 8.0)
_BLOCK_ELEMENTS = 1 << 22


def quantize_q4(table: np.ndarray, group_size: int = 32) -> tuple[np.ndarray, np.ndarray]:
    """Quantizes a float table [rows, width] to 4 bits, with one scale per `group_size` elements of a row.

    Gives the packed table, uint8 [rows, width / 2] (the element with the even index is the low nibble, and a nibble n
    stands for n - 8), and the scales, float32 [rows, width / group_size]. Each group gets the scale with
    the smallest squared error among those tried.
    """
    table = np.asarray(table)
    if table.ndim != 2 or not np.issubdtype(table.dtype, np.floating):
        raise ValueError(f"The table must be float [rows, width], but it is {table.dtype} {list(table.shape)}.")
    rows, width = table.shape
    if group_size < 1 or width % 2 or width % group_size:
        raise ValueError(
            f"The table's width must be even and a multiple of the group size, but it is {width} and the group size is "
            f"{group_size}."
        )
    packed = np.empty((rows, width // 2), np.uint8)
    scales = np.empty((rows, width // group_size), np.float32)
    block = max(1, _BLOCK_ELEMENTS // max(1, width))
    for start in range(0, rows, block):
        part = slice(start, start + block)
        groups = table[part].astype(np.float32).reshape(-1, width // group_size, group_size)
        if not np.isfinite(groups).all():
            raise ValueError(f"The table holds a value that is not finite, in rows {start} to {start + block - 1}.")
        nibbles, scales[part] = _quantize_groups(groups)
        nibbles = nibbles.reshape(-1, width)
        packed[part] = nibbles[:, 0::2] | (nibbles[:, 1::2] << 4)
    return packed, scales


def _quantize_groups(groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    largest = np.abs(groups).max(axis=-1, keepdims=True)
    best_error = np.full(largest.shape, np.inf, np.float32)
    best_scale = np.zeros_like(largest)
    best = np.zeros(groups.shape, np.uint8)
    for divisor in _DIVISORS:
        scale = (largest / divisor).astype(np.float32)
        # If the scale is 0 (a group of zeros, or of very small numbers), any step gives zeros.
        steps = np.clip(np.rint(groups / np.where(scale > 0, scale, 1)), -8, 7)
        error = np.square(groups - steps * scale).sum(axis=-1, keepdims=True)
        better = error < best_error
        best_error = np.where(better, error, best_error)
        best_scale = np.where(better, scale, best_scale)
        best = np.where(better, (steps + 8).astype(np.uint8), best)
    return best, best_scale[..., 0]


def dequantize_q4(packed: np.ndarray, scales: np.ndarray, group_size: int = 32) -> np.ndarray:
    """The float32 table [rows, width] that quantize_q4()'s results stand for."""
    rows, bytes_per_row = packed.shape
    values = np.empty((rows, bytes_per_row * 2), np.float32)
    values[:, 0::2] = packed & 0x0F
    values[:, 1::2] = packed >> 4
    return (values - 8) * np.repeat(scales.astype(np.float32), group_size, axis=1)
