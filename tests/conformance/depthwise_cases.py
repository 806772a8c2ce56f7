"""Filters that see one channel each, and convolutions of bytes as products: what each kernel is particular about."""

import numpy as np
import torch

from conformance.case import Case
from conformance.convolution_cases import Dim, Filter, built, built_bytes, convolution_case
from conformance.quant_cases import F32, Q, bytes_of, dequantize, floats, quantize

# By columns: as large as a block of rows or not, with rows that are whole quads or not, at the edges and inside.
SLIDING = [
    Filter(8, (3, 3), padding=(1,), groups=8),
    Filter(8, (3, 3), (2,), (1,), groups=8, bounds=(-0.5, 0.75)),
    Filter(16, (3, 3), (2,), groups=8, bias=False),
    Filter(8, (3, 3), padding=(3, 0), groups=8, bias=False),
    Filter(8, (5, 5), padding=(2,), groups=8),
    Filter(16, (5, 5), (2,), (2,), groups=8, bounds=(0.0, None)),
    Filter(8, (3, 3), (1,), (2,), (2,), groups=8),
    Filter(8, (7, 7), (3,), (3,), groups=8),
]
# As a static quantizer leaves it: bytes in, bytes out.
STATIC = Filter(12, (3, 3), padding=(1,))


def bytes_on_torch(m, x):
    q = Q.quantize_per_tensor(x, 0.03, 5, -128, 127, torch.int8)
    back = Q.dequantize_per_tensor(q, 0.03, 5, -128, 127, torch.int8)
    weight = Q.dequantize_per_channel(m.weight, m.scales, m.zeros, 0, -127, 127, torch.int8)
    q = Q.quantize_per_tensor(STATIC.on_torch(back, weight, m.bias), 0.02, -4, -128, 127, torch.int8)
    return Q.dequantize_per_tensor(q, 0.02, -4, -128, 127, torch.int8)


def bytes_on_numpy(m, x):
    exact = STATIC.on_numpy((quantize(x, 0.03, 5).astype(np.int64) - 5).astype(np.float64), m.weight, None)
    y = exact.astype(F32) * (F32(0.03) * m.scales).reshape(-1, 1, 1) + m.bias.reshape(-1, 1, 1)
    return dequantize(quantize(y, 0.02, -4), 0.02, -4)


ALL = [
    Case(
        "convolution_static_bytes",
        bytes_on_torch,
        bytes_on_numpy,
        lambda rng: [(floats(rng, 1, 8, 6, 4),)],
        buffers=lambda rng: {
            "weight": bytes_of(rng, 12, 8, 3, 3),
            "scales": (np.abs(floats(rng, 12)) + F32(0.1)) / F32(3000),
            "zeros": np.zeros(12, np.int64),
            "bias": floats(rng, 12) / F32(4),
        },
        # Where the sum is halfway between two steps, its rounding decides.
        atol=0.0201,
    ),
    convolution_case("depthwise", (1, 8, 14, 13), SLIDING),
    convolution_case(
        "depthwise_dynamic",
        (1, 8, 9, 16),
        [SLIDING[0], SLIDING[1], SLIDING[4], SLIDING[7]],
        dynamic=({2: Dim("height", min=5, max=20), 3: Dim("width", min=5, max=24)},),
        shapes=[(1, 8, 9, 16), (1, 8, 20, 24), (1, 8, 5, 5), (1, 8, 6, 7)],
    ),
]
built("depthwise_batches", "float32", (3, 8, 9, 8), SLIDING)
built("depthwise_half", "float16", (2, 8, 8, 8), SLIDING)
built(
    "depthwise_live_half",
    "float16",
    (2, 8, 9, 12),
    [SLIDING[0], SLIDING[1], SLIDING[4], SLIDING[6]],
    shapes=[(2, 8, 9, 12), (1, 8, 5, 5), (2, 8, 6, 8), (0, 8, 7, 7)],
)

# Runs of whole vectors, of words and of single bytes; pixels that are whole words, and others; groups.
BYTES = [
    Filter(8, (3, 3), padding=(1,)),
    Filter(5, (1, 1), bias=False),
    Filter(12, (3, 3), (2,), (1,), groups=2),
    Filter(6, (2, 3), (1, 2), (1, 0), (2, 1)),
    Filter(4, (3, 2), (1, 1), (0, 2), (1, 3)),
    Filter(32, (3, 3), padding=(1,), groups=8),
    Filter(6, (3, 3), (2,), (1,), transposed=True, extra=(1,)),
]
built_bytes("convolution_of_bytes_in_vectors", (2, 32, 4, 6), [*BYTES, Filter(32, (3, 3), padding=(1,), groups=32)])
built_bytes("convolution_of_bytes_in_words", (1, 24, 5, 5), BYTES)
built_bytes("convolution_of_odd_bytes", (2, 6, 5, 8), [BYTES[0], BYTES[1], BYTES[3], BYTES[6], *BYTES[2:3]])
built_bytes(
    "convolution_of_bytes_live",
    (2, 16, 6, 8),
    [BYTES[0], BYTES[2], BYTES[6], Filter(16, (3, 3), padding=(1,), groups=16)],
    shapes=[(2, 16, 6, 8), (1, 16, 5, 5), (2, 16, 3, 4), (0, 16, 4, 4)],
)
