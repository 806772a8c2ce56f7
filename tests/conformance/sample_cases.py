"""Images: windows, other sizes, positions that a grid says."""

import numpy as np
import torch
from torch.nn.functional import avg_pool2d, grid_sample, interpolate, max_pool2d

from conformance.attention_cases import et_vk
from conformance.case import Case
from conformance.rows_cases import floats

Dim = torch.export.Dim
N, H, W = Dim("n", max=3), Dim("h", min=3, max=9), Dim("w", min=3, max=12)
DYNAMIC = ({0: N, 2: H, 3: W},)
SIZES = ((2, 7, 8), (3, 9, 12), (1, 3, 3), (0, 5, 4), (3, 4, 11), (1, 9, 7))


def images(rng, channels=3, sizes=SIZES) -> list:
    return [(floats(rng, n, channels, h, w),) for n, h, w in sizes]


# --- windows in NumPy ---


def pair(value) -> tuple[int, int]:
    return value if isinstance(value, tuple) else (value, value)


def sliding(size: int, kernel: int, stride: int, padding: int, dilation: int, ceil: bool) -> list[np.ndarray]:
    """The places of each window along an axis, those beside the image too."""
    room = size + 2 * padding - dilation * (kernel - 1) - 1
    count = (-(-room // stride) if ceil else room // stride) + 1
    if ceil and (count - 1) * stride >= size + padding:
        count -= 1
    return [np.arange(kernel) * dilation + i * stride - padding for i in range(count)]


def windows(shape, kernel, stride=None, padding=0, dilation=1, ceil=False) -> list[list[np.ndarray]]:
    lists = [pair(v) for v in (kernel, stride or kernel, padding, dilation)]
    return [sliding(n, *(values[axis] for values in lists), ceil) for axis, n in enumerate(shape[-2:])]


def inside(places: np.ndarray, size: int) -> np.ndarray:
    return places[(places >= 0) & (places < size)]


def numpy_avg(x, kernel, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
    rows, columns = windows(x.shape, kernel, stride, padding, 1, ceil_mode)
    (height, width), (above, beside) = x.shape[-2:], pair(padding)
    out = np.empty((*x.shape[:-2], len(rows), len(columns)), x.dtype)
    for i, r in enumerate(rows):
        for j, c in enumerate(columns):
            part = x[..., inside(r, height)[:, None], inside(c, width)]
            count = (r < height + above).sum() * (c < width + beside).sum()
            count = divisor_override or (count if count_include_pad else part.shape[-2] * part.shape[-1])
            out[..., i, j] = part.sum((-2, -1), dtype=np.float64) / count
    return out


def numpy_adaptive(x, size):
    out = np.empty((*x.shape[:-2], *size), x.dtype)
    height, width = x.shape[-2:]
    for i in range(size[0]):
        for j in range(size[1]):
            rows = slice(i * height // size[0], -(-(i + 1) * height // size[0]))
            columns = slice(j * width // size[1], -(-(j + 1) * width // size[1]))
            out[..., i, j] = x[..., rows, columns].mean((-2, -1), dtype=np.float64)
    return out


def numpy_max(x, kernel, stride=None, padding=0, dilation=1, ceil_mode=False):
    """Values and places: of equal ones the first, but the last NaN."""
    rows, columns = windows(x.shape, kernel, stride, padding, dilation, ceil_mode)
    height, width = x.shape[-2:]
    out = np.empty((*x.shape[:-2], len(rows), len(columns)), x.dtype)
    places = np.empty(out.shape, np.int64)
    for i, r in enumerate(rows):
        for j, c in enumerate(columns):
            r_in, c_in = inside(r, height), inside(c, width)
            part = x[..., r_in[:, None], c_in].reshape(*x.shape[:-2], len(r_in) * len(c_in))
            nan = np.isnan(part)
            pick = np.where(nan.any(-1), part.shape[-1] - 1 - nan[..., ::-1].argmax(-1), part.argmax(-1))
            out[..., i, j] = np.take_along_axis(part, pick[..., None], -1)[..., 0]
            places[..., i, j] = r_in[pick // len(c_in)] * width + c_in[pick % len(c_in)]
    return out, places


AVERAGES = [
    {"kernel": 2},
    {"kernel": (2, 3), "stride": (1, 2), "padding": (1, 0)},
    {"kernel": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    {"kernel": 3, "stride": 2, "padding": 1, "ceil_mode": True, "count_include_pad": False},
    {"kernel": (3, 2), "stride": 1, "padding": 1, "divisor_override": -7},
]
MAXIMA = [
    {"kernel": 2},
    {"kernel": (3, 2), "stride": (2, 1), "padding": 1},
    {"kernel": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    {"kernel": 2, "stride": 1, "dilation": 2, "padding": 1},
]


# torch.export takes no dynamic sizes in ceil mode.
LIVE = [{"kernel": 3, "stride": 2, "padding": 1}, {"kernel": (2, 3), "stride": 1, "padding": (0, 1)}]


def by_torch(options: dict, pool):
    return lambda x: pool(x, options["kernel"], **{k: v for k, v in options.items() if k != "kernel"})


def averages(name: str, calls, kinds=AVERAGES, **more) -> Case:
    return Case(
        name,
        lambda m, x: tuple(by_torch(kind, avg_pool2d)(x) for kind in kinds),
        lambda m, x: tuple(numpy_avg(x, **kind) for kind in kinds),
        calls,
        **{"rtol": 2e-6, "atol": 2e-6} | more,
    )


def maxima(name: str, calls, kinds=MAXIMA, **more) -> Case:
    def on_torch(m, x):
        return tuple(f for kind in kinds for f in by_torch(kind | {"return_indices": True}, max_pool2d)(x))

    return Case(name, on_torch, lambda m, x: tuple(f for kind in kinds for f in numpy_max(x, **kind)), calls, **more)


def hostile(rng) -> list:
    """NaN, both infinities, windows of nothing else, ties."""
    x = rng.integers(-2, 3, (2, 3, 7, 9)).astype(np.float32)
    x[0, 0, 1:4, 2:5] = np.nan
    x[0, 1, ::2] = -np.inf
    x[0, 2] = -np.inf
    x[1, 0, 3] = np.inf
    x[1, 1, 5, ::2] = -0.0
    return [(x,)]


POOLS = [
    averages("pool_averages", lambda rng: images(rng, sizes=((2, 7, 9),))),
    averages("pool_averages_dynamic", images, LIVE, dynamic=DYNAMIC),
    averages(
        "pool_averages_half",
        lambda rng: images(rng, sizes=((1, 5, 7),)),
        AVERAGES[:2],
        options={"force_fp16": True},
        rtol=2e-3,
        atol=2e-3,
    ),
    maxima("pool_maxima", hostile),
    maxima("pool_maxima_dynamic", images, LIVE, dynamic=DYNAMIC),
    # One of the two results is unused.
    Case(
        "pool_maxima_in_part",
        lambda m, x: (max_pool2d(x, 3, 2), max_pool2d(x, 2, 1, return_indices=True)[1]),
        lambda m, x: (numpy_max(x, 3, 2)[0], numpy_max(x, 2, 1)[1]),
        lambda rng: images(rng, sizes=((1, 7, 6),)),
    ),
]


# --- other sizes ---


def numpy_scale(size: int, to: int, factor, align: bool) -> np.float32:
    if size == to:
        return np.float32(1)
    if align:
        return np.float32(0) if to == 1 else np.float32(size - 1) / np.float32(to - 1)
    return np.float32(1 / factor) if factor else np.float32(size) / np.float32(to)


def numpy_resize(x, size=None, factors=(None, None), mode="nearest", align=False):
    matrices = []
    for axis in range(2):
        n = x.shape[2 + axis]
        to = size[axis] if size else int(n * factors[axis])
        scale, i = numpy_scale(n, to, factors[axis], align), np.arange(to, dtype=np.float32)
        matrix = np.zeros((to, n))
        if mode == "nearest":
            matrix[np.arange(to), np.minimum(np.floor(scale * i).astype(int), n - 1)] = 1
        else:
            half = np.float32(0 if align else 0.5)
            at = np.maximum(scale * (i + half) - half, np.float32(0))
            low = np.minimum(np.floor(at).astype(int), n - 1)
            weight = np.clip(at - low, 0, 1)
            np.add.at(matrix, (np.arange(to), low), 1 - weight)
            np.add.at(matrix, (np.arange(to), np.minimum(low + 1, n - 1)), weight)
        matrices.append(matrix)
    return (matrices[0] @ x.astype(np.float64) @ matrices[1].T).astype(x.dtype)


RESIZED = [{"size": (8, 9)}, {"size": (3, 20)}, {"size": (1, 1)}, {"factors": (2.0, 2.0)}, {"factors": (1.6, 1.2)}]


def modes(kinds) -> list[dict]:
    linear = [kind | {"mode": "bilinear", "align": align} for align in (False, True) for kind in kinds]
    return [kind | {"mode": "nearest", "align": False} for kind in kinds] + linear


def torch_resize(x, mode, align, size=None, factors=None):
    return interpolate(x, size, factors, mode, align if mode == "bilinear" else None)


def resized(name: str, kinds, calls, **more) -> Case:
    return Case(
        name,
        lambda m, x: tuple(torch_resize(x, **kind) for kind in modes(kinds)),
        lambda m, x: tuple(numpy_resize(x, **kind) for kind in modes(kinds)),
        calls,
        **{"rtol": 1e-5, "atol": 1e-5} | more,
    )


# Sizes that a call gives, as SymInts.
def torch_live_sizes(m, x):
    size = (x.shape[2] * 2, x.shape[3] * 3)
    return interpolate(x, size, mode="nearest"), interpolate(x, size, mode="bilinear")


RESIZES = [
    resized("resize", RESIZED, lambda rng: images(rng, sizes=((2, 5, 7),))),
    # A factor may leave a size as it is.
    resized("resize_by_little", [{"factors": (1.1, 1.3)}], lambda rng: images(rng, sizes=((1, 5, 7),))),
    resized("resize_dynamic", [{"factors": (2.0, 1.5)}], images, dynamic=DYNAMIC),
    resized("resize_dynamic_to_a_size", [{"size": (6, 7)}], images, dynamic=DYNAMIC),
    Case(
        "resize_to_live_sizes",
        torch_live_sizes,
        lambda m, x: tuple(
            numpy_resize(x, (x.shape[2] * 2, x.shape[3] * 3), mode=mode) for mode in ("nearest", "bilinear")
        ),
        images,
        dynamic=DYNAMIC,
        rtol=1e-5,
        atol=1e-5,
    ),
    resized(
        "resize_half",
        [{"size": (7, 9)}],
        lambda rng: images(rng, sizes=((1, 5, 7),)),
        options={"force_fp16": True},
        rtol=2e-3,
        atol=2e-3,
    ),
]


# --- grids ---


def numpy_fold(p: np.ndarray, n: int, padding: str, align: bool) -> np.ndarray:
    """Where a position beside the image lies in it."""
    if padding == "zeros":
        return p
    if padding == "reflection":
        low, span = (0.0, 2.0 * (n - 1)) if align else (-0.5, 2.0 * n)
        if span:
            rest = np.fmod(np.abs(p - low), span)
            p = np.minimum(rest, span - rest) + low
    return np.clip(np.nan_to_num(p, nan=0.0, posinf=None if padding == "border" else 0.0), 0, n - 1)


def numpy_sample(x, grid, mode="bilinear", padding="border", align=True):
    """In float64; of positions that are no numbers, what torch makes in vectors."""
    count, channels, height, width = x.shape
    sizes = np.array([height, width])
    half = 0.0 if align else 0.5
    scale = ((sizes - (1 if align else 0)) / 2).astype(np.float32)
    at = ((grid[..., ::-1].astype(np.float32) + 1) * scale - np.float32(half)).astype(np.float64)
    taps = {"nearest": range(1), "bilinear": range(2), "bicubic": range(-1, 3)}[mode]
    if mode != "bicubic":
        at = np.stack([numpy_fold(at[..., d], sizes[d], padding, align) for d in range(2)], -1)
    low = np.round(at) if mode == "nearest" else np.floor(at)
    part = at - low

    def weight(d: int, tap: int) -> np.ndarray:
        if mode == "nearest":
            return np.ones(at.shape[:-1])
        t = np.abs(part[..., d] - tap)
        if mode == "bilinear":
            return 1 - t
        return np.where(t <= 1, (1.25 * t - 2.25) * t * t + 1, ((-0.75 * t + 3.75) * t - 6) * t + 3)

    def place(d: int, tap: int) -> np.ndarray:
        p = low[..., d] + tap
        return numpy_fold(p, sizes[d], padding, align) if mode == "bicubic" else p

    out = np.zeros((count, channels, *grid.shape[1:3]))
    batch = np.arange(count)[:, None, None]
    for i in taps:
        for j in taps:
            y, x_ = place(0, i), place(1, j)
            is_in = (y >= 0) & (y < height) & (x_ >= 0) & (x_ < width)
            y, x_ = (np.where(is_in, v, 0).astype(int) for v in (y, x_))
            value = np.where(is_in[..., None], x[batch, :, y, x_], 0).astype(np.float64)
            out += np.moveaxis(value * (weight(0, i) * weight(1, j))[..., None], -1, 1)
    return out.astype(x.dtype)


def grids(rng, sizes) -> list:
    """Positions inside and far outside."""
    return [
        (floats(rng, n, 3, h, w), rng.uniform(-1.7, 1.7, (n, *places, 2)).astype(np.float32))
        for n, h, w, *places in sizes
    ]


GRID = Dim("grid", max=8)
GRIDS = [
    Case(
        "grid_sample",
        lambda m, x, g: grid_sample(x, g, "bilinear", "border", True),
        lambda m, x, g: numpy_sample(x, g),
        lambda rng: grids(rng, ((2, 5, 7, 4, 6),)),
        rtol=1e-5,
        atol=1e-5,
    ),
    Case(
        "grid_sample_dynamic",
        lambda m, x, g: grid_sample(x, g, "bilinear", "border", True),
        lambda m, x, g: numpy_sample(x, g),
        lambda rng: grids(rng, ((2, 5, 7, 4, 6), (1, 3, 3, 8, 6), (3, 9, 12, 1, 6))),
        dynamic=({0: N, 2: H, 3: W}, {0: N, 1: GRID}),
        rtol=1e-5,
        atol=1e-5,
    ),
    Case(
        "grid_priors",
        lambda m, x: (et_vk.grid_priors(x, 8, 0.5), et_vk.grid_priors(x, 16, 0.0)),
        lambda m, x: tuple(
            ((np.indices(x.shape[-2:])[::-1].reshape(2, -1).T + offset) * stride).astype(np.float32)
            for stride, offset in ((8, 0.5), (16, 0.0))
        ),
        images,
        dynamic=DYNAMIC,
    ),
]

ALL = POOLS + RESIZES + GRIDS
