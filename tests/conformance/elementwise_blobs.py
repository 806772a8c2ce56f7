"""Elementwise programs that the exporter will not emit, built by hand, with what they give in NumPy."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from conformance.blob_cases import Built
from conformance.elementwise_cases import SPECIAL
from support.vk00 import Blob

BUILDERS: dict[str, Callable[[np.random.Generator], Built]] = {}


def built(builder):
    BUILDERS[builder.__name__] = builder
    return builder


def floats(rng, *shape) -> np.ndarray:
    return np.asarray(rng.uniform(-4, 4, shape), np.float32)


def small(rng, *shape) -> np.ndarray:
    return np.asarray(rng.integers(-3, 4, shape), np.int64)


def booleans(rng, *shape) -> np.ndarray:
    return rng.random(shape) < 0.5


# What the program calls a dtype of the caller.
ON_DEVICE = {"int64": "int32"}


class Program:
    """Several operators on the same inputs, each with its result."""

    def __init__(self, *inputs: np.ndarray):
        self.blob, self.inputs, self.expected = Blob(), inputs, []
        self.ids = [self.tensor(array) for array in inputs]
        self.blob.inputs = list(self.ids)

    def tensor(self, like: np.ndarray) -> int:
        return self.blob.tensor(ON_DEVICE.get(like.dtype.name, like.dtype.name), like.shape)

    def op(self, name: str, inputs: Sequence[int], wanted: np.ndarray, *others: int) -> None:
        """`inputs` are numbers of the program's inputs, `others` the values after them."""
        out = self.tensor(np.asarray(wanted))
        self.blob.op(name, [*(self.ids[i] for i in inputs), *others, out])
        self.blob.outputs.append(out)
        self.expected.append(np.asarray(wanted))

    def done(self, rtol: float = 0.0) -> Built:
        return Built(self.blob, [(list(self.inputs), self.expected)], rtol=rtol)


@built
def functions_that_the_exporter_rewrites(rng):
    x = np.concatenate([SPECIAL, floats(rng, 45)])
    p = Program(x)
    p.op("aten.tan.default", [0], np.tan(x.astype(np.float64)).astype(np.float32))
    p.op("aten.log10.default", [0], np.log10(x.astype(np.float64)).astype(np.float32))
    for name, function in (("log", np.log), ("log2", np.log2), ("exp2", np.exp2), ("reciprocal", np.reciprocal)):
        p.op(f"aten.{name}.default", [0], function(x.astype(np.float64)).astype(np.float32))
    for name, function in (("floor", np.floor), ("ceil", np.ceil), ("trunc", np.trunc), ("square", np.square)):
        p.op(f"aten.{name}.default", [0], function(x))
    p.op("aten.hardshrink.default", [0], np.where(np.abs(x) <= 0.75, np.float32(0), x), p.blob.number(0.75))
    p.op("aten.relu6.default", [0], np.clip(x, 0, 6))
    p.op("aten.hardsigmoid.default", [0], np.clip(x / np.float32(6) + np.float32(0.5), 0, 1))
    p.op("aten.logical_not.default", [0], x == 0)
    p.op("aten.pow.Tensor_Scalar", [0], np.ones_like(x), p.blob.integer(0))
    return p.done(1e-5)


@built
def half_keeps_what_float16_cannot_count(rng):
    """Infinities and NaN beside every neighbour, and numbers that become infinite."""
    special = np.array([math.inf, -math.inf, math.nan, 65504, -65504, 65535, -1e6, 1e-8, 2], np.float32)
    x = np.stack(np.meshgrid(special, np.array([-2, 0, 1, *special], np.float32)), -1).reshape(-1).astype(np.float32)
    p = Program(x)
    p.op("aten._to_copy.default", [0], x.astype(np.float16), *[p.blob.null()] * 6)
    p.op("aten.neg.default", [0], (-x).astype(np.float16))
    return p.done()


@built
def integer_functions(rng):
    x = small(rng, 3, 5)
    p = Program(x)
    p.op("aten.abs.default", [0], np.abs(x))
    p.op("aten.neg.default", [0], -x)
    p.op("aten.relu.default", [0], np.maximum(x, 0))
    for name in ("round", "floor", "ceil", "trunc"):
        p.op(f"aten.{name}.default", [0], x)
    p.op("aten.square.default", [0], x * x)
    p.op("aten.bitwise_not.default", [0], ~x)
    p.op("aten.logical_not.default", [0], x == 0)
    p.op("aten.exp.default", [0], np.exp(x).astype(np.float32))
    p.op("aten.clamp.default", [0], np.clip(x, -1, 2), p.blob.number(-1.0), p.blob.integer(2))
    p.op("aten.clamp.default", [0], np.clip(x, -1.5, 2).astype(np.float32), p.blob.number(-1.5), p.blob.integer(2))
    p.op("aten.clamp.default", [0], x, p.blob.integer(-(2**40)), p.blob.integer(2**40))
    for exponent in (0, 1, 2, 3, 4, 7, 19):
        p.op("aten.pow.Tensor_Scalar", [0], x**exponent, p.blob.integer(exponent))
    return p.done(2e-6)


def reference_power(a: int, b: int) -> int:
    if b >= 0:
        return a**b
    return {1: 1, -1: 1 if b % 2 == 0 else -1}.get(a, 0)


@built
def operators_on_two_tensors(rng):
    a, b, i, j = floats(rng, 3, 1, 7), floats(rng, 5, 1), small(rng, 3, 1, 7), small(rng, 5, 1)
    t, f = booleans(rng, 5, 7), booleans(rng, 7)
    p = Program(a, b, i, j, t, f)
    p.op("aten.maximum.default", [0, 1], np.maximum(a, b))
    p.op("aten.maximum.default", [2, 3], np.maximum(i, j))
    p.op("aten.minimum.default", [2, 1], np.minimum(i.astype(np.float32), b))
    p.op("aten.pow.Tensor_Tensor", [2, 3], np.vectorize(reference_power)(i, j))
    p.op("aten.div.Tensor_mode", [0, 1], a / b, p.blob.null())
    p.op("aten.mul.Tensor", [0, 4], a * t)
    p.op("aten.add.Tensor", [2, 5], i + f, p.blob.integer(1))
    for name, function in (("and", np.bitwise_and), ("or", np.bitwise_or), ("xor", np.bitwise_xor)):
        p.op(f"aten.bitwise_{name}.Tensor", [4, 5], function(t, f))
        p.op(f"aten.bitwise_{name}.Tensor", [2, 3], function(i, j))
        p.op(f"aten.bitwise_{name}.Tensor", [3, 4], function(j, t))
    for name, function in (("and", np.logical_and), ("or", np.logical_or), ("xor", np.logical_xor)):
        p.op(f"aten.logical_{name}.default", [2, 5], function(i, f))
        p.op(f"aten.logical_{name}.default", [3, 0], function(j, a))
    return p.done(1e-6)


COMPARISONS = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


@built
def comparisons_of_all_types(rng):
    x, i, t = np.concatenate([SPECIAL, floats(rng, 3)]), small(rng, 23), booleans(rng, 2, 1)
    p = Program(x, i, t, x.astype(np.float16))
    for name, function in COMPARISONS.items():
        p.op(f"aten.{name}.Tensor", [0, 1], function(x, i.astype(np.float32)))
        p.op(f"aten.{name}.Tensor", [1, 2], function(i, t))
        p.op(f"aten.{name}.Tensor", [3, 2], function(x.astype(np.float16), t))
        p.op(f"aten.{name}.Scalar", [0], function(x, np.float32(0.5)), p.blob.number(0.5))
        p.op(f"aten.{name}.Scalar", [1], function(i, 2), p.blob.number(2.0))
        p.op(f"aten.{name}.Scalar", [1], function(i, 0.5), p.blob.number(0.5))
        p.op(f"aten.{name}.Scalar", [1], function(i, -(2**40)), p.blob.integer(-(2**40)))
        p.op(f"aten.{name}.Scalar", [2], function(t, True), p.blob.boolean(True))
    return p.done()


@built
def where_of_all_types(rng):
    c, i, j, t, f = booleans(rng, 5, 1), small(rng, 5, 7), small(rng, 7), booleans(rng, 7), booleans(rng, 3, 5, 1)
    h = floats(rng, 1, 7).astype(np.float16)
    p = Program(c, i, j, t, f, h)
    p.op("aten.where.self", [0, 1, 2], np.where(c, i, j))
    p.op("aten.where.self", [0, 3, 4], np.where(c, t, f))
    p.op("aten.where.self", [4, 5, 5], np.where(f, h, h))
    p.op("aten.where.self", [3, 1, 5], np.where(t, i, h).astype(np.float32))
    p.op("aten.where.self", [3, 5, 1], np.where(t, h, i).astype(np.float16))
    return p.done()


@built
def eight_dimensions(rng):
    a, b = floats(rng, 2, 1, 3, 1, 2, 1, 3, 1), floats(rng, 1, 2, 1, 3, 1, 2, 1, 4)
    c = booleans(rng, 2, 2, 1, 1, 2, 2, 1, 1)
    p = Program(a, b, c, floats(rng))
    p.op("aten.sub.Tensor", [0, 1], a - b, p.blob.integer(1))
    p.op("aten.lt.Tensor", [0, 1], a < b)
    p.op("aten.where.self", [2, 0, 1], np.where(c, a, b))
    p.op("aten.where.self", [2, 3, 1], np.where(c, p.inputs[3], b))
    p.op("aten.neg.default", [3], -p.inputs[3])
    return p.done()


@built
def no_elements(rng):
    a, b, c = floats(rng, 0, 3), floats(rng, 1), booleans(rng, 5, 0, 1)
    p = Program(a, b, c)
    p.op("aten.exp.default", [0], np.exp(a))
    p.op("aten.maximum.default", [0, 1], np.maximum(a, b))
    p.op("aten.eq.Tensor", [0, 1], a == b)
    p.op("aten.where.self", [2, 0, 1], np.where(c, a, b))
    return p.done()


@built
def tensors_from_numbers(rng):
    p = Program(floats(rng, 3, 5))
    b, none = p.blob, p.blob.null()
    like, sized = [none] * 5, [none] * 4
    for dtype in (np.float32, np.float16, np.int64, np.bool_):
        p.op("aten.full.default", [], np.full((2, 3), 2.75).astype(dtype), b.ints([2, 3]), b.number(2.75), *sized)
        p.op("aten.full_like.default", [0], np.full((3, 5), -3).astype(dtype), b.integer(-3), *like)
        p.op("aten.zeros.default", [], np.zeros((2, 0, 3), dtype), b.ints([2, 0, 3]), *sized)
        p.op("aten.ones.default", [], np.ones((), dtype), b.ints([]), *sized)
        p.op("aten.zeros_like.default", [0], np.zeros((3, 5), dtype), *like)
        p.op("aten.ones_like.default", [0], np.ones((3, 5), dtype), *like)
        p.op("aten.scalar_tensor.default", [], np.array(7).astype(dtype), b.integer(7), *sized)
    for value in (-math.inf, math.inf, math.nan, -3.4028234663852886e38):
        p.op("aten.full.default", [], np.full(3, value, np.float32), b.ints([3]), b.number(value), *sized)
        p.op("aten.full.default", [], np.full(3, value).astype(np.float16), b.ints([3]), b.number(value), *sized)
    for numbers in ((0, 7, 1), (5, -6, -2), (3, 3, 1)):
        values = [b.integer(n) for n in numbers]
        p.op("aten.arange.start_step", [], np.arange(*numbers), *values, *sized)
        p.op("aten.arange.start_step", [], np.arange(*numbers, dtype=np.float16), *values, *sized)
    steps = (b.number(0.5), b.number(3.2), b.number(0.3))
    p.op("aten.arange.start_step", [], np.arange(0.5, 3.2, 0.3).astype(np.float32), *steps, *sized)
    return p.done(1e-6)


@built
def sizes_from_live_shapes(rng):
    b = Blob()
    x, n, none = b.tensor("float32", [9, 2]), b.symint(), b.null()
    zeros, count = b.tensor("float32", [9, 3]), b.tensor("int32", [9])
    b.op("sym_size.int", [x, b.integer(0), n])
    b.op("aten.full.default", [b.value_list([n, b.integer(3)]), n, none, none, none, none, zeros])
    b.op("aten.arange.start_step", [b.integer(0), n, b.integer(1), none, none, none, none, count])
    b.inputs, b.outputs = [x], [zeros, count]
    sizes = (9, 4, 0, 1, 7)
    calls = [([floats(rng, k, 2)], [np.full((k, 3), k, np.float32), np.arange(k)]) for k in sizes]
    return Built(b, calls, dynamic=True)
