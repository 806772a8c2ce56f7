"""The cases: at least one program for every choice between kernels, with what it gives in NumPy."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from .program import Id, Program

F32 = np.float32


@dataclass(frozen=True)
class Case:
    name: str
    program: Program
    tolerance: float  # of floats, as a part of what is usual; integers may differ by one


_BUILDERS: dict[str, tuple[Callable[[np.random.Generator], Program], float]] = {}


def case(name: str, tolerance: float = 1e-4):
    def keep(build: Callable[[np.random.Generator], Program]):
        _BUILDERS[name] = build, tolerance
        return build

    return keep


def names() -> list[str]:
    return list(_BUILDERS)


def cases() -> Iterator[Case]:
    """They are the same every time, whichever of them are made."""
    for number, (name, (build, tolerance)) in enumerate(_BUILDERS.items()):
        yield Case(name, build(np.random.default_rng(number)), tolerance)


def floats(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape, F32)


def _nibbles(packed: np.ndarray) -> np.ndarray:
    """The low one of a byte comes first."""
    return np.stack([packed & 15, packed >> 4], -1).reshape(*packed.shape[:-1], -1).astype(np.float64) - 8


def _table(rng: np.random.Generator, rows: int, width: int, group: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Packed weights, scales by row and group, and the weights as numbers."""
    packed = rng.integers(0, 256, (rows, width // 2), np.uint8)
    scales = rng.random((rows, width // group), F32) - F32(0.5)
    return packed, scales, _nibbles(packed) * np.repeat(scales, group, -1)


# --- look-ups ---


def _embedding(rng, width: int) -> Program:
    p = Program()
    weight, ids = floats(rng, 300, width), rng.integers(0, 300, (2, 40), np.int32)
    p.op("aten.embedding.default", p.constant(weight), p.input(ids), (-1,), (False,), (False,), p.output(weight[ids]))
    return p


case("embedding", 0)(lambda rng: _embedding(rng, 256))
case("embedding, odd width", 0)(lambda rng: _embedding(rng, 37))


def _embedding_q4(rng, width: int, group: int) -> Program:
    p = Program()
    packed, scales, weight = _table(rng, 300, width, group)
    ids = rng.integers(0, 300, (128,), np.int32)
    given = p.constant(packed), p.constant(scales), (group,), p.input(ids), (True,)
    p.op("et_vk.embedding_q4gsw.default", *given, p.output(weight[ids].astype(F32)))
    return p


case("embedding, 4-bit", 1e-6)(lambda rng: _embedding_q4(rng, 512, 32))
case("embedding, 4-bit, small groups", 1e-6)(lambda rng: _embedding_q4(rng, 60, 6))

# --- products ---


def _mm(rng, rows: int, depth: int, columns: int) -> Program:
    p = Program()
    x, weight = floats(rng, rows, depth), floats(rng, columns, depth)
    wanted = (x.astype(np.float64) @ weight.T).astype(F32)
    p.op("aten.linear.default", p.input(x), p.constant(weight), None, p.output(wanted))
    return p


case("product, one row")(lambda rng: _mm(rng, 1, 256, 512))
case("product, many rows")(lambda rng: _mm(rng, 96, 192, 128))
case("product, odd sizes")(lambda rng: _mm(rng, 13, 37, 51))


@case("product, two inputs of any size")
def _bmm(rng) -> Program:
    p = Program(dynamic=True)
    a, b = floats(rng, 1, 12, 16), floats(rng, 1, 16, 20)
    p.op("aten.bmm.default", p.input(a), p.input(b), p.output((a.astype(np.float64) @ b).astype(F32)))
    return p


def _linear_q4(rng, rows: int, depth: int, columns: int, group: int) -> Program:
    p = Program()
    packed, scales, weight = _table(rng, columns, depth, group)
    x = floats(rng, rows, depth)
    factors = p.constant(packed), p.constant(np.ascontiguousarray(scales.T)), (group,), None
    p.op("et_vk.linear_q4gsw.default", p.input(x), *factors, p.output((x @ weight.T).astype(F32)))
    return p


case("product, 4-bit, one row")(lambda rng: _linear_q4(rng, 1, 512, 512, 32))
case("product, 4-bit, many rows")(lambda rng: _linear_q4(rng, 64, 256, 160, 64))
case("product, 4-bit, small groups")(lambda rng: _linear_q4(rng, 9, 72, 20, 12))


def _bytes(rng, *shape: int) -> np.ndarray:
    return rng.integers(-128, 128, shape, np.int8)


def _linear_i8(rng, rows: int, depth: int, columns: int) -> Program:
    p = Program()
    x, weight = _bytes(rng, rows, depth), _bytes(rng, columns, depth)
    # Steps are powers of two: sums are exact.
    factors = p.constant(weight), None, p.constant(np.full(columns, 0.5, F32)), None
    wanted = ((x.astype(np.int64) - 3) @ weight.astype(np.int64).T).astype(F32) * F32(0.125)
    p.op("et_vk.linear_q8ta_q8csw.default", p.input(x), (0.25,), (3,), *factors, p.output(wanted))
    return p


case("product of bytes, one row", 1e-6)(lambda rng: _linear_i8(rng, 1, 256, 128))
case("product of bytes, many rows", 1e-6)(lambda rng: _linear_i8(rng, 40, 128, 64))
case("product of bytes, odd sizes", 1e-6)(lambda rng: _linear_i8(rng, 7, 33, 9))

# --- convolutions and windows ---


def _windows(x: np.ndarray, size: int) -> np.ndarray:
    """[batch, channel, row, column, size, size], with a border of zeros that keeps the picture's size."""
    edge = size // 2
    padded = np.pad(x, [(0, 0), (0, 0), (edge, edge), (edge, edge)])
    return np.lib.stride_tricks.sliding_window_view(padded, (size, size), (2, 3))


def _convolution(rng, channels: int, filters: int, size: int, groups: int, width: int = 20) -> Program:
    p = Program()
    x, weight = floats(rng, 1, channels, 18, width), floats(rng, filters, channels // groups, size, size)
    seen = _windows(x.astype(np.float64), size)
    form = "nchwij,ocij->nohw" if groups == 1 else "nohwij,ocij->nohw"
    wanted = np.einsum(form, seen, weight.astype(np.float64)).astype(F32)
    rest = [1, 1], [size // 2] * 2, [1, 1], (False,), [0, 0], (groups,)
    p.op("aten.convolution.default", p.input(x), p.constant(weight), None, *rest, p.output(wanted))
    return p


case("convolution, 1x1")(lambda rng: _convolution(rng, 32, 48, 1, 1))
case("convolution, 3x3")(lambda rng: _convolution(rng, 8, 12, 3, 1))
case("convolution by channel")(lambda rng: _convolution(rng, 16, 16, 3, 16))
case("convolution by channel, odd width")(lambda rng: _convolution(rng, 6, 6, 3, 6, 19))


def _convolution_i8(rng, channels: int, filters: int, width: int) -> Program:
    p = Program()
    x, weight = _bytes(rng, 1, channels, 10, width), _bytes(rng, filters, channels, 3, 3)
    zero, out_zero, out_scale = 5, -7, 2.0**-4
    scales = np.full(filters, 2.0**-9, F32)
    sums = np.einsum("nchwij,ocij->nohw", _windows(x.astype(np.int64) - zero, 3), weight.astype(np.int64))
    real = sums * (0.5 * scales[0])
    wanted = np.clip(np.round(real / out_scale) + out_zero, -128, 127).astype(np.int8)
    rows = np.moveaxis(weight, 1, -1).reshape(filters, -1)
    rows = np.pad(rows, [(0, 0), (0, -rows.shape[1] % 4)])
    given = p.input(x), (0.5,), (zero,), p.constant(rows), None, p.constant(scales), (out_scale,), (out_zero,), None
    rest = [3, 3], [1, 1], [1, 1], [1, 1], (1,), ("none",)
    p.op("et_vk.q8ta_conv2d.default", *given, *rest, p.output(wanted))
    return p


case("convolution of bytes")(lambda rng: _convolution_i8(rng, 8, 16, 12))
case("convolution of bytes, odd sizes")(lambda rng: _convolution_i8(rng, 3, 5, 9))


@case("mean of windows", 1e-5)
def _avg_pool(rng) -> Program:
    p = Program()
    x = floats(rng, 1, 6, 24, 32)
    wanted = x.reshape(1, 6, 12, 2, 16, 2).mean((3, 5), dtype=np.float64).astype(F32)
    rest = [2, 2], [2, 2], [0, 0], (False,), (True,), None
    p.op("aten.avg_pool2d.default", p.input(x), *rest, p.output(wanted))
    return p


# --- lines ---


def _softmax(rng, *shape: int) -> Program:
    p = Program()
    x = floats(rng, *shape)
    raised = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    wanted = (raised / raised.sum(-1, keepdims=True)).astype(F32)
    p.op("aten._softmax.default", p.input(x), (-1,), (False,), p.output(wanted))
    return p


case("softmax, many lines")(lambda rng: _softmax(rng, 200, 64))
case("softmax, long lines")(lambda rng: _softmax(rng, 2, 6000))
case("softmax, odd lines")(lambda rng: _softmax(rng, 30, 77))


@case("layer norm")
def _layer_norm(rng) -> Program:
    p = Program()
    x, weight, bias = floats(rng, 16, 384), floats(rng, 384), floats(rng, 384)
    wide = x.astype(np.float64)
    root = np.sqrt(wide.var(-1, keepdims=True) + 1e-5)
    mean = wide.mean(-1, keepdims=True)
    wanted = ((wide - mean) / root * weight + bias).astype(F32)
    factors = p.constant(weight), p.constant(bias), (1e-5,)
    outs = p.values(p.output(wanted), p.output(mean.astype(F32)), p.output((1 / root).astype(F32)))
    p.op("aten.native_layer_norm.default", p.input(x), [384], *factors, outs)
    return p


def _sum(rng, dims: list[int], *shape: int) -> Program:
    p = Program()
    x = floats(rng, *shape) + F32(1)
    wanted = x.sum(tuple(dims), dtype=np.float64).astype(F32)
    p.op("aten.sum.dim_IntList", p.input(x), dims, (False,), None, p.output(wanted))
    return p


case("sums of lines")(lambda rng: _sum(rng, [2], 4, 8, 500))
case("sums over several dimensions")(lambda rng: _sum(rng, [0, 2], 20, 9, 400))


@case("steps of rows", 1e-5)
def _choose_qparams(rng) -> Program:
    p = Program()
    x = floats(rng, 24, 320)
    least, most = np.minimum(x.min(-1, keepdims=True), F32(0)), np.maximum(x.max(-1, keepdims=True), F32(0))
    scale = np.maximum((most - least) / F32(255), np.finfo(F32).eps)
    low, high = least / scale, most / scale
    zero = np.where((F32(-128) + low) + (F32(127) + high) > 0, F32(-128) - low, F32(127) - high)
    outs = p.values(p.output(scale), p.output(np.round(np.clip(zero, -128, 127)).astype(np.int32)))
    p.op("quantized_decomposed.choose_qparams_per_token_asymmetric.default", p.input(x), None, outs)
    return p


# --- elements ---


def _add(rng, left: tuple[int, ...], right: tuple[int, ...], dynamic: bool = False) -> Program:
    p = Program(dynamic)
    a, b = floats(rng, *left), floats(rng, *right)
    p.op("aten.add.Tensor", p.input(a), p.input(b), (1,), p.output(a + b))
    return p


case("sum of two", 1e-6)(lambda rng: _add(rng, (8, 24, 64), (8, 24, 64), dynamic=True))
case("sum with a row", 1e-6)(lambda rng: _add(rng, (8, 24, 64), (64,)))
case("sum with a column", 1e-6)(lambda rng: _add(rng, (8, 24, 33), (24, 1)))


def _permute(rng, order: list[int], *shape: int) -> Program:
    p = Program()
    x = floats(rng, *shape)
    p.op("aten.permute_copy.default", p.input(x), order, p.output(np.ascontiguousarray(x.transpose(order))))
    return p


case("transposed", 0)(lambda rng: _permute(rng, [1, 0], 64, 96))
case("dimensions in another order", 0)(lambda rng: _permute(rng, [0, 2, 1, 3], 2, 12, 8, 64))


@case("one after another", 0)
def _cat(rng) -> Program:
    p = Program()
    a, b = floats(rng, 6, 10, 64), floats(rng, 6, 22, 64)
    p.op("aten.cat.default", p.values(p.input(a), p.input(b)), (1,), p.output(np.concatenate([a, b], 1)))
    return p


# --- attention ---


def _attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, bias=0.0) -> np.ndarray:
    """Of [batch, head, row, element]; query heads share key heads."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = np.einsum("bhre,bhke->bhrk", q, k) / np.sqrt(q.shape[-1]) + bias
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return (np.einsum("bhrk,bhke->bhre", weights, v) / weights.sum(-1, keepdims=True)).astype(F32)


def _sdpa(rng, rows: int, keys: int, size: int, dynamic: bool = False) -> Program:
    p = Program(dynamic)
    q, k, v = floats(rng, 1, 4, rows, size), floats(rng, 1, 4, keys, size), floats(rng, 1, 4, keys, size)
    p.op("et_vk.sdpa.default", p.input(q), p.input(k), p.input(v), None, None, p.output(_attention(q, k, v)))
    return p


case("attention")(lambda rng: _sdpa(rng, 40, 40, 32))
case("attention, odd sizes")(lambda rng: _sdpa(rng, 9, 21, 13))


def _start(p: Program, position: int) -> Id:
    start = p.symint()
    p.op("et_vk.select_as_symint.default", p.input(np.array([position], np.int32)), (0,), (0,), start)
    return start


def _cached(rng, rows: int, start: int) -> Program:
    """New rows go into a cache that has earlier ones."""
    p = Program(dynamic=True)
    caches = [floats(rng, 1, 400, 2, 64) for _ in range(2)]
    begin = _start(p, start)
    q, k, v = floats(rng, 1, rows, 8, 64), floats(rng, 1, rows, 2, 64), floats(rng, 1, rows, 2, 64)
    ids = [p.constant(cache, mem_obj=i) for i, cache in enumerate(caches)]
    for cache, new in zip(caches, (k, v), strict=True):
        cache[:, start : start + rows] = new
    keys = start + rows
    bias = np.where(np.arange(keys) <= start + np.arange(rows)[:, None], 0, -np.inf)
    made = _attention(*(x.swapaxes(1, 2) for x in (q, caches[0][:, :keys], caches[1][:, :keys])), bias)
    given = p.input(q), p.input(k), p.input(v), *ids, begin, (1,), None, (0,), None, None
    p.op("sdpa_with_kv_cache.default", *given, p.output(np.ascontiguousarray(made.swapaxes(1, 2))))
    return p


case("attention over a cache, one row")(lambda rng: _cached(rng, 1, 350))
case("attention over a cache, many rows")(lambda rng: _cached(rng, 32, 100))
case("attention, one row, many keys")(lambda rng: _sdpa(rng, 1, 600, 32, dynamic=True))

# --- tokens ---


@case("likeliest tokens")
def _candidates(rng) -> Program:
    p = Program()
    a, b = floats(rng, 1, 3, 6001), floats(rng, 1, 3, 6001)
    logits = a + b
    p.op("aten.add.Tensor", p.input(a), p.input(b), (1,), p.output(logits))
    last = logits[0, -1]
    ids = np.argsort(-last, kind="stable")[:40].astype(np.int32)
    total = np.exp(last.astype(np.float64) - last.max()).sum(keepdims=True).astype(F32)
    p.options, p.added = {"candidates": len(ids)}, [last[ids], ids, total]
    return p
