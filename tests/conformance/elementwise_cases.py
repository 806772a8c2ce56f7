"""Functions of single elements: one, two and three operands, and tensors made from numbers alone."""

import math

import numpy as np
import torch
from torch.nn import functional as nn

from conformance.case import Case
from conformance.op_cases import floats, integers, not_zero, pairs_case

Dim = torch.export.Dim

SPECIAL = np.array(
    [math.nan, math.inf, -math.inf, 0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 3, -3, 6, 1e-20, 30, -30, 80, -80],
    np.float32,
)
GELU_SCALE = math.sqrt(2 / math.pi)
erf = np.vectorize(math.erf, otypes=[np.float64])


def wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64)


def shapes(rng) -> list[tuple]:
    return [(floats(rng, 3, 5),), (floats(rng, 3, 5) * np.float32(10),), (floats(rng, 3, 5) / np.float32(100),)]


def dynamic_shapes(rng) -> list[tuple]:
    return [(floats(rng, n, k, 3),) for n, k in ((2, 3), (8, 9), (1, 1), (0, 4), (5, 7), (3, 2))]


DYNAMIC = ({0: Dim("n", max=8), 1: Dim("k", max=9)},)
FLOAT = {"rtol": 2e-6, "atol": 1e-6}

SMOOTH = (
    lambda m, x: (x.exp(), (x * x).sqrt(), (x * x + 0.1).rsqrt(), x.sin(), x.cos(), x.tanh(), x.sigmoid()),
    lambda m, x: (
        np.exp(wide(x)).astype(np.float32),
        np.abs(x),
        (1 / np.sqrt(wide(x) ** 2 + 0.1)).astype(np.float32),
        np.sin(wide(x)).astype(np.float32),
        np.cos(wide(x)).astype(np.float32),
        np.tanh(wide(x)).astype(np.float32),
        (1 / (1 + np.exp(-wide(x)))).astype(np.float32),
    ),
)
BENT = (
    lambda m, x: (
        x.abs(),
        -x,
        x.round(),
        x.relu(),
        nn.relu6(x),
        nn.hardtanh(x, -0.5, 1.5),
        nn.leaky_relu(x, 0.1),
        nn.hardswish(x),
        nn.hardsigmoid(x),
        x.clamp(-1, 2),
        x.clamp(min=0.25),
        x.clamp(max=-0.25),
    ),
    lambda m, x: (
        np.abs(x),
        -x,
        np.rint(x),
        np.where(x < 0, np.float32(0), x),
        np.clip(x, 0, 6),
        np.clip(x, -0.5, 1.5).astype(np.float32),
        np.where(x > 0, x, x * np.float32(0.1)),
        (wide(x) * np.clip(wide(x) + 3, 0, 6) / 6).astype(np.float32),
        (np.clip(wide(x) + 3, 0, 6) / 6).astype(np.float32),
        np.clip(x, -1, 2),
        np.where(x < 0.25, np.float32(0.25), x),
        np.where(x > -0.25, np.float32(-0.25), x),
    ),
)
GELU = (
    lambda m, x: (nn.gelu(x), nn.gelu(x, approximate="tanh")),
    lambda m, x: (
        (0.5 * wide(x) * (1 + erf(wide(x) / math.sqrt(2)))).astype(np.float32),
        np.asarray(0.5 * wide(x) * (1 + np.tanh(GELU_SCALE * (wide(x) + 0.044715 * wide(x) ** 3))), np.float32),
    ),
)


def unary_case(name: str, functions, **facts) -> Case:
    return Case(name=name, torch=functions[0], numpy=functions[1], **{"calls": shapes, **facts})


def magnitudes(rng, *shape) -> np.ndarray:
    return np.asarray(rng.uniform(0.1, 4, shape), np.float32)


def near(rng, *shape) -> np.ndarray:
    """Few different numbers, so that many pairs are equal."""
    return np.asarray(rng.integers(-2, 3, shape), np.float32)


def near_integers(rng, *shape) -> np.ndarray:
    return np.asarray(rng.integers(-2, 3, shape), np.int32)


UNARY = [
    unary_case("unary_smooth", SMOOTH, rtol=5e-6, atol=1e-6),
    unary_case("unary_smooth_dynamic", SMOOTH, calls=dynamic_shapes, dynamic=DYNAMIC, rtol=5e-6, atol=1e-6),
    unary_case("unary_bent", BENT, calls=lambda rng: [*shapes(rng), (np.resize(SPECIAL, (3, 5)),)], **FLOAT),
    unary_case(
        "unary_half",
        [lambda m, x, f=f: SMOOTH[f](m, x) + BENT[f](m, x) + GELU[f](m, x) for f in (0, 1)],
        calls=lambda rng: [(floats(rng, 3, 5),)],
        options={"force_fp16": True},
        rtol=5e-3,
        atol=5e-3,
    ),
    unary_case("unary_bent_dynamic", BENT, calls=dynamic_shapes, dynamic=DYNAMIC, **FLOAT),
    unary_case(
        "smooth_special",
        (
            lambda m, x: (x.exp(), x.sqrt(), x.rsqrt(), x.tanh(), x.sigmoid()),
            lambda m, x: (
                np.exp(x),
                np.sqrt(x),
                1 / np.sqrt(x),
                np.tanh(x),
                (1 / (1 + np.exp(-wide(x)))).astype(np.float32),
            ),
        ),
        calls=lambda rng: [(SPECIAL,)],
        rtol=5e-6,
        atol=1e-6,
    ),
    # The error of the approximation stays below one unit of 1e-6, far from zero and near it.
    unary_case(
        "gelu",
        GELU,
        calls=lambda rng: [(np.linspace(-12, 12, 2001, dtype=np.float32),), (floats(rng, 2001) / np.float32(100),)],
        **FLOAT,
    ),
    unary_case(
        "clamp_int",
        (lambda m, x: (x.clamp(-5, 300), x.clamp(min=7)), lambda m, x: (np.clip(x, -5, 300), np.maximum(x, 7))),
        calls=lambda rng: [(integers(rng, 3, 5),)],
    ),
    unary_case(
        "pow_scalar",
        (
            lambda m, x: (x**2, x**3, x**-1, x**-3, x**5, (x * x) ** 0.5, (x * x) ** 1.7, (x * x) ** -0.5, x**0.3),
            lambda m, x: tuple(
                np.asarray(b**e, np.float32)
                for b, e in (
                    (wide(x), 2),
                    (wide(x), 3),
                    (wide(x), -1),
                    (wide(x), -3),
                    (wide(x), 5),
                    (wide(x) ** 2, 0.5),
                    (wide(x) ** 2, 1.7),
                    (wide(x) ** 2, -0.5),
                    (wide(x), 0.3),
                )
            ),
        ),
        calls=lambda rng: [(not_zero(rng, 3, 5),), (not_zero(rng, 3, 5),)],
        rtol=1e-5,
        atol=1e-6,
    ),
]

BINARY = [
    pairs_case("minimum", torch.minimum, np.minimum),
    pairs_case(
        "pow", torch.pow, lambda a, b: np.asarray(wide(a) ** wide(b), np.float32), magnitudes, rtol=1e-5, atol=1e-6
    ),
    pairs_case("pow_whole", torch.pow, lambda a, b: np.asarray(wide(a) ** wide(b), np.float32), near, rtol=1e-5),
    pairs_case(
        "div_rounded",
        lambda a, b: torch.div(a, b, rounding_mode="floor") + 1000 * torch.div(a, b, rounding_mode="trunc"),
        lambda a, b: np.asarray(np.floor(wide(a) / wide(b)) + 1000 * np.trunc(wide(a) / wide(b)), np.float32),
        not_zero,
        rtol=1e-6,
    ),
    Case(
        name="div_rounded_int",
        torch=lambda m, a, b: tuple(torch.div(a, b, rounding_mode=mode) for mode in ("floor", "trunc")),
        numpy=lambda m, a, b: (a // b, np.trunc(a / b).astype(np.int32)),
        calls=lambda rng: [(integers(rng, 3, 5), integers(rng, 5) % 9 - 20)],
    ),
    # 1 is not ten times the float next to 0.1, and six halves by three are two.
    Case(
        name="div_rounded_close",
        torch=lambda m, a, b: tuple(torch.div(a, b, rounding_mode=mode) for mode in ("floor", "trunc")),
        numpy=lambda m, a, b: (
            np.floor(wide(a) / wide(b)).astype(np.float32),
            np.trunc(a / b),
        ),
        calls=lambda rng: [
            (
                np.repeat(np.arange(-20, 21, dtype=np.float32), 6) * np.float32(scale),
                np.tile(np.array([0.1, 0.3, 0.7, 3, -7, -0.2], np.float32), 41),
            )
            for scale in (1, 0.1)
        ],
    ),
]


def compare_case(name: str, make) -> Case:
    """Every comparison of several pairs of shapes."""

    def run(a, b):
        return (a == b, a < b, a <= b, a > b, a >= b)

    def all_pairs(m, *inputs):
        return tuple(r for a, b in zip(inputs[0::2], inputs[1::2], strict=True) for r in run(a, b))

    pairs = (((3,), ()), ((2, 3), (2, 1)), ((4, 1), (1, 5)), ((2, 3, 4), (4,)), ((67,), (67,)), ((2, 1, 4), (1, 3, 1)))
    return Case(
        name=name,
        torch=all_pairs,
        numpy=all_pairs,
        calls=lambda rng: [tuple(make(rng, *shape) for pair in pairs for shape in pair) for _ in range(2)],
    )


COMPARISONS = [
    compare_case("compare", near),
    compare_case("compare_int", near_integers),
    Case(
        name="compare_special",
        torch=lambda m, a, b: (a == b, a < b, a <= b, a > b, a >= b, a == 3),
        numpy=lambda m, a, b: (a == b, a < b, a <= b, a > b, a >= b, a == 3),
        calls=lambda rng: [(SPECIAL[:, None], SPECIAL)],
    ),
    Case(
        name="logic",
        torch=lambda m, a, b: (a & b, a | b, ~a, torch.logical_and(a, b), torch.logical_or(a, b)),
        numpy=lambda m, a, b: (a & b, a | b, ~a, a & b, a | b),
        calls=lambda rng: [(rng.random((3, 1, 5)) < 0.5, rng.random((7, 1)) < 0.5) for _ in range(2)],
    ),
]

WHERE = [
    Case(
        name="where",
        torch=lambda m, x, y, z: (
            torch.where(x > y, x, z),
            torch.where(x > 0, x, torch.zeros_like(x)),
            torch.where(y == z, x, y),
            torch.where(z > 0, torch.full_like(x, -math.inf), x),
        ),
        numpy=lambda m, x, y, z: (
            np.where(x > y, x, z),
            np.where(x > 0, x, np.float32(0)),
            np.where(y == z, x, y),
            np.where(z > 0, np.float32(-math.inf), x),
        ),
        calls=lambda rng: [
            (near(rng, *x), near(rng, *y), near(rng, *z)) for x, y, z in [((2, 3, 4), (3, 1), (4,))] * 2
        ],
    ),
    Case(
        name="where_dynamic",
        torch=lambda m, x, y: (torch.where(x > y, x, y), torch.where(x > y, y, torch.full_like(x, -math.inf))),
        numpy=lambda m, x, y: (np.where(x > y, x, y), np.where(x > y, y, np.float32(-math.inf))),
        calls=lambda rng: [
            (floats(rng, n, k), floats(rng, 1, k)) for n, k in ((2, 3), (8, 12), (1, 1), (0, 4), (5, 8), (7, 11))
        ],
        dynamic=({0: Dim("n", max=8), 1: Dim("k", max=12)}, {1: Dim("k", max=12)}),
    ),
    Case(
        name="where_half",
        torch=lambda m, x, y: (torch.where(x > y, x, y), torch.where(x > y, y, torch.full_like(x, -math.inf))),
        numpy=lambda m, x, y: (np.where(x > y, x, y), np.where(x > y, y, np.float32(-math.inf))),
        calls=lambda rng: [(near(rng, 5, 7), near(rng, 7)), (near(rng, 5, 7), near(rng, 7))],
        options={"force_fp16": True},
    ),
]

FILL = [
    Case(
        name="fill_dynamic",
        torch=lambda m, x: (
            x + torch.full((x.shape[0], 3), 2.5),
            x * torch.ones(x.shape[0], 3),
            x - torch.zeros(x.shape[0], 3),
            torch.full_like(x, -0.5) * x,
            torch.ones_like(x) + torch.zeros_like(x),
            torch.arange(x.shape[0]) + 1,
        ),
        numpy=lambda m, x: (
            x + np.float32(2.5),
            x,
            x,
            x * np.float32(-0.5),
            np.ones_like(x),
            np.arange(1, x.shape[0] + 1),
        ),
        calls=lambda rng: [(floats(rng, n, 3),) for n in (2, 9, 1, 0, 6)],
        dynamic=({0: Dim("n", max=9)},),
    ),
    Case(
        name="arange",
        torch=lambda m, x: (x + torch.arange(2, 9, 0.5), torch.arange(10, -4, -1) + 0 * x.to(torch.int64)),
        numpy=lambda m, x: (x + np.arange(2, 9, 0.5, np.float32), np.arange(10, -4, -1)),
        calls=lambda rng: [(floats(rng, 14),)],
        rtol=1e-6,
        atol=1e-6,
    ),
]

# The quads of broadcast rows: every remainder by four of the inner size, each operand being the one that is repeated.
ROWS = [
    Case(
        name="broadcast_rows",
        torch=lambda m, x, row, column: (x + row, row - x, x * column, column - row, x / (column * row)),
        numpy=lambda m, x, row, column: (x + row, row - x, x * column, column - row, x / (column * row)),
        calls=lambda rng: [
            (not_zero(rng, n, k), not_zero(rng, k), not_zero(rng, n, 1))
            for n, k in ((3, 8), (7, 16), (4, 12), (5, 9), (3, 10), (2, 11), (1, 8), (6, 1), (0, 8), (2, 4))
        ],
        dynamic=({0: Dim("n", max=7), 1: Dim("k", max=16)}, {0: Dim("k", max=16)}, {0: Dim("n", max=7)}),
        rtol=1e-6,
    ),
]

ALL = UNARY + BINARY + COMPARISONS + WHERE + FILL + ROWS
