"""Programs in which ops are joined: elementwise chains, epilogues, folded norms, bytes."""

import numpy as np
import torch
from torch.nn import functional as nn

from conformance.blob_cases import Built
from conformance.case import Case
from conformance.channel_cases import numpy_batch_norm
from conformance.convolution_cases import Filter, write
from conformance.elementwise_cases import erf
from conformance.quant_cases import dequantize, quantize
from support.vk00 import Blob

Dim = torch.export.Dim
F32 = np.float32


def floats(rng, *shape) -> np.ndarray:
    return np.asarray(rng.uniform(-2, 2, shape), F32)


def numpy_gelu(x: np.ndarray) -> np.ndarray:
    return (x * (1 + erf(x.astype(np.float64) / np.sqrt(2))) / 2).astype(x.dtype)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return (1 / (1 + np.exp(-x.astype(np.float64)))).astype(x.dtype)


# --- elementwise ops that read each other: one value is read twice, operands are repeated, some are of other types ---


def torch_chain(m, x, row, column, number):
    y = x * row + column
    z = nn.gelu(y) * torch.sigmoid(y)
    chosen = torch.where(x > 0, z.clamp(-1, 1), torch.rsqrt(z * z + number))
    return chosen, (nn.hardtanh(y * m.scale, -1.5, 2.5) - x).abs() ** 2


def numpy_chain(m, x, row, column, number):
    y = x * row + column
    z = numpy_gelu(y) * sigmoid(y)
    chosen = np.where(x > 0, np.clip(z, -1, 1), 1 / np.sqrt(z * z + number))
    return chosen.astype(x.dtype), np.abs(np.clip(y * m.scale, F32(-1.5), F32(2.5)) - x).astype(x.dtype) ** 2


def chain_inputs(rng, batch: int, rows: int, width: int):
    return (
        floats(rng, batch, rows, width),
        floats(rng, width),
        floats(rng, batch, 1, 1),
        np.asarray(abs(floats(rng)) + F32(0.1)),
    )


def chain(name: str, sizes, **more) -> Case:
    return Case(
        name,
        torch_chain,
        numpy_chain,
        lambda rng: [chain_inputs(rng, *one) for one in sizes],
        buffers=lambda rng: {"scale": floats(rng, 1)},
        **{"rtol": 1e-5, "atol": 5e-6} | more,
    )


# --- what follows a convolution, a product or a reduction ---


def torch_epilogue(m, x):
    y = torch.relu(nn.conv2d(x, m.dense, m.bias, padding=1) + x)
    y = nn.hardswish(nn.conv2d(y, m.deep, None, padding=1, groups=y.shape[1]))
    y = nn.conv2d(y, m.point, m.bias) * m.scale + y
    down = nn.conv2d(y, m.dense, m.bias, stride=2, padding=1) - nn.conv2d(y, m.point, m.bias, stride=2)
    rows = nn.linear(y, m.matrix, m.short) if m.matrix.shape[1] == y.shape[-1] else y.mean(-1, keepdim=True)
    return nn.gelu(down), torch.sigmoid(y.mean((2, 3), keepdim=True)), torch.tanh(rows)


def numpy_epilogue(m, x):
    dense, deep = Filter(8, (3, 3), padding=(1,)), Filter(8, (3, 3), padding=(1,), groups=8)
    point, bias = Filter(8, (1, 1)), m.bias
    y = np.maximum(dense.on_numpy(x, m.dense, bias) + x, 0)
    y = deep.on_numpy(y, m.deep, None)
    y = (y * np.clip(y + 3, 0, 6) / 6).astype(x.dtype)
    y = point.on_numpy(y, m.point, bias) * m.scale + y
    down = Filter(8, (3, 3), (2,), (1,)).on_numpy(y, m.dense, bias)
    down = down - Filter(8, (1, 1), (2,)).on_numpy(y, m.point, bias)
    rows = y @ m.matrix.T + m.short if m.matrix.shape[1] == y.shape[-1] else y.mean(-1, keepdims=True)
    return numpy_gelu(down), sigmoid(y.mean((2, 3), keepdims=True)), np.tanh(rows).astype(x.dtype)


def epilogue_buffers(width: int):
    return lambda rng: {
        "dense": floats(rng, 8, 8, 3, 3) / F32(8),
        "deep": floats(rng, 8, 1, 3, 3) / F32(3),
        "point": floats(rng, 8, 8, 1, 1) / F32(4),
        "bias": floats(rng, 8),
        "scale": floats(rng, 1),
        "matrix": floats(rng, 5, width) / F32(4),
        "short": floats(rng, 5),
    }


def epilogue(name: str, shapes, **more) -> Case:
    return Case(
        name,
        torch_epilogue,
        numpy_epilogue,
        lambda rng: [(floats(rng, *one),) for one in shapes],
        buffers=epilogue_buffers(shapes[0][-1] if "dynamic" not in more else 0),
        **{"rtol": 1e-5, "atol": 2e-5} | more,
    )


BATCH, ROWS, HEIGHT, WIDTH = (Dim(n, min=3, max=m) for n, m in (("b", 4), ("r", 6), ("h", 12), ("w", 16)))
ALL = [
    chain("chain", [(3, 5, 8)]),
    chain("chain_odd", [(2, 3, 7)]),
    chain("chain_half", [(2, 3, 6)], options={"force_fp16": True}, rtol=2e-2, atol=2e-2),
    chain("chain_dynamic", [(3, 4, 8), (4, 6, 8), (3, 3, 8)], dynamic=({0: BATCH, 1: ROWS}, None, {0: BATCH}, None)),
    epilogue("epilogue", [(1, 8, 6, 8)]),
    epilogue("epilogue_odd", [(1, 8, 5, 7)]),
    epilogue("epilogue_half", [(1, 8, 5, 6)], options={"force_fp16": True}, rtol=5e-2, atol=5e-2),
    epilogue("epilogue_dynamic", [(1, 8, 6, 8), (1, 8, 12, 16), (1, 8, 3, 5)], dynamic=({2: HEIGHT, 3: WIDTH},)),
]

# --- what the exporter does itself, or does not emit ---

NORMED = [
    Filter(8, (3, 3), padding=(1,)),
    Filter(6, (3, 3), (2,), bias=False),
    Filter(8, (3, 3), padding=(1,), groups=8),
    Filter(12, (1, 1), groups=4, bias=False),
    Filter(7, (1, 1)),
    Filter(5, (3, 3), (2,), transposed=True),
    Filter(4, (2, 2), (2,), groups=2, transposed=True),
]


def folded_norms(dtype: str, tolerance: float):
    """A batch norm after each kind of convolution, with and without weight and bias, and then a relu."""

    def builder(rng):
        b = Blob()
        given = floats(rng, 1, 8, 5, 6).astype(dtype)
        x = b.tensor(dtype, given.shape)
        b.inputs = [x]
        expected = []
        for i, f in enumerate(NORMED):
            weight, bias = floats(rng, *f.weight_shape(8)).astype(dtype), floats(rng, f.columns).astype(dtype)
            rows = [floats(rng, f.columns).astype(dtype) for _ in range(4)]
            rows[3] = abs(rows[3])
            affine = [None, None] if i % 2 else rows[:2]
            y = f.on_numpy(given.astype(F32), weight.astype(F32), bias.astype(F32) if f.bias else None)
            normed = numpy_batch_norm(y, *rows[2:], *affine, eps=0.1)
            by_torch = nn.batch_norm(
                torch.tensor(y),
                *(torch.tensor(r.astype(F32)) for r in rows[2:]),
                *(None if r is None else torch.tensor(r.astype(F32)) for r in affine),
                eps=0.1,
            )
            np.testing.assert_allclose(normed, by_torch.numpy(), 1e-5, 1e-5)
            expected.append(np.maximum(normed, 0).astype(dtype))
            made, out, last = (b.tensor(dtype, y.shape) for _ in range(3))
            write(b, f, x, b.constant(weight), b.constant(bias) if f.bias else None, made, False)
            constants = [b.null() if r is None else b.constant(r) for r in (*affine, *rows[2:])]
            outs = b.value_list([out, b.tensor(dtype, [0]), b.tensor(dtype, [0])])
            numbers = [b.number(0.1), b.number(0.1)]
            b.op("aten._native_batch_norm_legit_no_training.default", [made, *constants, *numbers, outs])
            b.op("aten.relu.default", [out, last])
            b.outputs.append(last)
        return Built(b, [([given], expected)], rtol=tolerance)

    return builder


def bytes_through_floats(rng) -> Built:
    """To floats and to the same bytes; and then a relu on bytes, or to floats, a sum, bounds and other steps."""
    b = Blob()
    given = [rng.integers(-128, 128, shape, np.int8) for shape in ((3, 7), (7,))]
    b.inputs = [b.tensor("int8", one.shape) for one in given]
    qd = "quantized_decomposed"

    def back(x, scale, zero, shape):
        out = b.tensor("float32", shape)
        numbers = [b.number(scale), b.integer(zero), b.integer(-128), b.integer(127)]
        b.op(f"{qd}.dequantize_per_tensor.default", [x, *numbers, b.null(), b.null(), out])
        return out

    def there(x, scale, zero, shape):
        out = b.tensor("int8", shape)
        numbers = [b.number(scale), b.integer(zero), b.integer(-128), b.integer(127)]
        b.op(f"{qd}.quantize_per_tensor.default", [x, *numbers, b.null(), out])
        return out

    whole = given[0].shape
    same = there(back(b.inputs[0], 0.0371, -7, whole), 0.0371, -7, whole)
    first = back(same, 0.0371, -7, whole)
    total, bent = (b.tensor("float32", whole) for _ in range(2))
    b.op("aten.add.Tensor", [first, back(b.inputs[1], 0.05, 3, (7,)), b.integer(1), total])
    b.op("aten.hardtanh.default", [total, b.number(0.0), b.number(6.0), bent])
    b.outputs = [there(bent, 0.0235, -128, whole), b.tensor("int8", whole)]
    steps = [b.number(0.0371), b.integer(-7), b.number(0.05), b.integer(-9)]
    b.op("et_vk.q8ta_relu.default", [same, *steps, b.outputs[1]])
    y = dequantize(given[0], 0.0371, -7) + dequantize(given[1], 0.05, 3)
    relu = quantize(np.maximum(dequantize(given[0], 0.0371, -7), F32(0)), 0.05, -9)
    return Built(b, [(given, [quantize(np.clip(y, F32(0), F32(6)), 0.0235, -128), relu])])


BUILDERS = {
    "folded_norms": folded_norms("float32", 2e-5),
    "folded_norms_half": folded_norms("float16", 3e-2),
    "bytes_through_floats": bytes_through_floats,
}
