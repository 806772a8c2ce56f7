"""What torch takes and few kernels do: heads of any size, operands that are repeated, infinities."""

import numpy as np
import torch

from conformance.attention_cases import ROWS as CACHE_ROWS
from conformance.attention_cases import (
    STEPS,
    N,
    cache_buffers,
    cached_call,
    cached_numpy,
    cached_torch,
    et_vk,
    floats,
    in_chunks,
    mask,
    position,
    tables,
)
from conformance.case import Case
from conformance.elementwise_cases import GELU, SPECIAL
from conformance.reference import rotate_halves, rotate_pairs

Dim = torch.export.Dim


def broadcast_attention(q, k, v, bias=0.0, scale: float | None = None) -> np.ndarray:
    """softmax(q k^T * scale + bias) v in float64; what is single or missing is repeated."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = np.einsum("...rd,...kd->...rk", q, k) * (q.shape[-1] ** -0.5 if scale is None else scale) + bias
    if scores.shape[-1] == 0:
        return np.zeros((*np.broadcast_shapes(scores.shape[:-2], v.shape[:-2]), q.shape[-2], v.shape[-1]), np.float32)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("...rk,...kd->...rd", weights / weights.sum(-1, keepdims=True), v).astype(np.float32)


# q, k and v.
SHAPES = [
    ((1, 2, 5, 300), (1, 2, 70, 300), (1, 2, 70, 300)),
    ((2, 1, 1, 1000), (2, 1, 9, 1000), (2, 1, 9, 1000)),
    ((1, 2, 3, 18), (1, 2, 7, 18), (1, 2, 7, 5)),
    ((1, 1, 9, 4), (1, 1, 80, 4), (1, 1, 80, 264)),
    ((1, 2, 3, 301), (1, 2, 33, 301), (1, 2, 33, 8)),
    # Repeated keys and values, queries, values alone, keys alone.
    ((2, 3, 5, 8), (1, 1, 40, 8), (1, 1, 40, 8)),
    ((2, 3, 5, 8), (1, 3, 7, 8), (1, 3, 7, 12)),
    ((1, 1, 5, 6), (2, 3, 7, 6), (2, 3, 7, 6)),
    ((2, 3, 1, 8), (2, 3, 7, 8), (1, 1, 7, 8)),
    ((2, 1, 4, 8), (1, 3, 7, 8), (2, 3, 7, 4)),
    ((1, 3, 5, 8), (1, 1, 7, 8), (2, 3, 7, 8)),
    # Other ranks.
    ((5, 8), (7, 8), (7, 12)),
    ((3, 5, 6), (3, 7, 6), (3, 7, 6)),
    ((5, 8), (3, 7, 8), (2, 3, 7, 8)),
]
# q, k, v and a mask that makes more of the result than q and k.
MASKED = [
    ((1, 3, 5, 8), (1, 3, 7, 8), (1, 3, 7, 8), (2, 1, 5, 7)),
    ((2, 1, 5, 300), (2, 1, 7, 300), (2, 1, 7, 10), (3, 1, 7)),
    ((1, 2, 1, 8), (1, 2, 7, 8), (1, 2, 7, 8), (6, 7)),
    ((1, 2, 4, 8), (1, 2, 1, 8), (1, 2, 9, 8), (9,)),
]


def masked_inputs(rng):
    inputs = [array for *qkv, over in MASKED for array in (*(floats(rng, *s) for s in qkv), mask(rng, *over))]
    # A row that sees nothing.
    inputs[3][1, 0, 2] = -np.inf
    return tuple(inputs)


def returned(m, x, n, b, flat):
    total = x + m.w
    return x, total, total, flat, n, b, x, flat, n + n, m.w * m.w


def rotated(m, by_halves, by_pairs, start, *inputs):
    at = position(start) if isinstance(start, torch.Tensor) else int(start[-1])
    outs = []
    for d, (q, k, x, y) in zip((16, 18), in_chunks(inputs, 4), strict=True):
        outs += by_halves(q, k, getattr(m, f"cos{d}_halves"), getattr(m, f"sin{d}_halves"), at)
        outs += by_pairs(x, y, getattr(m, f"cos{d}_pairs"), getattr(m, f"sin{d}_pairs"))
    return tuple(outs)


def halves_of(q, k, cos, sin, start):
    return [rotate_halves(x, cos, sin, start) for x in (q, k)]


def pairs_of(q, k, cos, sin):
    return [rotate_pairs(x, cos, sin) for x in (q, k)]


FEW = Dim("few", max=5)
EXTREMES = np.array([1e30, -1e30, 3.4e38, -3.4e38, 12, -12, 1e-40, -1e-40, 5, -5], np.float32)
WIDE_GROUPS = [(4, 2, 300), (1, 1, 512), (3, 1, 259)]
LENGTH, KEYS = Dim("length", max=20), Dim("keys", max=90)

ALL = [
    # Torch's own float32 differs with the number of elements: plus infinity alone gives infinity, among others NaN.
    Case(
        name="gelu_special",
        torch=GELU[0],
        eager=lambda m, x: tuple(y.float() for y in GELU[0](m, x.double())),
        numpy=GELU[1],
        calls=lambda rng: [(np.concatenate([SPECIAL, EXTREMES]),)],
        rtol=1e-6,
        atol=1e-6,
    ),
    Case(
        name="sdpa_shapes",
        torch=lambda m, *inputs: tuple(et_vk.sdpa(*chunk) for chunk in in_chunks(inputs, 3)),
        numpy=lambda m, *inputs: tuple(broadcast_attention(*chunk) for chunk in in_chunks(inputs, 3)),
        calls=lambda rng: [tuple(floats(rng, *shape) for shapes in SHAPES for shape in shapes) for _ in range(2)],
        rtol=1e-5,
        atol=2e-5,
    ),
    Case(
        name="sdpa_shapes_half",
        torch=lambda m, *inputs: tuple(et_vk.sdpa(*chunk) for chunk in in_chunks(inputs, 3)),
        numpy=lambda m, *inputs: tuple(broadcast_attention(*chunk) for chunk in in_chunks(inputs, 3)),
        calls=lambda rng: [tuple(floats(rng, *shape) for shapes in SHAPES for shape in shapes)],
        options={"force_fp16": True},
        rtol=1e-2,
        atol=1e-2,
    ),
    Case(
        name="sdpa_wider_masks",
        torch=lambda m, *inputs: tuple(et_vk.sdpa(*chunk) for chunk in in_chunks(inputs, 4)),
        numpy=lambda m, *inputs: tuple(broadcast_attention(*chunk) for chunk in in_chunks(inputs, 4)),
        calls=lambda rng: [masked_inputs(rng)],
        rtol=1e-5,
        atol=2e-5,
    ),
    Case(
        name="sdpa_shapes_dynamic",
        torch=lambda m, q, k, v: et_vk.sdpa(q, k, v, None, 0.3),
        numpy=lambda m, q, k, v: broadcast_attention(q, k, v, scale=0.3),
        calls=lambda rng: [
            (floats(rng, 2, 2, n, 260), floats(rng, 1, 1, keys, 260), floats(rng, 1, 2, keys, 6))
            for n, keys in ((3, 4), (20, 90), (1, 1), (1, 90), (0, 5), (5, 57))
        ],
        dynamic=({2: LENGTH}, {2: KEYS}, {2: KEYS}),
        rtol=1e-5,
        atol=2e-5,
    ),
    # A thread of a CPU adapter has rounds for a part of these keys only.
    Case(
        name="sdpa_of_very_wide_heads",
        torch=lambda m, q, k, v: et_vk.sdpa(q, k, v),
        numpy=lambda m, q, k, v: broadcast_attention(q, k, v),
        calls=lambda rng: [(floats(rng, 1, 1, 2, 6002), floats(rng, 1, 1, 140, 6002), floats(rng, 1, 1, 140, 6002))],
        rtol=1e-4,
        atol=1e-4,
    ),
    Case(
        name="cached_attention_of_wide_heads",
        torch=cached_torch,
        numpy=cached_numpy,
        buffers=lambda rng: cache_buffers(rng, WIDE_GROUPS),
        calls=lambda rng: [cached_call(rng, *step, groups=WIDE_GROUPS) for step in STEPS],
        dynamic=(None, *[{1: CACHE_ROWS}] * 3 * len(WIDE_GROUPS)),
        rtol=1e-5,
        atol=2e-5,
    ),
    # What goes out came in, goes out twice, or depends on no input.
    Case(
        name="returned_values",
        torch=lambda m, x, n, b: returned(m, x, n, b, x.view(-1)),
        numpy=lambda m, x, n, b: returned(m, x, n, b, x.reshape(-1)),
        calls=lambda rng: [
            (floats(rng, rows, 3), rng.integers(-9, 9, (rows, 2), np.int32), rng.random((3, rows)) < 0.5)
            for rows in (3, 5, 1)
        ],
        buffers=lambda rng: {"w": floats(rng, 3)},
        dynamic=({0: FEW}, {0: FEW}, {1: FEW}),
        rtol=1e-6,
    ),
    # Tables in several parts, of which a call may need one, or rows of all.
    Case(
        name="rotary_tables_in_parts",
        torch=lambda m, *inputs: rotated(m, et_vk.apply_rotary_emb_hf, et_vk.apply_rotary_emb, *inputs),
        numpy=lambda m, *inputs: rotated(m, halves_of, pairs_of, *inputs),
        calls=lambda rng: [
            (
                np.array([start]),
                *(floats(rng, 2, rows, heads, d) for d in (16, 18) for rows in (n, 80) for heads in (3, 1)),
            )
            for n, start in ((3, 5), (32, 47), (1, 0), (0, 7), (17, 40), (1, 47))
        ],
        buffers=lambda rng: {
            f"{name}{d}_{form}": array
            for d in (16, 18)
            for form, columns in (("halves", d), ("pairs", d // 2))
            for name, array in zip(("cos", "sin"), tables(rng, 80, columns), strict=True)
        },
        dynamic=(None, *[{1: N}, {1: N}, None, None] * 2),
        shard_bytes=1008,
        rtol=1e-5,
        atol=1e-5,
    ),
]
