"""Attention of sizes that all change, of odd ranks; bytes to compute with; values that go out as they came."""

import numpy as np
import torch

from conformance.attention_cases import floats
from conformance.blob_cases import Built
from conformance.limits_cases import broadcast_attention
from conformance.quant_blobs import QD, Program
from support.vk00 import Blob

BUILDERS = {}


def built(builder):
    BUILDERS[builder.__name__] = builder
    return builder


def attention_of(rng, shapes, calls, scale=None, dynamic=False) -> Built:
    """`shapes`: of q, k, v and the result, at most."""
    b = Blob()
    q, k, v, out = (b.tensor("float32", shape) for shape in shapes)
    b.op("et_vk.sdpa.default", [q, k, v, b.null(), b.null() if scale is None else b.number(scale), out])
    b.inputs, b.outputs = [q, k, v], [out]
    given = [[floats(rng, *shape) for shape in call] for call in calls]
    made = [(arrays, [broadcast_attention(*arrays, scale=scale)]) for arrays in given]
    return Built(b, made, dynamic=dynamic, rtol=3e-5)


@built
def attention_of_any_size(rng):
    """Every dimension is another one in every call, sizes of heads too: multiples of four and others."""
    most = [(3, 4, 9, 280), (3, 4, 80, 280), (3, 4, 80, 270), (3, 4, 9, 270)]
    calls = [
        [(b, h, rows, d), (b, h, keys, d), (b, h, keys, e)]
        for b, h, rows, keys, d, e in (
            (3, 4, 9, 80, 280, 270),
            (1, 1, 1, 1, 4, 8),
            (2, 3, 5, 70, 17, 12),
            (1, 4, 1, 64, 64, 64),
            (3, 1, 9, 33, 260, 268),
            (2, 2, 0, 5, 8, 8),
            (2, 2, 3, 0, 8, 7),
            (2, 2, 3, 5, 8, 0),
        )
    ]
    return attention_of(rng, most, calls, dynamic=True)


@built
def attention_of_five_dimensions(rng):
    given = [(2, 3, 4, 5, 8), (1, 1, 1, 7, 8), (4, 7, 6)]
    return attention_of(rng, [*given, (2, 3, 4, 5, 6)], [given])


@built
def attention_of_empty_heads(rng):
    """All scores are 0: the mean of the values."""
    given = [(1, 2, 3, 0), (1, 2, 5, 0), (1, 2, 5, 8)]
    return attention_of(rng, [*given, (1, 2, 3, 8)], [given], 1.0)


@built
def values_that_go_out_as_they_are(rng):
    """Outputs that are an input, a constant, one another, or a state before and after a write."""
    b = Blob()
    c, s = floats(rng, 3), floats(rng, 2, 3)
    x, constant, state = b.tensor("float32", [2, 3]), b.constant(c), b.constant(s, mem_obj=0)
    total, one = b.tensor("float32", [2, 3]), b.integer(1)
    b.op("aten.add.Tensor", [x, constant, one, total])
    b.op("aten.add.Tensor", [state, x, one, state])
    b.inputs, b.outputs = [x], [x, constant, total, total, state, x, state]
    calls = []
    for _ in range(3):
        given = floats(rng, 2, 3)
        s = s + given
        calls.append(([given], [given, c, given + c, given + c, s, given, s]))
    return Built(b, calls, rtol=1e-6)


@built
def embeddings_with_zero_points(rng):
    """Zero points of every type, in a row's only group without its dimension; widths with and without whole words."""
    p = Program()
    ids = rng.integers(0, 9, (2, 3))
    for width, groups, dtype in ((10, 1, "float32"), (12, 3, "float16"), (64, 2, "float32"), (64, 1, "int8")):
        weight = rng.integers(0, 256, (9, width // 2), np.uint8)
        shape = (9,) if groups == 1 else (9, groups)
        scales, zeros = floats(rng, *shape), rng.integers(-8, 8, shape).astype(dtype)
        nibbles = np.stack([weight >> 4, weight & 15], -1).reshape(9, groups, -1).astype(np.float32) - 8
        table = (nibbles - zeros.reshape(9, groups, 1)) * scales.reshape(9, groups, 1)
        operands = [p.b.constant(array) for array in (weight, scales, zeros)]
        rest = (-8,), (7,), p.input(ids), (None,)
        result = table.reshape(9, width)[ids].astype(np.float32)
        p.op(f"{QD}.embedding_4bit.dtype", *operands, *rest, outs=p.output(result))
    return p.built(rtol=1e-6)


@built
def computed_bytes(rng):
    """Sums, products and bits of bytes wrap round, as they do in torch and in NumPy."""
    p = Program()
    for dtype in (np.uint8, np.int8):
        info = np.iinfo(dtype)
        a, b = (rng.integers(info.min, info.max, (3, 7), dtype, endpoint=True) for _ in range(2))
        a[0, :2] = info.min, info.max
        x, y = p.input(a), p.input(b)
        pairs = {
            "add.Tensor": (a + b, torch.add),
            "sub.Tensor": (a - b, torch.sub),
            "mul.Tensor": (a * b, torch.mul),
            "minimum.default": (np.minimum(a, b), torch.minimum),
            "bitwise_xor.Tensor": (a ^ b, torch.bitwise_xor),
            "lt.Tensor": (a < b, torch.lt),
        }
        for name, (expected, eager) in pairs.items():
            assert np.array_equal(expected, eager(torch.tensor(a), torch.tensor(b)))
            alpha = [(1,)] if name.startswith(("add", "sub")) else []
            p.op(f"aten.{name}", x, y, *alpha, outs=p.output(expected))
        ones = {
            "neg.default": (-a, torch.neg),
            "abs.default": (np.abs(a), torch.abs),
            "relu.default": (np.maximum(a, dtype(0)), torch.relu),
            "bitwise_not.default": (~a, torch.bitwise_not),
            "sqrt.default": (np.sqrt(a.astype(np.float32)), torch.sqrt),
        }
        for name, (expected, eager) in ones.items():
            # torch's square root is not rounded exactly on every processor.
            assert np.allclose(expected, eager(torch.tensor(a)), rtol=1e-6, atol=0, equal_nan=True)
            p.op(f"aten.{name}", x, outs=p.output(expected))
        filled = np.full((2, 3), info.min, dtype)
        p.op("aten.full.default", p.b.ints([2, 3]), (int(info.min),), *[(None,)] * 4, outs=p.output(filled))
    return p.built(rtol=1e-6)
