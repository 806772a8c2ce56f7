"""Sizes at which a thread that goes along them alone would go round its loops more than 65535 times: lavapipe ends them
there and tells nobody. And calls that make a kernel do without something that the largest shapes have.
"""

import numpy as np
import torch

from conformance.attention_cases import et_vk, qkv
from conformance.case import Case
from conformance.reference import attention
from conformance.rows_cases import floats, layer_norm, log_softmax

Dim = torch.export.Dim
HEADS, ROWS, N = Dim("heads", max=8), Dim("rows", max=4), Dim("n", max=9)


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)


def live_beta(m, x):
    return torch.addmm(m.bias, x, m.w, beta=x.shape[0] - 1)


ALL = [
    Case(
        name="long_keys",
        torch=lambda m, q, k, v: et_vk.sdpa(q, k, v),
        numpy=lambda m, q, k, v: attention(q, k, v),
        calls=lambda rng: [qkv(rng, 1, 1, 520, 4400, 256)],
        rtol=1e-4,
        atol=1e-4,
    ),
    Case(
        name="long_lines",
        torch=lambda m, x: (torch.log_softmax(x, -1), torch.nn.functional.layer_norm(x, (52001,))),
        numpy=lambda m, x: (log_softmax(x, -1), layer_norm(x, 1)),
        calls=lambda rng: [(floats(rng, 64, 52001),)],
        rtol=1e-4,
        atol=1e-4,
    ),
    # Depths that are no multiple of four, in rows and in columns of a matrix.
    Case(
        name="long_odd_depth",
        torch=lambda m, x, y: (torch.nn.functional.linear(x, m.w), torch.mm(x, y)),
        numpy=lambda m, x, y: (product(x, m.w.T), product(x, y)),
        calls=lambda rng: [(floats(rng, 5, 8199), floats(rng, 8199, 7))],
        buffers=lambda rng: {"w": floats(rng, 9, 8199)},
        rtol=1e-4,
        atol=1e-2,
    ),
    Case(
        name="long_depth",
        torch=lambda m, x, y: torch.mm(x, y),
        numpy=lambda m, x, y: product(x, y),
        calls=lambda rng: [(floats(rng, 3, 270000), floats(rng, 270000, 3))],
        rtol=1e-3,
        atol=1e-1,
    ),
    # Rows of float16 that share words.
    Case(
        name="long_odd_depth_half",
        torch=lambda m, x, y: torch.mm(x, y),
        numpy=lambda m, x, y: product(x, y),
        calls=lambda rng: [(floats(rng, 4, 9001) / 64, floats(rng, 9001, 7) / 4)],
        options={"force_fp16": True},
        rtol=1e-2,
        atol=2e-2,
    ),
    # In some calls a number is zero that decides whether an operand counts.
    Case(
        name="live_beta",
        torch=live_beta,
        numpy=lambda m, x: product(x, m.w) + np.float32(x.shape[0] - 1) * (m.bias if x.shape[0] != 1 else 0),
        calls=lambda rng: [(floats(rng, n, 8),) for n in (9, 1, 3)],
        buffers=lambda rng: {"w": floats(rng, 8, 6), "bias": np.array([1, 2, 3, np.inf, 4, 5], np.float32)},
        dynamic=({0: N},),
        rtol=1e-4,
        atol=1e-4,
    ),
    # The keys never change, but fewer heads and rows may share them than at the largest.
    Case(
        name="sdpa_of_constant_keys",
        torch=lambda m, q: et_vk.sdpa(q, m.k, m.v),
        numpy=lambda m, q: attention(q, *(np.repeat(x, q.shape[1], 1) for x in (m.k, m.v))),
        calls=lambda rng: [(floats(rng, 1, h, rows, 16),) for h, rows in ((8, 4), (1, 1), (2, 1), (1, 4), (4, 3))],
        buffers=lambda rng: {"k": floats(rng, 1, 1, 100, 16), "v": floats(rng, 1, 1, 100, 16)},
        dynamic=({1: HEADS, 2: ROWS},),
        rtol=1e-5,
        atol=2e-5,
    ),
]
