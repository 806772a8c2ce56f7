"""Elements in another order: slices, permutations, repetitions, borders, joined tensors, picking by indices."""

import numpy as np
import torch

from conformance.case import Case
from conformance.op_cases import floats, integers

Dim = torch.export.Dim
N, K = Dim("n", max=17), Dim("k", max=9)


def bools(rng, *shape) -> np.ndarray:
    return rng.random(shape) < 0.5


def each(functions):
    """A function that gives the results of several, of the same arguments."""
    return lambda m, *inputs: tuple(f(*inputs) for f in functions)


# Sizes that are no multiples of four, and some that are: the kernels treat them differently.
SLICES = [
    lambda x: x[1:],
    lambda x: x[:, 1:4],
    lambda x: x[:, :, 4:],
    lambda x: x[:, :, 4:8],
    lambda x: x[:, :, 1:8:3],
    lambda x: x[:, ::2, :-1],
    lambda x: x[-1:],
    lambda x: x[:, -100:100],
    lambda x: x[:, 2:2],
    lambda x: x[:, 3:1],
]
SELECTS = [
    lambda x: x[1],
    lambda x: x[-1],
    lambda x: x[:, 2],
    lambda x: x[:, :, 0],
    lambda x: x[:, :, -1],
    lambda x: x[-1, -1],
]
PARTS = [
    Case(
        name="slices",
        torch=each([*SLICES, *SELECTS]),
        numpy=each([*SLICES, *SELECTS]),
        calls=lambda rng: [(floats(rng, 3, 5, 12),)],
    ),
    Case(
        name="slices_of_other_types",
        torch=lambda m, i, b: (*each(SLICES)(m, i), *each(SLICES)(m, b), *each(SELECTS)(m, i), *each(SELECTS)(m, b)),
        numpy=lambda m, i, b: (*each(SLICES)(m, i), *each(SLICES)(m, b), *each(SELECTS)(m, i), *each(SELECTS)(m, b)),
        calls=lambda rng: [(integers(rng, 3, 5, 11), bools(rng, 3, 5, 11))],
    ),
    Case(
        name="slices_dynamic",
        torch=lambda m, x: (x[:, 1:], x[:, :-1], x[:, -3:], x[:, -1], x[:, ::2], x[1:, :, 4:], x[:, 1:, 3:]),
        numpy=lambda m, x: (x[:, 1:], x[:, :-1], x[:, -3:], x[:, -1], x[:, ::2], x[1:, :, 4:], x[:, 1:, 3:]),
        calls=lambda rng: [(floats(rng, 2, n, 8),) for n in (5, 17, 4, 16, 8)],
        dynamic=({1: Dim("n", min=4, max=17)},),
    ),
    Case(
        name="splits",
        torch=lambda m, x: (*x.split([1, 4, 3], 1), *x.split(4, 2), *x.chunk(3, 0), *x.unbind(0)),
        numpy=lambda m, x: (
            *np.split(x, [1, 5], 1),
            *np.split(x, [4, 8, 12], 2),
            *np.split(x, 3, 0),
            *x,
        ),
        calls=lambda rng: [(floats(rng, 3, 8, 13),)],
    ),
    Case(
        name="splits_dynamic",
        torch=lambda m, x: x.split([4, 5, 1], 1),
        numpy=lambda m, x: np.split(x, [4, 9], 1),
        calls=lambda rng: [(floats(rng, 3, 10, k),) for k in (5, 9, 4, 0, 1)],
        dynamic=({2: K},),
    ),
]

ORDERS = [(0, 1, 3, 2), (0, 2, 1, 3), (3, 2, 1, 0), (1, 0, 2, 3), (2, 3, 0, 1), (0, 1, 2, 3), (0, 3, 1, 2)]
TURNED = [
    Case(
        name="permutes",
        torch=lambda m, x, y, i, b: tuple(t.permute(order) for t in (x, y, i, b) for order in ORDERS),
        numpy=lambda m, x, y, i, b: tuple(t.transpose(order) for t in (x, y, i, b) for order in ORDERS),
        calls=lambda rng: [
            (floats(rng, 2, 3, 4, 8), floats(rng, 3, 5, 2, 7), integers(rng, 2, 3, 4, 5), bools(rng, 3, 4, 5, 3))
        ],
    ),
    Case(
        name="permutes_of_other_ranks",
        torch=lambda m, v, x, y, z: (
            v.permute(0) + 0,
            x.t(),
            x.transpose(0, 1) * 2,
            y.permute(2, 0, 1),
            z.permute(4, 2, 0, 3, 1),
        ),
        numpy=lambda m, v, x, y, z: (v, x.T, x.T * 2, y.transpose(2, 0, 1), z.transpose(4, 2, 0, 3, 1)),
        calls=lambda rng: [(floats(rng, 5), floats(rng, 65, 130), floats(rng, 3, 4, 5), floats(rng, 2, 3, 4, 2, 3))],
    ),
    Case(
        name="permutes_dynamic",
        torch=lambda m, x: (x.permute(0, 2, 1, 3), x.permute(3, 1, 0, 2), x.transpose(1, 3)),
        numpy=lambda m, x: (x.transpose(0, 2, 1, 3), x.transpose(3, 1, 0, 2), x.transpose(0, 3, 2, 1)),
        calls=lambda rng: [(floats(rng, 1, n, k, 4),) for n, k in ((2, 3), (17, 9), (1, 1), (0, 4), (3, 0), (5, 8))],
        dynamic=({1: N, 2: K},),
    ),
    Case(
        name="flips",
        torch=lambda m, x, i, b: tuple(
            t.flip(dims) for t in (x, i, b) for dims in ((0,), (2,), (0, 1), (1, 2), (0, 1, 2))
        ),
        numpy=lambda m, x, i, b: tuple(
            np.flip(t, dims) for t in (x, i, b) for dims in ((0,), (2,), (0, 1), (1, 2), (0, 1, 2))
        ),
        calls=lambda rng: [(floats(rng, 3, 4, 8), integers(rng, 2, 3, 5), bools(rng, 3, 2, 3))],
    ),
    Case(
        name="pixel_shuffles",
        torch=lambda m, x, y: (torch.pixel_shuffle(x, 2), torch.pixel_shuffle(y, 3)),
        numpy=lambda m, x, y: (pixel_shuffle(x, 2), pixel_shuffle(y, 3)),
        calls=lambda rng: [(floats(rng, 2, 8, 3, 5), floats(rng, 9, 4, 2))],
    ),
]


def pixel_shuffle(x: np.ndarray, r: int) -> np.ndarray:
    *outer, c, h, w = x.shape
    parts = x.reshape(*outer, c // (r * r), r, r, h, w)
    n = len(outer)
    order = (*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return parts.transpose(order).reshape(*outer, c // (r * r), h * r, w * r)


REPEATED = [
    Case(
        name="repeats",
        torch=lambda m, x, i, b: (
            x.expand(3, 5, 4),
            x.expand(2, 3, 5, 4),
            x.expand(-1, 5, -1),
            i.expand(3, 7),
            b.expand(2, 3, 3),
            x.repeat(2, 3, 1),
            x.repeat(2, 1, 2, 3),
            i.repeat(2, 3),
            b.repeat(3, 2),
        ),
        numpy=lambda m, x, i, b: (
            np.broadcast_to(x, (3, 5, 4)),
            np.broadcast_to(x, (2, 3, 5, 4)),
            np.broadcast_to(x, (3, 5, 4)),
            np.broadcast_to(i, (3, 7)),
            np.broadcast_to(b, (2, 3, 3)),
            np.tile(x, (2, 3, 1)),
            np.tile(x, (2, 1, 2, 3)),
            np.tile(i, (2, 3)),
            np.tile(b, (3, 2)),
        ),
        calls=lambda rng: [(floats(rng, 3, 1, 4), integers(rng, 3, 1), bools(rng, 3, 3))],
    ),
    Case(
        name="interleaved",
        torch=lambda m, x: (x.repeat_interleave(2, 1), x.repeat_interleave(3, 2), x.repeat_interleave(2)),
        numpy=lambda m, x: (np.repeat(x, 2, 1), np.repeat(x, 3, 2), np.repeat(x, 2)),
        calls=lambda rng: [(floats(rng, 2, 3, 5),)],
    ),
    Case(
        name="pads",
        torch=lambda m, x, i: (
            torch.nn.functional.pad(x, (1, 2)),
            torch.nn.functional.pad(x, (4, 8), value=1.5),
            torch.nn.functional.pad(x, (0, 0, 2, 1), value=-1),
            torch.nn.functional.pad(x, (-1, 3, 1, -2, 0, 1), value=7),
            torch.nn.functional.pad(x, (-4, -4)),
            torch.nn.functional.pad(i, (3, 1, 0, 2), value=-9),
        ),
        numpy=lambda m, x, i: (
            np.pad(x, ((0, 0), (0, 0), (1, 2))),
            np.pad(x, ((0, 0), (0, 0), (4, 8)), constant_values=1.5),
            np.pad(x, ((0, 0), (2, 1), (0, 0)), constant_values=-1),
            np.pad(x[:, :-2, 1:], ((0, 1), (1, 0), (0, 3)), constant_values=7),
            x[:, :, 4:-4],
            np.pad(i, ((0, 2), (3, 1)), constant_values=-9),
        ),
        calls=lambda rng: [(floats(rng, 2, 3, 12), integers(rng, 3, 5))],
    ),
    Case(
        name="pads_dynamic",
        torch=lambda m, x: (
            torch.nn.functional.pad(x, (1, 2, 3, 0), value=2.5),
            torch.nn.functional.pad(x, (0, 0, 4, 1)),
        ),
        numpy=lambda m, x: (
            np.pad(x, ((0, 0), (3, 0), (1, 2)), constant_values=2.5),
            np.pad(x, ((0, 0), (4, 1), (0, 0))),
        ),
        calls=lambda rng: [(floats(rng, 2, n, 4),) for n in (3, 17, 1, 0, 8)],
        dynamic=({1: N},),
    ),
]

JOINED = [
    Case(
        name="cats",
        torch=lambda m, x, y, z, i, j: (
            *(torch.cat(p, d) for p in ((x, x), (x, x, x)) for d in (0, 1, 2, -1)),
            torch.cat([x, y], 1),
            torch.cat([y, x, y], -2),
            torch.cat([x, z], 2),
            torch.cat([z, x, z, x], 2),
            torch.cat([i, j, i], 0),
            torch.cat([i, i], 1),
            torch.stack([x, x]),
            torch.stack([i, i], 2),
        ),
        numpy=lambda m, x, y, z, i, j: (
            *(np.concatenate(p, d) for p in ((x, x), (x, x, x)) for d in (0, 1, 2, -1)),
            np.concatenate([x, y], 1),
            np.concatenate([y, x, y], -2),
            np.concatenate([x, z], 2),
            np.concatenate([z, x, z, x], 2),
            np.concatenate([i, j, i], 0),
            np.concatenate([i, i], 1),
            np.stack([x, x]),
            np.stack([i, i], 2),
        ),
        calls=lambda rng: [
            (floats(rng, 2, 3, 8), floats(rng, 2, 1, 8), floats(rng, 2, 3, 5), integers(rng, 3, 5), integers(rng, 1, 5))
        ],
    ),
    # More inputs than one dispatch binds.
    Case(
        name="cats_of_many",
        torch=lambda m, *xs: (
            *(torch.cat(xs, d) for d in (0, 1)),
            *(torch.cat([x[:, :4] for x in xs], d) for d in (0, 1)),
        ),
        numpy=lambda m, *xs: (
            *(np.concatenate(xs, d) for d in (0, 1)),
            *(np.concatenate([x[:, :4] for x in xs], d) for d in (0, 1)),
        ),
        calls=lambda rng: [tuple(floats(rng, 3, 5) for _ in range(16))],
    ),
    Case(
        name="cats_dynamic",
        torch=lambda m, x, y: (torch.cat([x, y], 1), torch.cat([y, x, x], 1), torch.cat([x, x], 2), torch.cat([x, x])),
        numpy=lambda m, x, y: (
            np.concatenate([x, y], 1),
            np.concatenate([y, x, x], 1),
            np.concatenate([x, x], 2),
            np.concatenate([x, x]),
        ),
        calls=lambda rng: [
            (floats(rng, 2, n, 3), floats(rng, 2, k, 3)) for n, k in ((2, 3), (17, 9), (1, 1), (0, 4), (3, 0), (5, 8))
        ],
        dynamic=({1: N}, {1: K}),
    ),
]


def ids(rng, rows: int, *shape: int) -> np.ndarray:
    """Indices into `rows` rows, from either end."""
    return rng.integers(-rows, rows, shape)


PICKED = [
    Case(
        name="indexed",
        torch=lambda m, x, t, i: (m.table[i], x[:, i], x[:, :, i], m.row[i], t[i], m.table[i.to(torch.int32)]),
        numpy=lambda m, x, t, i: (m.table[i], x[:, i], x[:, :, i], m.row[i], t[i], m.table[i]),
        buffers=lambda rng: {"table": floats(rng, 5, 8), "row": floats(rng, 5)},
        calls=lambda rng: [(floats(rng, 2, 5, 5), integers(rng, 5, 3), ids(rng, 5, 7)) for _ in range(2)],
    ),
    Case(
        name="indexed_dynamic",
        torch=lambda m, x, i: (m.table[i], m.wide[i], x[:, i]),
        numpy=lambda m, x, i: (m.table[i], m.wide[i], x[:, i]),
        buffers=lambda rng: {"table": floats(rng, 6, 3), "wide": floats(rng, 6, 2, 4)},
        calls=lambda rng: [(floats(rng, 2, 6), ids(rng, 6, n)) for n in (3, 17, 1, 0, 8)],
        dynamic=(None, {0: N}),
    ),
    Case(
        name="index_selects",
        torch=lambda m, x, t, i: (*(torch.index_select(x, d, i) for d in (0, 1, 2)), torch.index_select(t, 1, i)),
        numpy=lambda m, x, t, i: (*(np.take(x, i, d) for d in (0, 1, 2)), np.take(t, i, 1)),
        calls=lambda rng: [(floats(rng, 4, 5, 8), integers(rng, 3, 5), rng.integers(0, 4, 6))],
    ),
    Case(
        name="gathers",
        torch=lambda m, x, t, i, j: (
            torch.gather(x, 0, i),
            torch.gather(x, 1, i),
            torch.gather(x, 2, i),
            torch.gather(t, 1, j),
        ),
        numpy=lambda m, x, t, i, j: (
            np.take_along_axis(x[:, :2, :3], i, 0),
            np.take_along_axis(x[:2, :, :3], i, 1),
            np.take_along_axis(x[:2, :2], i, 2),
            np.take_along_axis(t, j, 1),
        ),
        calls=lambda rng: [
            (floats(rng, 4, 5, 8), integers(rng, 3, 5), rng.integers(0, 4, (2, 2, 3)), rng.integers(0, 5, (3, 9)))
        ],
    ),
    Case(
        name="gathers_dynamic",
        torch=lambda m, x, i: torch.gather(x, 1, i),
        numpy=lambda m, x, i: np.take_along_axis(x, i, 1),
        calls=lambda rng: [
            (floats(rng, 3, n), rng.integers(0, n, (3, k))) for n, k in ((5, 3), (17, 9), (1, 2), (4, 0))
        ],
        dynamic=({1: N}, {1: K}),
    ),
]

HALVES = [
    # float16 on the device: no element changes on its way, but all are rounded at the border.
    Case(
        name="moved_halves",
        torch=lambda m, x: (
            x[:, 1:, 3:],
            x[:, :, ::2],
            x[-1],
            x.permute(2, 0, 1),
            x.permute(1, 0, 2),
            x.repeat(1, 2, 3),
            torch.cat([x, x[:, :, :5]], 2),
            torch.cat([x, x], 1),
            torch.nn.functional.pad(x, (1, 2), value=0.5),
            m.table[m.ids],
        ),
        numpy=lambda m, x: (
            x[:, 1:, 3:],
            x[:, :, ::2],
            x[-1],
            x.transpose(2, 0, 1),
            x.transpose(1, 0, 2),
            np.tile(x, (1, 2, 3)),
            np.concatenate([x, x[:, :, :5]], 2),
            np.concatenate([x, x], 1),
            np.pad(x, ((0, 0), (0, 0), (1, 2)), constant_values=0.5),
            m.table[m.ids],
        ),
        buffers=lambda rng: {"table": floats(rng, 5, 3), "ids": ids(rng, 5, 4)},
        calls=lambda rng: [(floats(rng, 2, 3, 8),)],
        options={"force_fp16": True},
        rtol=1e-3,
    ),
]


def count_of(numbers) -> int:
    """The first number, as a size."""
    count = numbers[0].item()
    if isinstance(numbers, torch.Tensor):
        torch._check_is_size(count)
        torch._check(count >= 2)
        torch._check(count <= 7)
    return count


SIZED = [
    Case(
        name=f"size_from_data_{name}",
        torch=of_torch,
        numpy=of_numpy,
        calls=lambda rng: [(floats(rng, 9, 3), np.array([n])) for n in (3, 7, 2, 5)],
        buffers=lambda rng: {"table": floats(rng, 9, 3), "row": floats(rng, 1, 3)},
        atol=1e-5,
    )
    for name, of_torch, of_numpy in [
        ("slice", lambda m, x, n: x[: count_of(n)], lambda m, x, n: x[: count_of(n)]),
        ("rest", lambda m, x, n: x[count_of(n) :] * 2, lambda m, x, n: x[count_of(n) :] * 2),
        (
            "sum",
            lambda m, x, n: m.table[: count_of(n)].sum(0, keepdim=True) + x,
            lambda m, x, n: m.table[: count_of(n)].sum(0, keepdims=True) + x,
        ),
        (
            "expand",
            lambda m, x, n: m.row.expand(count_of(n), 3) + 1,
            lambda m, x, n: np.repeat(m.row, count_of(n), 0) + 1,
        ),
        (
            "fill",
            lambda m, x, n: torch.ones(count_of(n), 3) * 2,
            lambda m, x, n: np.full((count_of(n), 3), 2, np.float32),
        ),
    ]
]


ALL = [*SIZED, *PARTS, *TURNED, *REPEATED, *JOINED, *PICKED, *HALVES]
