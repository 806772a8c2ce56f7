"""Quantizing and dequantizing, products with 8-bit weights, and what training needs, as the exporter emits them."""

import executorch.backends.vulkan.custom_ops_lib  # noqa: F401  (defines torch.ops.et_vk)
import numpy as np
import torch
import torch.ao.quantization.fx._decomposed
import torchao.quantization  # noqa: F401  (defines torch.ops.torchao)

from conformance.case import Case

Dim = torch.export.Dim
ROWS = Dim("rows", max=40)
Q = torch.ops.quantized_decomposed
AO = torch.ops.torchao
VK = torch.ops.et_vk
F32 = np.float32
RANGES = {"int8": (-128, 127), "uint8": (0, 255)}


def floats(rng, *shape) -> np.ndarray:
    return np.asarray(rng.uniform(-4, 4, shape), F32)


def bytes_of(rng, *shape) -> np.ndarray:
    return rng.integers(-127, 128, shape, np.int8)


# --- in NumPy ---


def quantize(x, scale, zero, low=-128, high=127, dtype="int8") -> np.ndarray:
    """In float32 step by step: what is rounded depends on it."""
    inverse = (1 / np.asarray(scale, np.float64)).astype(F32)
    return np.clip(np.round(x.astype(F32) * inverse) + np.asarray(zero, F32), low, high).astype(dtype)


def dequantize(q, scale, zero=0) -> np.ndarray:
    return ((q.astype(np.float64) - zero) * np.asarray(scale, F32)).astype(F32)


def qparams(smallest, largest, low=-128, high=127, eps=2.0**-126) -> tuple[np.ndarray, np.ndarray]:
    smallest, largest = np.minimum(smallest, F32(0)), np.maximum(largest, F32(0))
    scale = np.maximum((largest - smallest) / F32(high - low), F32(eps))
    return scale, np.clip(F32(low) - np.round(smallest / scale), low, high)


def token_qparams(x) -> tuple[np.ndarray, np.ndarray]:
    smallest = np.minimum(x.min(-1, keepdims=True), F32(0))
    largest = np.maximum(x.max(-1, keepdims=True), F32(0))
    scale = np.maximum((largest - smallest) / F32(255), np.finfo(F32).eps)
    low, high = smallest / scale, largest / scale
    zero = np.where((F32(-128) + low) + (F32(127) + high) > 0, F32(-128) - low, F32(127) - high)
    return scale, np.round(np.clip(zero, -128, 127))


def product(x, weight) -> np.ndarray:
    return (x.astype(np.float64) @ weight.astype(np.float64).T).astype(F32)


# --- quantizing; the exporter takes out what is quantized and back, so what comes back is another input ---


def hostile(rng, *shape) -> np.ndarray:
    """Numbers between, on and halfway between steps, beyond them, and infinite."""
    x = floats(rng, *shape)
    flat = x.reshape(-1)
    flat[::5] = np.round(flat[::5] * 8) / 8
    flat[1:6] = (1e9, -1e9, np.inf, -np.inf, 0)
    return x


def tensors_on_torch(m, x, q):
    signed = Q.quantize_per_tensor(x, 0.25, 3, -100, 127, torch.int8)
    scale, zero = Q.choose_qparams.tensor(m.fixed, -128, 127, 1e-6, torch.int8)
    return (
        signed,
        Q.quantize_per_tensor(x, 0.05, 130, 0, 255, torch.uint8),
        Q.dequantize_per_tensor(q, 0.25, 3, -100, 127, torch.int8),
        Q.quantize_per_tensor.tensor(x, scale, zero, -128, 127, torch.int8),
    )


def tensors_on_numpy(m, x, q):
    signed = quantize(x, 0.25, 3, -100)
    scale, zero = qparams(m.fixed.min(), m.fixed.max(), eps=1e-6)
    return signed, quantize(x, 0.05, 130, 0, 255, "uint8"), dequantize(q, 0.25, 3), quantize(x, scale, zero)


def tokens_on_torch(m, x, q):
    scales, zeros = Q.choose_qparams_per_token_asymmetric(x, torch.int8)
    rounded = Q.quantize_per_token(x, scales, zeros, -128, 127, torch.int8)
    return rounded, Q.dequantize_per_token(q, scales, zeros, -128, 127, torch.int8, torch.float32)


def tokens_on_numpy(m, x, q):
    scales, zeros = token_qparams(x)
    rounded = np.clip(np.round(x * (F32(1) / scales) + zeros.astype(F32)), -128, 127).astype(np.int8)
    return rounded, dequantize(q, scales, zeros)


def channels_on_torch(m, x, q):
    rounded = Q.quantize_per_channel(x, m.scales, m.zeros, 1, -128, 127, torch.int8)
    return rounded, Q.dequantize_per_channel(q, m.scales, m.zeros, 1, -128, 127, torch.int8)


def channels_on_numpy(m, x, q):
    scales, zeros = m.scales[:, None], m.zeros[:, None]
    rounded = np.clip(np.round(x * (F32(1) / scales)) + zeros, -128, 127).astype(np.int8)
    return rounded, dequantize(q, scales, zeros)


QUANTIZE = [
    Case(
        "quantize_tensors",
        tensors_on_torch,
        tensors_on_numpy,
        lambda rng: [(hostile(rng, 3, 7), bytes_of(rng, 3, 7)) for _ in range(2)],
        buffers=lambda rng: {"fixed": floats(rng, 3, 7)},
        rtol=1e-6,
    ),
    # A product and a sum may be rounded as one.
    Case(
        "quantize_tokens_dynamic",
        tokens_on_torch,
        tokens_on_numpy,
        lambda rng: [(floats(rng, 1, n, 12), bytes_of(rng, 1, n, 12)) for n in (5, 40, 1, 3)],
        dynamic=({1: ROWS}, {1: ROWS}),
        rtol=1e-5,
        atol=1e-6,
    ),
    Case(
        "quantize_channels",
        channels_on_torch,
        channels_on_numpy,
        lambda rng: [(hostile(rng, 2, 3, 5), bytes_of(rng, 2, 3, 5))],
        buffers=lambda rng: {"scales": np.abs(floats(rng, 3)) + F32(0.01), "zeros": np.array([0, -7, 100])},
        rtol=1e-6,
    ),
]

# --- products with 8-bit weights ---


def linear_on_torch(m, x):
    """As a static quantizer leaves it: bytes in, bytes out."""
    q = Q.quantize_per_tensor(x, 0.03, 5, -128, 127, torch.int8)
    back = Q.dequantize_per_tensor(q, 0.03, 5, -128, 127, torch.int8)
    weight = Q.dequantize_per_channel(m.weight, m.scales, m.zeros, 0, -127, 127, torch.int8)
    y = torch.nn.functional.linear(back, weight, m.bias)
    return Q.dequantize_per_tensor(
        Q.quantize_per_tensor(y, 0.02, -4, -128, 127, torch.int8), 0.02, -4, -128, 127, torch.int8
    )


def linear_on_numpy(m, x):
    exact = (quantize(x, 0.03, 5).astype(np.int64) - 5) @ m.weight.T.astype(np.int64)
    y = exact.astype(F32) * (F32(0.03) * m.scales) + m.bias
    return dequantize(quantize(y, 0.02, -4), 0.02, -4)


def static_case(name, shape, columns, **more) -> Case:
    return Case(
        name,
        linear_on_torch,
        linear_on_numpy,
        lambda rng: [(floats(rng, *shape),), (floats(rng, *shape),)],
        buffers=lambda rng: {
            "weight": bytes_of(rng, columns, shape[-1]),
            "scales": (np.abs(floats(rng, columns)) + F32(0.1)) / F32(3000),
            "zeros": np.zeros(columns, np.int64),
            "bias": floats(rng, columns) / F32(4),
        },
        # Where the sum is halfway between two steps, its rounding decides.
        atol=0.0201,
        **more,
    )


PRODUCTS = [
    static_case("q8ta_linear_rows", (6, 32), 12),
    static_case("q8ta_linear_one_row", (1, 48), 8),
]

# --- training ---


def cross_entropy(logits, labels, n_valid) -> tuple[np.ndarray, np.ndarray]:
    wide = logits.astype(np.float64)
    shifted = wide - wide.max(-1, keepdims=True)
    total = np.exp(shifted).sum(-1, keepdims=True)
    rows = np.arange(len(labels))
    safe = np.maximum(labels, 0)
    counts = labels >= 0
    loss = (np.where(counts, np.log(total[:, 0]) - shifted[rows, safe], 0) / n_valid).sum()
    share = np.exp(shifted) / total
    share[rows, safe] -= 1
    return loss.astype(F32), np.where(counts[:, None], share / n_valid, 0).astype(F32)


def dequantize_q4(weights, scales, group) -> np.ndarray:
    nibbles = np.stack([weights & 15, weights >> 4], -1).reshape(len(weights), -1).astype(np.float64) - 8
    return nibbles * np.repeat(scales.T[: len(weights)], group, -1)


def requantize(latent, scales, group) -> np.ndarray:
    by_column = np.repeat(scales.T, group, -1)[:, : latent.shape[1]]
    steps = np.where(by_column == 0, 0, np.round(latent / np.where(by_column == 0, F32(1), by_column)))
    codes = (np.clip(steps, -8, 7) + 8).astype(np.uint8)
    packed = codes[:, 0::2].copy()
    packed[:, : codes.shape[1] // 2] |= codes[:, 1::2] << 4
    return packed


TRAINING = [
    Case(
        "cross_entropy",
        lambda m, x, labels: VK.fused_ce(x, labels, 7.0),
        lambda m, x, labels: cross_entropy(x, labels, 7.0),
        lambda rng: [(floats(rng, 9, 37), rng.integers(-3, 37, 9)) for _ in range(2)],
        rtol=1e-5,
        atol=1e-6,
    ),
    Case(
        "gradients_of_weights",
        lambda m, d, x: VK.linear_dW(d, x),
        lambda m, d, x: product(d.reshape(-1, 20).T, x.reshape(-1, 7).T),
        lambda rng: [(floats(rng, 3, 5, 20), floats(rng, 3, 5, 7)) for _ in range(2)],
        rtol=1e-5,
        atol=2e-4,
    ),
]

ALL = QUANTIZE + PRODUCTS + TRAINING
