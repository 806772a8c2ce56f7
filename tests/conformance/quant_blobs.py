"""Quantized and training ops that the exporter will not emit, or not with these arguments."""

import numpy as np

from conformance.blob_cases import Built, floats
from conformance.quant_cases import (
    F32,
    bytes_of,
    dequantize,
    hostile,
    product,
    qparams,
    quantize,
    token_qparams,
)
from support.vk00 import Blob

BUILDERS = {}


def built(builder):
    BUILDERS[builder.__name__] = builder
    return builder


QD = "quantized_decomposed"
RANGES = {"int8": (-128, 127), "uint8": (0, 255), "int32": (-70000, 70000)}


class Program:
    """Several ops in one program, each with inputs of its own, or with constants."""

    def __init__(self) -> None:
        self.b = Blob()
        self.arrays: list[np.ndarray] = []
        self.expected: list[np.ndarray] = []

    def input(self, array: np.ndarray) -> int:
        self.b.inputs.append(self.b.tensor("int32" if array.dtype == np.int64 else array.dtype.name, array.shape))
        self.arrays.append(array)
        return self.b.inputs[-1]

    def output(self, array: np.ndarray, dtype: str = "") -> int:
        dtype = dtype or array.dtype.name
        self.b.outputs.append(self.b.tensor("int32" if dtype == "int64" else dtype, array.shape))
        self.expected.append(array.astype("int64" if dtype == "int32" else dtype))
        return self.b.outputs[-1]

    def number(self, value) -> int:
        b = self.b
        if value is None:
            return b.null()
        if isinstance(value, str):
            return b.text(value)
        if isinstance(value, bool):
            return b.boolean(value)
        return b.integer(value) if isinstance(value, int) else b.number(value)

    def op(self, name: str, *args, outs) -> None:
        """Arguments are values already, or numbers in a tuple of one."""
        self.b.op(name, [*(self.number(a[0]) if isinstance(a, tuple) else a for a in args), outs])

    def built(self, **more) -> Built:
        return Built(self.b, [(self.arrays, self.expected)], **more)


@built
def quantized_by_tensor(rng):
    """All types, numbers of elements that are no whole quads, five dimensions; the halves between steps."""
    p = Program()
    for dtype, (low, high) in RANGES.items():
        for shape, source in (((3, 7), "float32"), ((2, 1, 3, 1, 5), "float16"), ((), "float32"), ((0, 4), "float32")):
            x = (hostile(rng, *shape) if len(shape) > 1 and 0 not in shape else floats(rng, *shape)).astype(source)
            q = quantize(x, 0.125, 5, low, high, dtype)
            scale, zero = p.b.constant(np.array([0.125], F32)), p.b.constant(np.array([5], np.int32))
            given, bounds = p.input(x), ((low,), (high,), (None,))
            p.op(f"{QD}.quantize_per_tensor.default", given, (0.125,), (5,), *bounds, outs=p.output(q, dtype))
            p.op(f"{QD}.quantize_per_tensor.tensor", given, scale, zero, *bounds, outs=p.output(q, dtype))
            back, given = dequantize(q, 0.125, 5), p.input(q.astype("int64" if dtype == "int32" else dtype))
            out = p.output(back, source)
            p.op(f"{QD}.dequantize_per_tensor.default", given, (0.125,), (5,), *bounds, (None,), outs=out)
            out = p.output(back, "float32")
            p.op(f"{QD}.dequantize_per_tensor.tensor", given, scale, zero, *bounds, (None,), outs=out)
    return p.built(rtol=1e-3, atol=1e-6)


@built
def quantized_by_channel_and_token(rng):
    """Every axis of odd and of even sizes; zero points absent."""
    p = Program()
    for shape, axis in (((3, 7, 4), 0), ((3, 7, 4), 1), ((2, 3, 8), -1), ((5,), 0), ((3, 8), 0)):
        scales = abs(floats(rng, shape[axis])) + F32(0.01)
        zeros = rng.integers(-20, 20, shape[axis])
        lined = [-1 if i == axis % len(shape) else 1 for i in range(len(shape))]
        x = floats(rng, *shape)
        q = quantize(x, scales.reshape(lined), zeros.reshape(lined))
        factors = p.b.constant(scales), p.b.constant(zeros.astype(np.int32))
        rest = (axis,), (-128,), (127,), (None,)
        p.op(f"{QD}.quantize_per_channel.default", p.input(x), *factors, *rest, outs=p.output(q))
        for given, back in (
            (factors[1], dequantize(q, scales.reshape(lined), zeros.reshape(lined))),
            (p.b.null(), dequantize(q, scales.reshape(lined))),
        ):
            name = f"{QD}.dequantize_per_channel.default"
            p.op(name, p.input(q), factors[0], given, *rest, (None,), outs=p.output(back))
    for shape in ((5, 12), (2, 3, 7), (4, 1)):
        x = floats(rng, *shape)
        scales, zeros = token_qparams(x)
        q = np.clip(np.round(x * (F32(1) / scales) + zeros.astype(F32)), -128, 127).astype(np.int8)
        factors = p.b.constant(scales), p.b.constant(zeros.astype(np.int32))
        rest = (-128,), (127,), (None,)
        p.op(f"{QD}.quantize_per_token.default", p.input(x), *factors, *rest, outs=p.output(q))
        back = p.output(dequantize(q, scales, zeros))
        p.op(f"{QD}.dequantize_per_token.default", p.input(q), *factors, *rest, (None,), outs=back)
    return p.built(rtol=1e-6)


def in_blocks(x, block) -> np.ndarray:
    """[blocks..., elements of a block]"""
    split = [n for size, part in zip(x.shape, block, strict=True) for n in (size // part, part)]
    order = [*range(0, 2 * x.ndim, 2), *range(1, 2 * x.ndim, 2)]
    return x.reshape(split).transpose(order).reshape(*(split[0::2]), -1)


def spread(by_block, block) -> np.ndarray:
    for axis, part in enumerate(block):
        by_block = np.repeat(by_block, part, axis)
    return by_block


BLOCKS = (
    ((6, 8), [1, 4]),
    ((6, 8), [2, 8]),
    ((6, 8), [3, 2]),
    ((6, 8), [6, 8]),
    ((6, 8), [1, 1]),
    ((4, 3, 10), [2, 3, 5]),
    ((2, 3, 4, 5), [1, 3, 1, 5]),
    ((3, 5), [3, 1]),
)


def mapped(seen, mapping, low, high, eps) -> tuple[np.ndarray, np.ndarray]:
    smallest, largest = np.minimum(seen.min(-1), F32(0)), np.maximum(seen.max(-1), F32(0))
    if mapping == "ASYMMETRIC":
        return qparams(smallest, largest, low, high, eps)
    scale = np.maximum(-smallest, largest) / F32((high - low) / 2)
    if mapping == "SYMMETRIC_NO_CLIPPING_ERR":
        scale = np.maximum(smallest / F32(low), largest / F32(high))
    return np.maximum(scale, F32(eps)), np.full(scale.shape, int((high + low + 1) / 2))


@built
def qparams_and_quantized_by_block(rng):
    """Blocks of all forms, runs and others: their parameters, and the numbers quantized with them and back."""
    p = Program()
    mappings = ("ASYMMETRIC", "SYMMETRIC", "SYMMETRIC_NO_CLIPPING_ERR")
    for number, (shape, block) in enumerate(BLOCKS):
        x = floats(rng, *shape) * F32(3)
        low, high = (-128, 127) if number % 2 else (-8, 7)
        mapping = mappings[number % 3]
        scale, zero = mapped(in_blocks(x, block), mapping, low, high, 1e-6)
        scale_id, zero_id = p.output(scale), p.output(zero.astype(np.int8))
        blocks, bounds = p.b.ints(block), ((low,), (high,))
        given = p.input(x)
        p.op(
            "torchao.choose_qparams_affine.default",
            given,
            (mapping,),
            blocks,
            (None,),
            *bounds,
            (1e-6,),
            (None,),
            (None,),
            (True,),
            outs=p.b.value_list([scale_id, zero_id]),
        )
        q = quantize(x, spread(scale, block), spread(zero, block), low, high)
        factors = scale_id, p.b.null() if mapping != "ASYMMETRIC" else zero_id
        name = "torchao.quantize_affine.default"
        p.op(name, given, blocks, *factors, (None,), *bounds, outs=p.output(q))
        back = p.output(dequantize(q, spread(scale, block), spread(zero, block)))
        p.op("torchao.dequantize_affine.default", p.input(q), blocks, *factors, (None,), *bounds, (None,), outs=back)
    return p.built(rtol=1e-5)


@built
def qparams_of_all_and_of_tokens(rng):
    """A long line, one with a NaN, one dimension, whole tensors."""
    p = Program()
    for shape in ((3, 7), (1, 70000), (40,), (2, 2, 2)):
        x = floats(rng, *shape)
        given = p.input(x)
        scale, zero = qparams(x.min(), x.max(), eps=1e-5)
        outs = p.b.value_list([p.output(scale.reshape(1)), p.output(zero.reshape(1), "int32")])
        p.op(f"{QD}.choose_qparams.tensor", given, (-128,), (127,), (1e-5,), (None,), outs=outs)
        scales, zeros = token_qparams(x)
        outs = p.b.value_list([p.output(scales), p.output(zeros, "int32")])
        p.op(f"{QD}.choose_qparams_per_token_asymmetric.default", given, (None,), outs=outs)
    return p.built(rtol=1e-6)


@built
def qparams_of_nan(rng):
    """A scale is no number where an element is none; the zero point may be anything."""
    p = Program()
    x = floats(rng, 6, 9)
    x[1, 3] = x[4, 8] = np.nan
    for block in ([1, 9], [3, 3]):
        seen = in_blocks(x, block)
        scale = np.where(np.isnan(seen).any(-1), np.nan, mapped(np.nan_to_num(seen), "ASYMMETRIC", -128, 127, 1e-6)[0])
        zero = p.b.tensor("int8", scale.shape)
        outs = p.b.value_list([p.output(scale.astype(F32)), zero])
        rest = (-128,), (127,), (1e-6,), (None,), (None,), (True,)
        name = "torchao.choose_qparams_affine.default"
        p.op(name, p.input(x), ("ASYMMETRIC",), p.b.ints(block), (None,), *rest, outs=outs)
    return p.built(rtol=1e-5)


@built
def bytes_one_by_one(rng):
    """Sums, with operands that are repeated; relu; pixels shuffled, with the same and with other steps."""
    p = Program()
    for left, right in (((3, 7), (3, 7)), ((2, 3, 8), (3, 1)), ((4, 5), (1,)), ((5,), (2, 1, 5))):
        a, c = bytes_of(rng, *left), bytes_of(rng, *right)
        total = dequantize(a, 0.03, 4) + F32(1.5) * dequantize(c, 0.05, -9)
        numbers = ((0.03,), (4,), (0.05,), (-9,), (0.11,), (7,), (1.5,))
        p.op("et_vk.q8ta_add.default", p.input(a), p.input(c), *numbers, outs=p.output(quantize(total, 0.11, 7)))
    x = bytes_of(rng, 3, 4, 2, 5)
    wanted = quantize(np.maximum(dequantize(x, 0.1, -3), 0), 0.07, 9)
    p.op("et_vk.q8ta_relu.default", p.input(x), (0.1,), (-3,), (0.07,), (9,), outs=p.output(wanted))
    shuffled = x.reshape(3, 1, 2, 2, 2, 5).transpose(0, 1, 4, 2, 5, 3).reshape(3, 1, 4, 10)
    for inverse, zero, wanted in ((10.0, -3, shuffled), (25.0, 6, quantize(dequantize(shuffled, 0.1, -3), 0.04, 6))):
        name = "et_vk.q8ta_pixel_shuffle.default"
        p.op(name, p.input(x), (0.1,), (-3,), (inverse,), (zero,), (2,), outs=p.output(wanted))
    # A sum that lies halfway between two steps may be rounded either way.
    return p.built(atol=1)


def exact(x, weight, zero) -> np.ndarray:
    return ((x.astype(np.int64) - zero) @ weight.T.astype(np.int64)).astype(F32)


@built
def products_of_bytes(rng):
    """Any depth, any width, padded weights, the largest sums; bytes, floats and halves as results."""
    p = Program()
    sizes = ((1, 64, 8), (5, 48, 12), (3, 37, 7), (6, 19, 4), (2, 5, 1), (1, 4097, 6), (9, 16, 20), (1, 70000, 4))
    for number, (rows, depth, columns) in enumerate(sizes):
        x, weight = bytes_of(rng, rows, depth), bytes_of(rng, columns, depth)
        x[0], weight[0] = -128, -128
        scales = (abs(floats(rng, columns)) + F32(0.1)) / F32(20 * depth)
        bias = floats(rng, columns)
        padding = 3 * (number % 2)
        constant = p.b.constant(np.pad(weight, ((0, 0), (0, padding))))
        factors = constant, p.b.null(), p.b.constant(np.pad(scales, (0, 4)))
        zero = 127 if number % 3 == 0 else -5
        y = exact(x, weight, zero) * (F32(0.02) * scales)
        given = p.input(x.reshape(1, rows, depth))
        dtype = "float16" if number in (2, 6) else "float32"
        bias_id = p.b.constant(bias)
        out = p.output((y + bias).reshape(1, rows, columns), dtype)
        p.op("et_vk.linear_q8ta_q8csw.default", given, (0.02,), (zero,), *factors, bias_id, outs=out)
        for name, activation, z in (
            ("q8ta_linear", "relu", np.maximum(y + bias, 0)),
            ("q8ta_linear_gemv", "none", y),
        ):
            out = p.output(quantize(z, 0.02, -4).reshape(1, rows, columns))
            added = bias_id if activation == "relu" else p.b.null()
            rest = (0.02,), (-4,), added, (activation,)
            p.op(f"et_vk.{name}.default", given, (0.02,), (zero,), *factors, *rest, outs=out)
    return p.built(rtol=2e-3, atol=1)


@built
def products_of_bytes_exactly(rng):
    """Steps of powers of two: every sum is a whole number of them."""
    p = Program()
    for rows, depth, columns in ((7, 100, 5), (4, 64, 8), (1, 33, 9)):
        x, weight = bytes_of(rng, rows, depth), bytes_of(rng, columns, depth)
        factors = p.b.constant(weight), p.b.null(), p.b.constant(np.full(columns, 0.5, F32)), p.b.null()
        wanted = exact(x, weight, 3) * F32(0.125)
        p.op("et_vk.linear_q8ta_q8csw.default", p.input(x), (0.25,), (3,), *factors, outs=p.output(wanted))
    return p.built()


@built
def products_with_live_rows(rng):
    b = Blob()
    weight, scales = bytes_of(rng, 6, 20), abs(floats(rng, 6)) / F32(100) + F32(0.001)
    x, out, rounded = b.tensor("int8", [1, 9, 20]), b.tensor("float32", [1, 9, 6]), b.tensor("int8", [1, 9, 6])
    factors = [b.number(0.25), b.integer(3), b.constant(weight), b.null(), b.constant(scales)]
    b.op("et_vk.linear_q8ta_q8csw.default", [x, *factors, b.null(), out])
    b.op("et_vk.q8ta_linear.default", [x, *factors, b.number(0.5), b.integer(1), b.null(), b.text("none"), rounded])
    b.inputs, b.outputs = [x], [out, rounded]
    calls = []
    for rows in (9, 1, 4, 0, 5):
        a = bytes_of(rng, 1, rows, 20)
        y = exact(a, weight, 3) * (F32(0.25) * scales)
        calls.append(([a], [y, quantize(y, 0.5, 1)]))
    return Built(b, calls, dynamic=True, rtol=1e-6, atol=1)


@built
def floats_times_bytes(rng):
    """With a bias and without, rounded before and not, half precision, any rank."""
    p = Program()
    for shape, columns, dtype in (((2, 3, 20), 12, "float32"), ((1, 33), 7, "float32"), ((4, 16), 6, "float16")):
        x, weight = floats(rng, *shape).astype(dtype), bytes_of(rng, columns, shape[-1])
        scales, bias = (abs(floats(rng, columns)) / F32(100)).astype(dtype), floats(rng, columns)
        factors = p.b.constant(weight), p.b.constant(scales)
        given, bias_id = p.input(x), p.b.constant(bias)
        y = product(x, weight) * scales.astype(F32)
        p.op("aten._weight_int8pack_mm.default", given, *factors, outs=p.output(y, dtype))
        p.op("et_vk.linear_q8csw.default", given, *factors, bias_id, outs=p.output(y + bias, dtype))
        rounded = dequantize(quantize(x, 0.05, 3), 0.05, 3)
        z = product(rounded, weight) * scales.astype(F32) + bias
        numbers = (0.05,), (3,)
        out = p.output(z, dtype)
        name = "et_vk.linear_q8ta_q8csw.default"
        p.op(name, given, *numbers, factors[0], p.b.null(), factors[1], bias_id, outs=out)
    return p.built(rtol=2e-3, atol=1e-2)
