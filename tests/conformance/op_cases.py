"""Arithmetic, reductions, conversions, views and integers that shapes give."""

import itertools

import numpy as np
import torch

from conformance.case import Case
from conformance.reference import reduce

Dim = torch.export.Dim

PAIRS = [
    ((), ()),
    ((3,), ()),
    ((), (2, 3)),
    ((1,), (7,)),
    ((2, 3), (3,)),
    ((2, 3), (2, 1)),
    ((4, 1), (1, 5)),
    ((2, 3, 4), (2, 3, 4)),
    ((2, 3, 4), (3, 1)),
    ((1, 3, 1), (2, 1, 4)),
    ((2, 3, 4, 5), (3, 1, 5)),
    ((2, 1, 4, 1), (1, 3, 1, 5)),
    ((2, 1, 3, 1, 4), (5, 1, 2, 1)),
    ((2, 3, 2, 3, 2), (2, 3, 2, 3, 2)),
    ((1031,), (1031,)),
    ((64, 129), (129,)),
]


def floats(rng, *shape) -> np.ndarray:
    return np.asarray(rng.uniform(-4, 4, shape), np.float32)


def integers(rng, *shape) -> np.ndarray:
    return np.asarray(rng.integers(-1000, 1000, shape), np.int32)


def pairs_case(name: str, on_torch, on_numpy, make=floats, rtol=0.0, atol=0.0) -> Case:
    """One program that applies an operator to many pairs of shapes."""

    def run(function, inputs):
        return tuple(function(a, b) for a, b in zip(inputs[0::2], inputs[1::2], strict=True))

    return Case(
        name=name,
        torch=lambda m, *inputs: run(on_torch, inputs),
        numpy=lambda m, *inputs: run(on_numpy, inputs),
        calls=lambda rng: [tuple(make(rng, *shape) for pair in PAIRS for shape in pair) for _ in range(2)],
        rtol=rtol,
        atol=atol,
    )


def not_zero(rng, *shape) -> np.ndarray:
    return np.asarray(rng.uniform(0.5, 4, shape) * rng.choice([-1, 1], shape), np.float32)


ARITHMETIC = [
    pairs_case("add", lambda a, b: a + b, lambda a, b: a + b),
    pairs_case("sub", lambda a, b: a - b, lambda a, b: a - b),
    pairs_case("mul", lambda a, b: a * b, lambda a, b: a * b),
    pairs_case("div", lambda a, b: a / b, lambda a, b: a / b, not_zero, rtol=1e-6),
    pairs_case(
        "add_alpha",
        lambda a, b: torch.add(a, b, alpha=2.5),
        lambda a, b: a + np.float32(2.5) * b,
        rtol=1e-6,
        atol=2e-6,
    ),
    pairs_case(
        "sub_alpha", lambda a, b: torch.sub(a, b, alpha=-3), lambda a, b: a + np.float32(3) * b, rtol=1e-6, atol=2e-6
    ),
    pairs_case("add_int", lambda a, b: a + b, lambda a, b: a + b, integers),
    pairs_case("sub_int_alpha", lambda a, b: torch.sub(a, b, alpha=7), lambda a, b: a - 7 * b, integers),
    pairs_case("mul_int", lambda a, b: a * b, lambda a, b: a * b, integers),
    Case(
        name="int_wraps",
        torch=lambda m, a, b: (a + b, a - b, a * b),
        numpy=lambda m, a, b: (a + b, a - b, a * b),
        calls=lambda rng: [tuple(rng.integers(-(2**31), 2**31, (5, 7), np.int64).astype(np.int32) for _ in range(2))],
    ),
    Case(
        name="long_arithmetic",
        torch=lambda m, a, b: (a + b, a - b, a * b, a + 2, 3 - a),
        numpy=lambda m, a, b: (a + b, a - b, a * b, a + 2, 3 - a),
        calls=lambda rng: [(rng.integers(-1000, 1000, (2, 5)), rng.integers(-1000, 1000, (5,)))],
    ),
    Case(
        name="div_int",
        torch=lambda m, a, b: a / b,
        numpy=lambda m, a, b: a.astype(np.float32) / b.astype(np.float32),
        calls=lambda rng: [(integers(rng, 3, 5), integers(rng, 5) | 1)],
        rtol=1e-6,
    ),
    Case(
        name="mixed_types",
        torch=lambda m, a, b: (a + b, b * a, a - b),
        numpy=lambda m, a, b: (a.astype(np.float32) + b, b * a.astype(np.float32), a.astype(np.float32) - b),
        calls=lambda rng: [(integers(rng, 3, 1), floats(rng, 4))],
    ),
    Case(
        name="scalars",
        torch=lambda m, a, i: (a * 2, a + 1, a - 0.5, 2 - a, a / 4, a * a, i + 5, i * -3, 1 - i),
        numpy=lambda m, a, i: (a * 2, a + 1, a - 0.5, 2 - a, a / 4, a * a, i + 5, i * -3, 1 - i),
        calls=lambda rng: [(floats(rng, 3, 5), integers(rng, 7)) for _ in range(2)],
    ),
    Case(
        name="div_by_zero",
        torch=lambda m, a, b: a / b,
        numpy=lambda m, a, b: a / b,
        calls=lambda rng: [(np.array([1, -1, 0, 2], np.float32), np.array([0, 0, 0, 1], np.float32))],
        rtol=1e-6,
    ),
    Case(
        name="half_arithmetic",
        torch=lambda m, a, b: (a + b, a - b, a * b, a / b),
        numpy=lambda m, a, b: (a + b, a - b, a * b, a / b),
        calls=lambda rng: [(floats(rng, 3, 5).astype(np.float16), not_zero(rng, 5).astype(np.float16))],
        rtol=2e-3,
        atol=1e-4,
    ),
    # float16 on the device, float32 for the caller.
    Case(
        name="forced_half",
        torch=lambda m, a, b: (a + b) * b,
        numpy=lambda m, a, b: (a + b) * b,
        calls=lambda rng: [(floats(rng, 3, 5), floats(rng, 5))],
        options={"force_fp16": True},
        rtol=5e-3,
        atol=2e-2,
    ),
    Case(
        name="dynamic_broadcast",
        torch=lambda m, a, b: (a + b, a * b),
        numpy=lambda m, a, b: (a + b, a * b),
        calls=lambda rng: [
            (floats(rng, n, k, 4), floats(rng, k, 1)) for n, k in ((2, 3), (8, 9), (1, 1), (0, 4), (3, 0), (5, 7))
        ],
        dynamic=({0: Dim("n", max=8), 1: Dim("k", max=9)}, {0: Dim("k", max=9)}),
    ),
]


def reduce_case(name, shapes_and_dims, keepdim, call_shapes, dynamic=None) -> Case:
    """Sum and mean of one input over each of several choices of dimensions."""

    def on_torch(m, x):
        return tuple(
            f for dims in shapes_and_dims for f in (x.sum(dims, keepdim=keepdim), x.mean(dims, keepdim=keepdim))
        )

    def on_numpy(m, x):
        return tuple(reduce(x, dims, keepdim, is_mean) for dims in shapes_and_dims for is_mean in (False, True))

    return Case(
        name=name,
        torch=on_torch,
        numpy=on_numpy,
        calls=lambda rng: [(floats(rng, *shape),) for shape in call_shapes],
        dynamic=dynamic,
        rtol=1e-5,
        atol=2e-5,
    )


# The exporter delegates up to two dimensions that stay, or the last one that goes.
PAIRS_OF_DIMS = [(0,), (1,), (2,), (3,), *itertools.combinations(range(4), 2)]

REDUCTIONS = [
    reduce_case("reduce_keep", PAIRS_OF_DIMS, True, [(2, 3, 4, 5)] * 2),
    reduce_case("reduce_drop_last", [(3,)], False, [(2, 3, 4, 5)]),
    reduce_case("reduce_vector", [(0,)], False, [(1003,)]),
    reduce_case("reduce_matrix", [(0,), (1,), (0, 1)], True, [(257, 66)]),
    reduce_case("reduce_long", [(1,), (2,)], True, [(2, 5000, 3)]),
    reduce_case("reduce_to_one", [(0,)], True, [(200_000,)]),
    reduce_case(
        "reduce_dynamic",
        [(0,), (1,), (0, 1)],
        True,
        [(3, 4, 5), (8, 300, 5), (1, 1, 5), (2, 0, 5), (0, 3, 5), (4, 299, 5)],
        dynamic=({0: Dim("n", max=8), 1: Dim("k", max=300)},),
    ),
]

CONVERSIONS = [
    Case(
        name="from_float",
        torch=lambda m, x: (x.to(torch.int32), x.to(torch.int64), x.to(torch.bool)),
        numpy=lambda m, x: (x.astype(np.int32), x.astype(np.int64), x != 0),
        calls=lambda rng: [
            (np.concatenate([floats(rng, 9) * 1000, np.array([0, -0.0, 0.5, -0.99, 1e-8, 2, -7], np.float32)]),)
        ],
    ),
    Case(
        name="bool_of_any_float",
        torch=lambda m, x: x.to(torch.bool),
        numpy=lambda m, x: x.astype(bool),
        calls=lambda rng: [(np.array([np.nan, 0, -0.0, np.inf, -np.inf, 1e-30, 2], np.float32),)],
    ),
    # A device may round to either neighbour.
    Case(
        name="to_half",
        torch=lambda m, x: x.to(torch.float16),
        numpy=lambda m, x: x.astype(np.float16),
        calls=lambda rng: [(floats(rng, 3, 5),)],
        rtol=1e-3,
    ),
    Case(
        name="from_int",
        torch=lambda m, x: (x.to(torch.float32), x.to(torch.int64), x.to(torch.bool)),
        numpy=lambda m, x: (x.astype(np.float32), x.astype(np.int64), x != 0),
        calls=lambda rng: [(integers(rng, 3, 5) * np.array([0, 1, 1, 10000, -1], np.int32),)],
    ),
    Case(
        name="from_long",
        torch=lambda m, x: (x.to(torch.float32), x.to(torch.int32)),
        numpy=lambda m, x: (x.astype(np.float32), x.astype(np.int32)),
        calls=lambda rng: [(rng.integers(-(2**31), 2**31, (3, 5)),)],
    ),
    Case(
        name="from_bool",
        torch=lambda m, x: (x.to(torch.float32), x.to(torch.int32)),
        numpy=lambda m, x: (x.astype(np.float32), x.astype(np.int32)),
        calls=lambda rng: [(rng.random((3, 3)) < 0.5,) for _ in range(2)],
    ),
    Case(
        name="from_half",
        torch=lambda m, x: (x.to(torch.float32), x.to(torch.float32) * 2),
        numpy=lambda m, x: (x.astype(np.float32), x.astype(np.float32) * 2),
        calls=lambda rng: [(floats(rng, 3, 5).astype(np.float16),)],
    ),
]

VIEWS = [
    Case(
        name="views_of_input",
        torch=lambda m, x, i, b: (x.view(6, 4), x.reshape(-1), x.unsqueeze(1), i.view(5, 3), b.view(3, 3)),
        numpy=lambda m, x, i, b: (
            x.reshape(6, 4),
            x.reshape(-1),
            x.reshape(2, 1, 3, 4),
            i.reshape(5, 3),
            b.reshape(3, 3),
        ),
        calls=lambda rng: [(floats(rng, 2, 3, 4), integers(rng, 3, 5), rng.random(9) < 0.5)],
    ),
    Case(
        name="view_chain",
        torch=lambda m, x: (x + 1).view(6, 4).unsqueeze(0).squeeze(0).flatten().view(2, 1, 12).squeeze(1) * 2,
        numpy=lambda m, x: (x + 1).reshape(2, 12) * 2,
        calls=lambda rng: [(floats(rng, 2, 3, 4),) for _ in range(2)],
    ),
    # The sum is read through two views after another tensor could have taken its place.
    Case(
        name="views_keep_their_source",
        torch=lambda m, x: ((x + 1).view(4, 6) * 2, (x * 3).view(24) + (x + 1).view(24), (x + 1).clone()),
        numpy=lambda m, x: ((x + 1).reshape(4, 6) * 2, x.reshape(24) * 3 + (x + 1).reshape(24), x + 1),
        calls=lambda rng: [(floats(rng, 2, 3, 4),) for _ in range(2)],
        rtol=1e-6,
    ),
]

N, K = Dim("n", max=8), Dim("k", max=9)
SHAPES = ((2, 3), (8, 9), (1, 1), (5, 2), (0, 3), (3, 9))


def shape_case(name: str, on_torch, on_numpy) -> Case:
    """A program with two dynamic dimensions."""
    return Case(
        name=name,
        torch=on_torch,
        numpy=on_numpy,
        calls=lambda rng: [(floats(rng, n, k, 4),) for n, k in SHAPES],
        dynamic=({0: N, 1: K},),
    )


SYMINTS = [
    shape_case(
        "sym_product",
        lambda m, x: (x + 1).view(x.shape[0] * x.shape[1], 4),
        lambda m, x: (x + 1).reshape(x.shape[0] * x.shape[1], 4),
    ),
    shape_case(
        "sym_swapped",
        lambda m, x: (x + 1).view(x.shape[1], x.shape[0] * 2, 2) * 2,
        lambda m, x: (x + 1).reshape(x.shape[1], x.shape[0] * 2, 2) * 2,
    ),
    shape_case(
        "sym_results",
        lambda m, x: (x + 1, x.shape[0] * 2, x.shape[0] + x.shape[1] - 1, (x.shape[1] + 1) // 2),
        lambda m, x: (x + 1, x.shape[0] * 2, x.shape[0] + x.shape[1] - 1, (x.shape[1] + 1) // 2),
    ),
]


OUTPUTS = [
    Case(
        name="output_is_input",
        torch=lambda m, x, unused, y: (lambda s: (s, y, s, x))(x + y),
        numpy=lambda m, x, unused, y: (x + y, y, x + y, x),
        calls=lambda rng: [(floats(rng, 2, 3), floats(rng, 5), floats(rng, 3)) for _ in range(2)],
    ),
]

# The exporter leaves a mean that drops a dimension to ExecuTorch's own kernels.
PARTLY = [
    Case(
        name="partly_delegated",
        torch=lambda m, x: ((x + 1).mean(1) * 2, x * 3),
        numpy=lambda m, x: (reduce(x + 1, (1,), False, is_mean=True) * 2, x * 3),
        calls=lambda rng: [(floats(rng, 2, 3, 4),) for _ in range(2)],
        rtol=1e-6,
        atol=1e-6,
        outside=("aten::mean",),
    ),
]

ALL = ARITHMETIC + REDUCTIONS + CONVERSIONS + VIEWS + SYMINTS + OUTPUTS + PARTLY
