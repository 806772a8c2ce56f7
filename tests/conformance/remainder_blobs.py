"""What a division leaves, and whether anything is true: ops that the stock exporter leaves outside."""

import itertools
import math

import numpy as np

from conformance.blob_cases import Built
from conformance.elementwise_blobs import Program, booleans, floats, small
from support.vk00 import Blob

BUILDERS = {}


def built(builder):
    BUILDERS[builder.__name__] = builder
    return builder


@built
def remainders_are_exact(rng):
    """Quotients of up to 2^250, whole numbers and their neighbours, infinities, zeros and NaN."""
    special = [
        0,
        -0.0,
        1,
        -1,
        0.1,
        3,
        -7.5,
        1e-30,
        1e30,
        -3e38,
        1.3e38,
        3.4028235e38,
        16777217.0,
        math.inf,
        -math.inf,
        math.nan,
    ]
    pairs = np.array(list(itertools.product(special, special)), np.float32).T
    sizes = np.exp2(rng.uniform(-60, 60, (2, 301))).astype(np.float32)
    whole = np.round(rng.uniform(-99, 99, (2, 200))).astype(np.float32) * np.float32(0.1)
    a, b = np.concatenate([pairs, sizes * np.array([[-1], [1]], np.float32), whole], 1)
    p = Program(a, b)
    p.op("aten.fmod.Tensor", [0, 1], np.fmod(a, b))
    p.op("aten.remainder.Tensor", [0, 1], np.remainder(a, b))
    return p.done()


@built
def remainders_of_integers_and_of_one_number(rng):
    a, b, c = small(rng, 3, 5) * 7, small(rng, 5) * 2 + 1, np.array(-2.5, np.float32)
    p = Program(a, b, c)
    p.op("aten.fmod.Tensor", [0, 1], np.fmod(a, b))
    p.op("aten.remainder.Tensor", [0, 1], np.remainder(a, b))
    p.op("aten.fmod.Tensor", [0, 2], np.fmod(a.astype(np.float32), c))
    p.op("aten.remainder.Tensor", [0, 2], np.remainder(a.astype(np.float32), c))
    return p.done()


@built
def remainders_between_other_ops(rng):
    """Joined with ops before and after them, which have functions of their own."""
    a, c = floats(rng, 3, 5), floats(rng, 5) + 4
    b, inner = Blob(), np.remainder(np.sin(a), c)
    x, y = (b.tensor("float32", array.shape) for array in (a, c))
    b.inputs += [x, y]
    values = [b.tensor("float32", a.shape) for _ in range(3)]
    b.op("aten.sin.default", [x, values[0]])
    b.op("aten.remainder.Tensor", [values[0], y, values[1]])
    b.op("aten.tanh.default", [values[1], values[2]])
    b.outputs.append(values[2])
    return Built(b, [([a, c], [np.tanh(inner).astype(np.float32)])], rtol=1e-5)


@built
def kinds_of_numbers(rng):
    a = np.array([0, -0.0, 1e-30, -3, 7.5, math.inf, -math.inf, math.nan, 3e38], np.float32)
    n = small(rng, 3, 5)
    p = Program(a, a.astype(np.float16), n)
    for index, array in enumerate((a, a.astype(np.float16), n)):
        p.op("aten.isnan.default", [index], np.isnan(array))
        p.op("aten.isinf.default", [index], np.isinf(array))
    return p.done()


@built
def functions_of_exponentials(rng):
    x = np.concatenate([[0, 1e-6, -1e-3, 0.3, 88, -88, 100, math.inf, -math.inf, math.nan], floats(rng, 45)])
    x = x.astype(np.float32)
    p = Program(x)
    with np.errstate(over="ignore"):
        p.op("aten.sinh.default", [0], np.sinh(x.astype(np.float64)).astype(np.float32))
        p.op("aten.cosh.default", [0], np.cosh(x.astype(np.float64)).astype(np.float32))
    p.op("aten.erf.default", [0], np.array([math.erf(v) for v in x], np.float32))
    return p.done(1e-5)


@built
def any_of_lines(rng):
    """Of all types and over every dimension, of lines long and empty: nothing is true in those."""
    kinds = {"float32": floats, "float16": floats, "int32": small, "bool": booleans, "uint8": booleans}
    shapes = ((3, 5, 6), (2, 1, 300), (0, 4, 2), (3, 0, 4), (1, 5, 0))
    b, calls = Blob(), [([], []) for _ in shapes]
    for dtype, draw in kinds.items():
        x = b.tensor(dtype, (3, 5, 300))
        b.inputs.append(x)
        for dim in (-3, 1, 2):
            kept = [1 if i == dim % 3 else n for i, n in enumerate((3, 5, 300))]
            b.outputs.append(b.tensor("bool", kept))
            b.op("aten.any.dim", [x, b.integer(dim), b.boolean(True), b.outputs[-1]])
        b.outputs.append(b.tensor("bool", ()))
        b.op("aten.any.default", [x, b.outputs[-1]])
        for dims, kept in (([-1, 0], [5]), ([], [3, 5, 300])):
            b.outputs.append(b.tensor("bool", kept))
            b.op("aten.any.dims", [x, b.ints(dims), b.boolean(False), b.outputs[-1]])
        for shape, (inputs, expected) in zip(shapes, calls, strict=True):
            array = np.where(rng.random(shape) < 0.1, draw(rng, *shape), 0).astype(dtype)
            if dtype.startswith("float"):
                array = np.where(array > 2, np.nan, array).astype(dtype)
            inputs.append(array)
            expected += [array.any(dim, keepdims=True) for dim in (0, 1, 2)] + [np.asarray(array.any())]
            expected += [array.any((0, 2)), array.astype(bool)]
    return Built(b, calls, dynamic=True)
