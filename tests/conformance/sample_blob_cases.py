"""Ops on images that the exporter will not emit, or not with these arguments."""

import itertools

import numpy as np
import torch
from torch.nn.functional import adaptive_avg_pool2d, avg_pool2d, grid_sample, interpolate, max_pool2d

from conformance.blob_cases import Built, floats
from conformance.channel_cases import numpy_batch_norm, numpy_group_norm
from conformance.sample_cases import (
    numpy_adaptive,
    numpy_avg,
    numpy_max,
    numpy_resize,
    numpy_sample,
    pair,
)
from support.vk00 import Blob

BUILDERS = {}


def built(builder):
    BUILDERS[builder.__name__] = builder
    return builder


def agreed(by_torch, by_numpy: np.ndarray, tolerance: float = 1e-5) -> np.ndarray:
    """What both come to."""
    np.testing.assert_allclose(by_numpy, by_torch.numpy(), tolerance, tolerance)
    return by_numpy


class Program:
    """A blob with one call that grows op by op."""

    def __init__(self) -> None:
        self.b = Blob()
        self.given: list[np.ndarray] = []
        self.wanted: list[np.ndarray] = []

    def input(self, array: np.ndarray) -> int:
        self.b.inputs.append(self.b.tensor(array.dtype.name, array.shape))
        self.given.append(array)
        return self.b.inputs[-1]

    def output(self, array: np.ndarray) -> int:
        """The caller has integers of 64 bits where the program has 32."""
        dtype = "int32" if array.dtype == np.int64 else array.dtype.name
        self.b.outputs.append(self.b.tensor(dtype, array.shape))
        self.wanted.append(array)
        return self.b.outputs[-1]

    def built(self, tolerance: float = 0.0) -> Built:
        return Built(self.b, [(self.given, self.wanted)], rtol=tolerance)


# --- windows ---


def add_avg(p: Program, x: np.ndarray, kernel, stride=(), padding=(0,), ceil=False, counts=True, divisor=None) -> None:
    """Lists as they are written: of two items, one or, for the stride, none."""
    kinds = [tuple(v) if len(v) == 2 else v[0] if v else None for v in (kernel, stride, padding)]
    wanted = numpy_avg(x, *kinds, ceil, counts, divisor)
    agreed(avg_pool2d(torch.tensor(x), *kinds, ceil, counts, divisor), wanted, 1e-2 if x.dtype == np.float16 else 1e-5)
    b = p.b
    last = b.null() if divisor is None else b.integer(divisor)
    lists = [b.ints(v) for v in (kernel, stride, padding)]
    b.op("aten.avg_pool2d.default", [p.input(x), *lists, b.boolean(ceil), b.boolean(counts), last, p.output(wanted)])


def add_max(p: Program, x: np.ndarray, kernel, stride, padding, dilation, ceil=False, results="both") -> None:
    values, places = numpy_max(x, *map(pair, (kernel, stride, padding, dilation)), ceil)
    by_torch = max_pool2d(torch.tensor(x), kernel, stride, padding, dilation, ceil, return_indices=True)
    agreed(by_torch[0], values)
    agreed(by_torch[1], places)
    b = p.b
    args = [p.input(x), *(b.ints(pair(v)) for v in (kernel, stride, padding, dilation)), b.boolean(ceil)]
    if results == "one":
        b.op("aten.max_pool2d.default", [*args, p.output(values)])
        return
    outs = [p.output(values) if results != "places" else b.null(), p.output(places)]
    b.op("aten.max_pool2d_with_indices.default", [*args, b.value_list(outs)])


@built
def pooled_averages(rng):
    p = Program()
    add_avg(p, floats(rng, 3, 5, 7), [2])
    add_avg(p, floats(rng, 3, 5, 7), [3, 2], [2], [1, 0], True, False)
    add_avg(p, floats(rng, 2, 1, 6, 5), [3], [1, 2], [1], divisor=2)
    x = floats(rng, 1, 2, 6, 5)
    x[0, 0, 2, 2], x[0, 1, 1, 1], x[0, 1, 4, 4] = np.nan, np.inf, -np.inf
    add_avg(p, x, [3], [1], [1])
    return p.built(2e-6)


@built
def pooled_halves(rng):
    p = Program()
    add_avg(p, floats(rng, 1, 3, 5, 7).astype(np.float16), [3], [2], [1])
    x = floats(rng, 3, 5, 7).astype(np.float16)
    x[0, 1, 1] = np.nan
    add_max(p, x, 2, 1, 0, 1, results="one")
    add_max(p, x, 3, 2, 1, 1)
    return p.built(2e-3)


@built
def pooled_maxima(rng):
    """Also where dilated windows have nothing but their first tap in the image, and where only places are wanted."""
    p = Program()
    add_max(p, floats(rng, 3, 5, 7), (2, 3), (1, 2), (1, 1), (3, 2), results="one")
    add_max(p, floats(rng, 1, 1, 9, 4), (2, 2), (2, 3), (0, 1), (4, 1), True)
    add_max(p, rng.integers(-1, 2, (2, 2, 5, 5)).astype(np.float32), 3, 1, 1, 1, results="places")
    return p.built()


# More taps than a thread may take rounds.
@built
def pooled_by_huge_windows(rng):
    p = Program()
    x = floats(rng, 1, 3, 247, 251)
    add_avg(p, x[:, :2].copy(), [246, 250], [1])
    x[0, 0, 245, 3] = np.nan
    x[0, 1, 245, 250] = x[0, 1, 0, 1] = 3
    x[0, 2] = -np.inf
    add_max(p, x, (246, 250), 1, 0, 1)
    wanted = numpy_adaptive(x[:, 1:2], (1, 1))
    p.b.op("aten._adaptive_avg_pool2d.default", [p.input(x[:, 1:2]), p.b.ints([1, 1]), p.output(wanted)])
    return p.built(2e-4)


@built
def adaptive_averages(rng):
    p = Program()
    for shape, size in (
        ((2, 3, 7, 9), (3, 4)),
        ((3, 8, 6), (4, 2)),
        ((1, 1, 3, 2), (7, 5)),
        ((1, 5, 6, 6), (6, 6)),
        ((1, 3, 5, 5), (1, 2)),
        ((1, 2, 5, 5), (0, 3)),
    ):
        x = floats(rng, *shape)
        wanted = agreed(adaptive_avg_pool2d(torch.tensor(x), size), numpy_adaptive(x, size))
        p.b.op("aten._adaptive_avg_pool2d.default", [p.input(x), p.b.ints(size), p.output(wanted)])
    x = floats(rng, 1, 3, 5, 7).astype(np.float16)
    p.b.op("aten._adaptive_avg_pool2d.default", [p.input(x), p.b.ints([2, 3]), p.output(numpy_adaptive(x, (2, 3)))])
    return p.built(1e-3)


@built
def adaptive_averages_of_any_size(rng):
    """From images whose size a call says, to a fixed size and to half of theirs."""
    b = Blob()
    x, fixed, half = (b.tensor("float32", [3, 2, *size]) for size in ((300, 301), (3, 2), (150, 301)))
    height, rows, width = b.symint(), b.symint(), b.symint()
    b.op("sym_size.int", [x, b.integer(2), height])
    b.op("sym_size.int", [x, b.integer(3), width])
    b.op("floordiv", [height, b.integer(2), rows])
    b.op("aten._adaptive_avg_pool2d.default", [x, b.ints([3, 2]), fixed])
    b.op("aten._adaptive_avg_pool2d.default", [x, b.value_list([rows, width]), half])
    b.inputs, b.outputs = [x], [fixed, half]
    calls = []
    for shape in ((1, 2, 300, 301), (3, 2, 7, 5), (0, 2, 4, 4), (2, 2, 2, 1)):
        a = floats(rng, *shape)
        calls.append(([a], [numpy_adaptive(a, (3, 2)), numpy_adaptive(a, (shape[2] // 2, shape[3]))]))
    return Built(b, calls, dynamic=True, rtol=1e-4)


@built
def pooled_in_ceil_mode(rng):
    """Images whose size a call says."""
    b = Blob()
    x, mean, largest, places = (
        b.tensor(t, [3, *size])
        for t, size in (("float32", (9, 12)), ("float32", (5, 7)), ("float32", (4, 5)), ("int32", (4, 5)))
    )
    lists = [b.ints([v]) for v in (3, 2, 1)]
    b.op("aten.avg_pool2d.default", [x, *lists, b.boolean(True), b.boolean(False), b.null(), mean])
    more = [b.ints([2]), b.boolean(True), b.value_list([largest, places])]
    b.op("aten.max_pool2d_with_indices.default", [x, b.ints([2]), b.ints([3]), b.ints([1]), *more])
    b.inputs, b.outputs = [x], [mean, largest, places]
    calls = []
    for shape in ((3, 9, 12), (1, 3, 2), (0, 5, 4), (2, 4, 11), (3, 8, 3)):
        a = floats(rng, *shape)
        averages = numpy_avg(a, 3, 2, 1, True, False)
        if shape[0]:
            agreed(avg_pool2d(torch.tensor(a), 3, 2, 1, True, False), averages)
        calls.append(([a], [averages, *numpy_max(a, 2, 3, 1, 2, True)]))
    return Built(b, calls, dynamic=True, rtol=2e-6)


# --- other sizes ---


@built
def resized_with_infinities(rng):
    """Where a size stays the same, no neighbour is seen; factors as integers."""
    p = Program()
    x = floats(rng, 1, 2, 5, 7)
    x[0, 0, 2, 3], x[0, 1, 4, 6] = np.inf, np.nan
    for mode, size in itertools.product(("nearest", "bilinear"), ((5, 7), (5, 14), (9, 7))):
        wanted = interpolate(torch.tensor(x), size, mode=mode).numpy()
        b = p.b
        rest = [b.null()] if mode == "nearest" else [b.boolean(False), b.null()]
        b.op(f"aten.upsample_{mode}2d.vec", [p.input(x), b.ints(size), *rest, p.output(wanted)])
    x = floats(rng, 1, 2, 5, 7).astype(np.float16)
    wanted = numpy_resize(x, factors=(3, 2))
    p.b.op("aten.upsample_nearest2d.vec", [p.input(x), p.b.null(), p.b.ints([3, 2]), p.output(wanted)])
    return p.built(1e-5)


# --- grids ---


LOST = (np.nan, np.inf, -np.inf)
FAR = (1e30, -1e30, 3e38)


def add_grid_sample(p: Program, x: np.ndarray, grid: np.ndarray, mode: int, padding: int, align: bool) -> None:
    names = (("bilinear", "nearest", "bicubic")[mode], ("zeros", "border", "reflection")[padding], align)
    wanted = numpy_sample(x, grid, *names)
    tolerance = 2e-3 if x.dtype == np.float16 else 2e-5
    agreed(grid_sample(torch.tensor(x).float(), torch.tensor(grid).float(), *names), wanted, tolerance)
    b = p.b
    modes = [b.integer(mode), b.integer(padding), b.boolean(align)]
    b.op("aten.grid_sampler_2d.default", [p.input(x), p.input(grid), *modes, p.output(wanted)])


def sampled(rng, mode: int) -> Built:
    """All paddings: inside, near the border, far outside, and what is no number. An image of few places too."""
    p = Program()
    for padding, align in itertools.product(range(3), (False, True)):
        grid = rng.uniform(-1.3, 1.3, (2, 3, 7, 2)).astype(np.float32)
        grid[0, 0] = rng.uniform(-9, 9, (7, 2))
        # Reflections from far away depend on every rounding.
        grid[1, 2, :6, 0] = grid[1, 1, 1:, 1] = LOST + (LOST if padding == 2 else FAR)
        grid[1, 0, :2] = ((-1, 1), (0, 0))
        add_grid_sample(p, floats(rng, 2, 3, 4, 5), grid, mode, padding, align)
        add_grid_sample(p, floats(rng, 1, 1, 1, 3), grid[:1], mode, padding, align)
    return p.built(2e-5)


BUILDERS["grid_sampled_bilinear"] = lambda rng: sampled(rng, 0)
BUILDERS["grid_sampled_nearest"] = lambda rng: sampled(rng, 1)
BUILDERS["grid_sampled_bicubic"] = lambda rng: sampled(rng, 2)


@built
def grid_sampled_halves(rng):
    p = Program()
    for mode in range(3):
        x, grid = floats(rng, 1, 2, 4, 5), rng.uniform(-1, 1, (1, 3, 3, 2))
        add_grid_sample(p, x.astype(np.float16), grid.astype(np.float16), mode, mode, False)
    return p.built(2e-3)


@built
def grid_priors_of_any_rank(rng):
    p = Program()
    for shape, dtype in (((3, 5), "float32"), ((2, 1, 2, 3, 4), "float16")):
        height, width = shape[-2:]
        points = [((x + 0.25) * 4, (y + 0.25) * 4) for y in range(height) for x in range(width)]
        out = p.output(np.array(points, dtype))
        p.b.op("et_vk.grid_priors.default", [p.input(floats(rng, *shape)), p.b.integer(4), p.b.number(0.25), out])
    return p.built()


# --- channels ---


@built
def channels_of_any_rank(rng):
    """Batches and groups; statistics, weights and inputs of different types."""
    p = Program()
    b = p.b
    for shape, dtype in (
        ((5, 6), "float32"),
        ((2, 6, 3), "float32"),
        ((2, 6, 1, 2, 3), "float16"),
        ((1, 6, 2, 1, 2, 1, 3, 2), "float32"),
    ):
        x = floats(rng, *shape).astype(dtype)
        mean, variance, weight, bias = floats(rng, 6), floats(rng, 6) ** 2, floats(rng, 6), floats(rng, 6)
        wanted = numpy_batch_norm(x, mean, variance, None, bias)
        outs = [p.output(wanted), b.tensor(dtype, [0]), b.tensor(dtype, [0])]
        x_id = p.input(x)
        b.op(
            "aten._native_batch_norm_legit_no_training.default",
            [
                x_id,
                b.null(),
                *(b.constant(v) for v in (bias, mean, variance)),
                b.number(0.1),
                b.number(1e-5),
                b.value_list(outs),
            ],
        )
        results = numpy_group_norm(x, 3, weight)
        size = int(np.prod(shape[2:]))
        by_torch = torch.native_group_norm(
            torch.tensor(x).float(), torch.tensor(weight), None, shape[0], 6, size, 3, 1e-5
        )
        for a, c in zip(by_torch, results, strict=True):
            agreed(a, c, 2e-2)
        numbers = [b.integer(v) for v in (shape[0], 6, size, 3)]
        outs = b.value_list([p.output(r) for r in results])
        b.op(
            "aten.native_group_norm.default",
            [x_id, b.constant(weight), b.null(), *numbers, b.number(1e-5), outs],
        )
    return p.built(5e-3)
