"""Convolutions: as the exporter writes them, and built by hand what it leaves to others."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from conformance.blob_cases import Built
from conformance.case import Case
from support.vk00 import Blob

Dim = torch.export.Dim


def floats(rng, *shape) -> np.ndarray:
    return np.asarray(rng.uniform(-1, 1, shape), np.float32)


@dataclass(frozen=True)
class Filter:
    """One convolution; lists have an entry for each dimension, or one for all."""

    columns: int
    kernel: tuple[int, ...]
    stride: tuple[int, ...] = (1,)
    padding: tuple[int, ...] = (0,)
    dilation: tuple[int, ...] = (1,)
    groups: int = 1
    transposed: bool = False
    extra: tuple[int, ...] = (0,)
    bias: bool = True
    bounds: tuple[float | None, float | None] | None = None

    def list(self, name: str) -> list[int]:
        values = getattr(self, name)
        return list(values) if len(values) == len(self.kernel) else list(values) * len(self.kernel)

    def weight_shape(self, channels: int) -> tuple[int, ...]:
        if self.transposed:
            return channels, self.columns // self.groups, *self.kernel
        return self.columns, channels // self.groups, *self.kernel

    def on_torch(self, x, weight, bias):
        arguments = [self.list(name) for name in ("stride", "padding", "dilation")]
        y = torch.ops.aten.convolution(x, weight, bias, *arguments, self.transposed, self.list("extra"), self.groups)
        return torch.clamp(y, *self.bounds) if self.bounds else y

    def on_numpy(self, x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
        """By taps, in float64 and rounded once."""
        x64, w64 = x.astype(np.float64), weight.astype(np.float64)
        y = self._transposed(x64, w64) if self.transposed else self._plain(x64, w64)
        if bias is not None:
            y += bias.astype(np.float64).reshape(1, -1, *[1] * len(self.kernel))
        if self.bounds:
            y = np.clip(y, *self.bounds)
        return y.astype(x.dtype)

    def _taps(self):
        return itertools.product(*map(range, self.kernel))

    def _grouped(self, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """x [batch, channels, ...] times weight [columns, channels of a group]."""
        parts = zip(np.split(x, self.groups, 1), np.split(weight, self.groups, 0), strict=True)
        return np.concatenate([np.einsum("bc...,oc->bo...", a, w) for a, w in parts], 1)

    def _plain(self, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
        padding, stride, dilation = (self.list(name) for name in ("padding", "stride", "dilation"))
        padded = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)])
        moves = list(zip(self.kernel, stride, dilation, strict=True))
        sizes = [(n - d * (k - 1) - 1) // s + 1 for n, (k, s, d) in zip(padded.shape[2:], moves, strict=True)]
        total = np.zeros((x.shape[0], self.columns, *sizes))
        for tap in self._taps():
            at = [slice(t * d, t * d + (n - 1) * s + 1, s) for t, n, (_, s, d) in zip(tap, sizes, moves, strict=True)]
            total += self._grouped(padded[(slice(None), slice(None), *at)], weight[(slice(None), slice(None), *tap)])
        return total

    def _transposed(self, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
        padding, stride, dilation, extra = (self.list(name) for name in ("padding", "stride", "dilation", "extra"))
        moves = list(zip(self.kernel, stride, dilation, extra, strict=True))
        sizes = [(n - 1) * s + d * (k - 1) + e + 1 for n, (k, s, d, e) in zip(x.shape[2:], moves, strict=True)]
        total = np.zeros((x.shape[0], self.columns, *sizes))
        for tap in self._taps():
            at = [
                slice(t * d, t * d + (n - 1) * s + 1, s)
                for t, n, (_, s, d, _) in zip(tap, x.shape[2:], moves, strict=True)
            ]
            parts = zip(np.split(x, self.groups, 1), np.split(weight[(..., *tap)], self.groups, 0), strict=True)
            total[(slice(None), slice(None), *at)] += np.concatenate(
                [np.einsum("bc...,co->bo...", a, w) for a, w in parts], 1
            )
        cut = [slice(p, n - p) for p, n in zip(padding, sizes, strict=True)]
        return total[(slice(None), slice(None), *cut)]


def convolution_case(name, shape, filters, *, dynamic=None, shapes=None, atol=2e-5, **more) -> Case:
    """Several convolutions of one input, in one program."""

    def on_torch(m, x):
        return tuple(
            f.on_torch(x, getattr(m, f"weight{i}"), getattr(m, f"bias{i}") if f.bias else None)
            for i, f in enumerate(filters)
        )

    def on_numpy(m, x):
        return tuple(
            f.on_numpy(x, getattr(m, f"weight{i}"), getattr(m, f"bias{i}") if f.bias else None)
            for i, f in enumerate(filters)
        )

    def buffers(rng):
        made = {}
        for i, f in enumerate(filters):
            made[f"weight{i}"] = floats(rng, *f.weight_shape(shape[1]))
            if f.bias:
                made[f"bias{i}"] = floats(rng, f.columns)
        return made

    return Case(
        name=name,
        torch=on_torch,
        numpy=on_numpy,
        calls=lambda rng: [(floats(rng, *one),) for one in (shapes or [shape])],
        buffers=buffers,
        dynamic=dynamic,
        rtol=1e-5,
        atol=atol,
        **more,
    )


PLANAR = [
    Filter(6, (3, 3), padding=(1,)),
    Filter(5, (3, 3), stride=(2,), padding=(1,), bias=False),
    Filter(8, (1, 1)),
    Filter(7, (1, 1), stride=(2,), padding=(1,)),
    Filter(4, (5, 2), (2, 3), (2, 0), (1, 2)),
    Filter(8, (3, 3), (1,), (2,), (2,), groups=2),
    Filter(8, (3, 3), padding=(1,), groups=8),
    Filter(16, (3, 2), (2, 1), (1, 1), groups=8, bias=False),
    Filter(3, (7, 7), padding=(3,), bounds=(0.0, 6.0)),
]
TRANSPOSED = [
    Filter(5, (3, 3), (2,), (1,), transposed=True, extra=(1,)),
    Filter(4, (2, 2), (2,), transposed=True),
    Filter(6, (3, 2), (1, 3), (0, 1), (2, 1), groups=2, transposed=True, extra=(0, 2), bias=False),
    Filter(8, (4, 4), (2,), (1,), groups=8, transposed=True),
    Filter(3, (1, 1), transposed=True),
]
LINEAR = [
    Filter(6, (3,), padding=(1,)),
    Filter(4, (1,)),
    Filter(12, (5,), (2,), (2,), groups=12),
    Filter(9, (4,), (3,), (3,), (2,), groups=3, bias=False),
]
ALL = [
    convolution_case("convolution", (1, 8, 11, 13), PLANAR),
    convolution_case("convolution_even", (1, 8, 8, 12), PLANAR[:3] + PLANAR[6:7]),
    convolution_case("convolution_odd_channels", (1, 3, 9, 10), [Filter(4, (3, 3), (2,), (1,)), Filter(2, (1, 1))]),
    convolution_case("convolution_transposed", (1, 8, 5, 6), TRANSPOSED),
    convolution_case("convolution_line", (2, 12, 17), LINEAR),
    convolution_case(
        "convolution_dynamic",
        (1, 4, 12, 15),
        [PLANAR[0], PLANAR[1], Filter(4, (1, 1)), Filter(4, (3, 3), padding=(1,), groups=4)],
        dynamic=({2: Dim("height", min=3, max=20), 3: Dim("width", min=3, max=24)},),
        shapes=[(1, 4, 12, 15), (1, 4, 20, 24), (1, 4, 3, 3), (1, 4, 8, 8)],
    ),
    convolution_case("convolution_half", (1, 8, 6, 7), PLANAR, options={"force_fp16": True}, atol=6e-2),
]

# What the stock partitioner leaves outside: batches, transposed lines. And all of it in float16, odd widths among them.
BUILDERS: dict[str, Callable[[np.random.Generator], Built]] = {}


def write(b: Blob, f: Filter, x: int, weight: int, bias: int | None, out: int, other_types: bool) -> None:
    lists = [b.ints(f.list(name)) for name in ("stride", "padding", "dilation")]
    transposed = b.integer(int(f.transposed)) if other_types else b.boolean(f.transposed)
    rest = [transposed, b.ints(f.list("extra")), b.number(float(f.groups)) if other_types else b.integer(f.groups)]
    name = "aten.convolution.default"
    if f.bounds:
        name = "et_vk.conv_with_clamp.default"
        rest += [b.null() if bound is None else b.number(bound) for bound in f.bounds]
    b.op(name, [x, weight, b.null() if bias is None else bias, *lists, *rest, out])


def built(
    name: str,
    dtype: str,
    shape: tuple[int, ...],
    filters: list[Filter],
    shapes=None,
    constant=True,
    other_types=False,
) -> None:
    def builder(rng):
        b = Blob()
        x = b.tensor(dtype, shape)
        b.inputs = [x]
        weights = []
        for f in filters:
            weight = floats(rng, *f.weight_shape(shape[1])).astype(dtype)
            bias = floats(rng, f.columns).astype(dtype) if f.bias else None
            out = b.tensor(dtype, f.on_numpy(np.zeros(shape, np.float32), weight, None).shape)
            weight_id = b.constant(weight) if constant else b.tensor(dtype, weight.shape)
            if not constant:
                b.inputs.append(weight_id)
            write(b, f, x, weight_id, None if bias is None else b.constant(bias), out, other_types)
            b.outputs.append(out)
            weights.append((weight, bias))
        calls = []
        for one in shapes or [shape, shape]:
            given = floats(rng, *one).astype(dtype)
            wanted = [f.on_numpy(given, *w) for f, w in zip(filters, weights, strict=True)]
            calls.append(([given, *([] if constant else [w for w, _ in weights])], wanted))
        tolerance = 2e-5 if dtype == "float32" else 3e-3
        return Built(b, calls, dynamic=shapes is not None, rtol=tolerance, atol=4 * tolerance)

    BUILDERS[name] = builder


built("convolution_batches", "float32", (3, 8, 6, 5), PLANAR)
built("convolution_batches_half", "float16", (2, 8, 7, 5), PLANAR)
built("convolution_even_half", "float16", (2, 8, 4, 8), [PLANAR[0], PLANAR[2], PLANAR[6]])
built("convolution_transposed_half", "float16", (2, 8, 3, 5), TRANSPOSED)
built("convolution_transposed_line", "float32", (2, 8, 7), [Filter(6, (4,), (3,), (1,), transposed=True, extra=(2,))])
built(
    "convolution_live",
    "float16",
    (3, 8, 9, 12),
    [PLANAR[0], PLANAR[2], PLANAR[3], PLANAR[6], PLANAR[8]],
    shapes=[(3, 8, 9, 12), (1, 8, 3, 3), (2, 8, 5, 8), (0, 8, 4, 4)],
)
built("convolution_live_weights", "float32", (2, 6, 5, 6), [Filter(4, (3, 3), padding=(1,))], constant=False)
# The exporter writes equal scalars once, so a number of groups may come as a double and a truth value as an integer.
built(
    "convolution_numbers_of_the_other_type",
    "float32",
    (1, 8, 6, 5),
    [PLANAR[0], PLANAR[2], PLANAR[5], TRANSPOSED[0], TRANSPOSED[2]],
    other_types=True,
)
built("convolution_of_nothing", "float32", (0, 4, 5, 5), [Filter(4, (3, 3)), Filter(4, (3, 3), groups=4)])


def built_bytes(name: str, shape: tuple[int, ...], filters: list[Filter], shapes=None) -> None:
    """Each filter on one input of bytes, with and without a relu."""

    def builder(rng):
        b = Blob()
        x = b.tensor("int8", shape)
        given = [rng.integers(-128, 128, one, np.int8) for one in shapes or [shape]]
        wanted = [[] for _ in given]
        for i, f in enumerate(filters):
            zero, scale, out_scale, out_zero = 5 - 3 * i, 0.03, 0.11, 2 * i - 7
            weight = rng.integers(-127, 128, f.weight_shape(shape[1]), np.int8)
            scales, bias = abs(floats(rng, f.columns)) / 100, floats(rng, f.columns) if f.bias else None
            line = (1, -1, 1, 1)
            for one, results in zip(given, wanted, strict=True):
                sums = f.on_numpy((one.astype(np.int64) - zero).astype(np.float64), weight, None)
                y = sums.astype(np.float32) * (np.float32(scale) * scales).reshape(line)
                y += 0 if bias is None else bias.reshape(line)
                y = np.maximum(y, 0) if i % 2 else y
                results.append(np.clip(np.round(y / np.float32(out_scale)) + out_zero, -128, 127).astype(np.int8))
            numbers = (scale, zero, out_scale, out_zero, "relu" if i % 2 else "none")
            write_bytes(
                b, f, x, shape[1], weight, scales, bias, numbers, f.on_numpy(np.zeros(shape), weight, None).shape
            )
        b.inputs = [x]
        calls = [([one], results) for one, results in zip(given, wanted, strict=True)]
        # A sum that lies halfway between two steps may be rounded either way.
        return Built(b, calls, dynamic=shapes is not None, atol=1)

    BUILDERS[name] = builder


def write_bytes(b: Blob, f: Filter, x: int, channels: int, weight, scales, bias, numbers, shape) -> None:
    """Weights lie as [columns, (kernel, channels)] with some bytes after each row; those of one channel otherwise."""
    scale, zero, out_scale, out_zero, activation = numbers
    per_group = channels // f.groups
    if f.transposed:
        weight = weight.reshape(f.groups, per_group, f.columns // f.groups, *f.kernel)
        weight = np.swapaxes(weight, 1, 2).reshape(f.columns, per_group, *f.kernel)
    is_depthwise = per_group == 1 and not f.transposed
    rows = np.moveaxis(weight, 1, -1).reshape(f.columns, -1)
    rows = np.pad(rows, [(0, 0), (0, -rows.shape[1] % 4)])
    stored = np.ascontiguousarray(np.moveaxis(weight[:, 0], 0, -1)) if is_depthwise else rows
    out = b.tensor("int8", shape)
    b.outputs.append(out)
    lists = [b.ints(f.list(name)) for name in ("stride", "padding", *(["extra"] if f.transposed else []), "dilation")]
    kind = "_transposed" if f.transposed else "_dw" if is_depthwise else "_pw" if f.kernel == (1, 1) else ""
    b.op(
        f"et_vk.q8ta_conv2d{kind}.default",
        [
            *(x, b.number(scale), b.integer(zero), b.constant(stored), b.null(), b.constant(scales)),
            *(b.number(out_scale), b.integer(out_zero), b.null() if bias is None else b.constant(bias)),
            *(b.ints(f.kernel), *lists, b.integer(f.groups), b.text(activation), out),
        ],
    )


built_bytes("convolution_of_bytes", (2, 8, 7, 9), PLANAR[:8])
built_bytes("convolution_of_bytes_transposed", (1, 8, 4, 5), TRANSPOSED)
