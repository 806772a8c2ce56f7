"""Ops along rows: softmax, normalizations, extremes, variances, quantization parameters."""

import numpy as np
import torch

from conformance.case import Case

Dim = torch.export.Dim
N, K = Dim("n", max=9), Dim("k", max=300)
MANY = Dim("rows", max=128)
DYNAMIC = ({0: N, 1: K},)
LENGTHS = ((2, 4), (9, 300), (1, 1), (3, 0), (0, 5), (5, 7), (9, 299), (1, 256))


def floats(rng, *shape) -> np.ndarray:
    return np.asarray(rng.uniform(-4, 4, shape), np.float32)


# --- in NumPy, in float64 and rounded once ---


def softmax(x: np.ndarray, dim: int) -> np.ndarray:
    e = np.exp(x.astype(np.float64) - np.max(x, dim, keepdims=True, initial=-np.inf))
    return (e / e.sum(dim, keepdims=True)).astype(x.dtype)


def log_softmax(x: np.ndarray, dim: int) -> np.ndarray:
    shifted = x.astype(np.float64) - np.max(x, dim, keepdims=True, initial=-np.inf)
    return (shifted - np.log(np.exp(shifted).sum(dim, keepdims=True))).astype(x.dtype)


def rms_norm(x: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    wide = x.astype(np.float64)
    size = np.sqrt(np.mean(wide * wide, -1, keepdims=True) + eps)
    return (wide / size * weight).astype(x.dtype)


def layer_norm(x: np.ndarray, dims: int, weight=1.0, bias=0.0, eps=1e-5) -> np.ndarray:
    axes = tuple(range(x.ndim - dims, x.ndim))
    wide = x.astype(np.float64)
    centred = wide - wide.mean(axes, keepdims=True)
    return (centred / np.sqrt(np.mean(centred**2, axes, keepdims=True) + eps) * weight + bias).astype(x.dtype)


def qparams(x: np.ndarray, eps: float = 2.0**-126) -> tuple[np.ndarray, np.ndarray]:
    """Of each row, in float32 step by step: the zero point depends on the rounding."""
    smallest, largest = np.minimum(x.min(-1), np.float32(0)), np.maximum(x.max(-1), np.float32(0))
    scale = np.maximum((largest - smallest) / np.float32(255), np.float32(eps))
    zero = np.clip(np.float32(-128) - np.round(smallest / scale), -128, 127)
    return scale, zero.astype(np.int8)


# --- softmax ---


def softmax_case(name: str, dims, calls, *, tolerance=1e-6, **more) -> Case:
    """Both forms over each of several dimensions."""

    def on_torch(m, x):
        return tuple(f for d in dims for f in (torch.softmax(x, d), torch.log_softmax(x, d)))

    def on_numpy(m, x):
        return tuple(f for d in dims for f in (softmax(x, d), log_softmax(x, d)))

    return Case(name, on_torch, on_numpy, calls, rtol=tolerance * 5, atol=tolerance * 5, **more)


def hostile_rows(rng) -> list:
    """Rows with infinities, with nothing else, with a NaN, with numbers whose exponentials overflow."""
    x = floats(rng, 9, 1028)
    x[0] = -np.inf
    x[1, ::2] = -np.inf
    x[2, :512] = -np.inf
    x[3] = np.float32(3.4e38) * rng.choice([-1, 1], 1028)
    x[4, 77] = np.nan
    x[5] = 1e-30
    x[6] += 1e4
    x[7, 1:] = -np.inf
    x[8, 3] = np.inf
    return [(x,), (x[:, ::-1].copy(),)]


SOFTMAX = [
    softmax_case("softmax_dims", (0, 1, 2, -1), lambda rng: [(floats(rng, 3, 5, 7, 4),)]),
    softmax_case("softmax_odd", (0, 1), lambda rng: [(floats(rng, 257, 131),)]),
    softmax_case("softmax_quads", (0, 1), lambda rng: [(floats(rng, 66, 256),)]),
    softmax_case("softmax_long", (1,), lambda rng: [(floats(rng, 1, 128256),)], tolerance=1e-5),
    softmax_case("softmax_long_odd", (0,), lambda rng: [(floats(rng, 70001),)], tolerance=1e-5),
    softmax_case("softmax_hostile", (1,), hostile_rows),
    softmax_case(
        "softmax_dynamic",
        (0, 1, 2),
        lambda rng: [(floats(rng, n, k, 3),) for n, k in LENGTHS],
        dynamic=DYNAMIC,
    ),
    softmax_case("softmax_dynamic_last", (1,), lambda rng: [(floats(rng, n, k),) for n, k in LENGTHS], dynamic=DYNAMIC),
    softmax_case(
        "softmax_half",
        (0, 1),
        lambda rng: [(floats(rng, 5, 7),), (floats(rng, 5, 7),)],
        tolerance=1e-3,
        options={"force_fp16": True},
    ),
    softmax_case(
        "softmax_half_quads", (0, 1), lambda rng: [(floats(rng, 6, 64),)], tolerance=1e-3, options={"force_fp16": True}
    ),
]


# --- normalizations ---


def rms_case(name: str, widths, rows, *, tolerance=2e-6, dynamic=None, **more) -> Case:
    """Written out, which the exporter puts together again, at several widths."""

    def on_torch(m, *inputs):
        return tuple(
            x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * getattr(m, f"w{w}")
            for x, w in zip(inputs, widths, strict=True)
        )

    def on_numpy(m, *inputs):
        return tuple(rms_norm(x, getattr(m, f"w{w}"), 1e-5) for x, w in zip(inputs, widths, strict=True))

    return Case(
        name,
        on_torch,
        on_numpy,
        lambda rng: [tuple(floats(rng, *shape, w) for w in widths) for shape in rows],
        buffers=lambda rng: {f"w{w}": floats(rng, w) for w in widths},
        dynamic=tuple({0: dynamic} for _ in widths) if dynamic else None,
        rtol=tolerance,
        atol=tolerance * 4,
        **more,
    )


# The exporter takes all of these for the weight of a norm.
WEIGHTS = [
    lambda m, normed, x, g: normed * g,
    lambda m, normed, x, g: normed * 0.5,
    lambda m, normed, x, g: normed * m.row,
    lambda m, normed, x, g: normed * m.column,
    lambda m, normed, x, g: normed * x,
    lambda m, normed, x, g: normed * g[..., :1],
]


def layer_case(name: str, shape, dims: int, calls, *, weight=True, bias=True, tolerance=2e-6, **more) -> Case:
    def on_torch(m, x):
        w, b = m.w if weight else None, m.b if bias else None
        return torch.nn.functional.layer_norm(x, shape, w, b, 1e-5)

    def on_numpy(m, x):
        return layer_norm(x, dims, m.w if weight else 1.0, m.b if bias else 0.0)

    def buffers(rng):
        return {k: floats(rng, *shape) for k, wanted in (("w", weight), ("b", bias)) if wanted}

    return Case(name, on_torch, on_numpy, calls, buffers=buffers, rtol=tolerance, atol=tolerance * 4, **more)


NORMS = [
    rms_case("rms_norm_widths", (1, 3, 4, 64, 130, 2048), [(5,)]),
    rms_case("rms_norm_one_row", (2048, 8192, 1001), [(1,), (1,)]),
    rms_case("rms_norm_rank4", (18, 20), [(1, 7, 3)]),
    rms_case("rms_norm_many_rows", (4, 5), [(70000,)]),
    rms_case("rms_norm_dynamic", (64, 33), [(2,), (9,), (1,), (0,), (6,)], dynamic=N),
    # From 64 rows on, and below, other kernels do it.
    rms_case("rms_norm_few_and_many", (90, 7), [(100,), (3,), (64,), (1,), (63,), (128,), (40,)], dynamic=MANY),
    Case(
        name="rms_norm_by_what_is_no_row",
        torch=lambda m, x, g: tuple(
            f(m, x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5), x, g) for f in WEIGHTS
        ),
        numpy=lambda m, x, g: tuple(f(m, rms_norm(x, 1.0, 1e-5), x, g) for f in WEIGHTS),
        calls=lambda rng: [(floats(rng, n, 5, 8), floats(rng, n, 5, 8)) for n in (3, 9, 1, 0)],
        buffers=lambda rng: {"row": floats(rng, 1, 1, 8), "column": floats(rng, 5, 1)},
        dynamic=({0: N}, {0: N}),
        rtol=2e-6,
        atol=1e-5,
    ),
    rms_case("rms_norm_half", (64, 33), [(3,), (3,)], tolerance=2e-3, options={"force_fp16": True}),
    layer_case("layer_norm_far_from_zero", (384,), 1, lambda rng: [(floats(rng, 3, 384) + 10000,)], tolerance=2e-3),
    layer_case("layer_norm_odd", (131,), 1, lambda rng: [(floats(rng, 2, 5, 131),)]),
    layer_case("layer_norm_two_dims", (5, 12), 2, lambda rng: [(floats(rng, 3, 5, 12),)]),
    layer_case("layer_norm_plain", (100,), 1, lambda rng: [(floats(rng, 7, 100),)], weight=False, bias=False),
    layer_case(
        "layer_norm_dynamic",
        (64,),
        1,
        lambda rng: [(floats(rng, n, k, 64),) for n, k in LENGTHS],
        bias=False,
        dynamic=DYNAMIC,
    ),
    layer_case(
        "layer_norm_few_and_many",
        (7,),
        1,
        lambda rng: [(floats(rng, n, 7),) for n in (100, 1, 3, 40, 64, 63, 128, 100)],
        dynamic=({0: MANY},),
    ),
    layer_case(
        "layer_norm_half",
        (64,),
        1,
        lambda rng: [(floats(rng, 3, 64),)],
        tolerance=5e-3,
        options={"force_fp16": True},
    ),
]


# --- extremes ---


def with_ties(rng, *shape) -> np.ndarray:
    return np.asarray(rng.integers(-3, 4, shape), np.float32)


def extremes_case(name: str, dims, calls, **more) -> Case:
    def on_torch(m, x):
        return tuple(
            f
            for d in dims
            for f in (
                torch.amax(x, d, keepdim=True),
                torch.amin(x, d, keepdim=True),
                torch.argmax(x, d, keepdim=True),
                torch.argmin(x, d, keepdim=True),
            )
        )

    def on_numpy(m, x):
        return tuple(
            f
            for d in dims
            for f in (
                x.max(d, keepdims=True),
                x.min(d, keepdims=True),
                x.argmax(d, keepdims=True),
                x.argmin(d, keepdims=True),
            )
        )

    return Case(name, on_torch, on_numpy, calls, **more)


EXTREMES = [
    extremes_case("extremes", (0, 1, 2), lambda rng: [(with_ties(rng, 5, 7, 4),), (floats(rng, 5, 7, 4),)]),
    extremes_case("extremes_long", (1,), lambda rng: [(floats(rng, 2, 40003),), (with_ties(rng, 2, 40003),)]),
    extremes_case(
        "extremes_nan",
        (1,),
        lambda rng: [
            (
                np.array(
                    [[1, np.nan, 3, np.nan], [np.inf, 2, -np.inf, np.inf], [-np.inf] * 4, [-5, -6, -7, -0.5]],
                    np.float32,
                ),
            )
        ],
    ),
    extremes_case(
        "extremes_dynamic", (1,), lambda rng: [(with_ties(rng, n, k),) for n, k in LENGTHS if k > 0], dynamic=DYNAMIC
    ),
]

ALL = SOFTMAX + NORMS + EXTREMES
