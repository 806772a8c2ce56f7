"""Movers that the exporter will not emit: all element types, high ranks, numbers that only a call knows."""

from collections.abc import Callable

import numpy as np
from numpy.lib.stride_tricks import as_strided

from conformance.blob_cases import Built
from support.vk00 import Blob

TYPES = ("float32", "float16", "int32", "bool", "uint8", "int8")


def elements(rng, dtype: str, *shape: int) -> np.ndarray:
    if dtype.startswith("float"):
        return np.asarray(rng.uniform(-4, 4, shape), dtype)
    if dtype == "bool":
        return np.asarray(rng.random(shape) < 0.5)
    low = 0 if dtype == "uint8" else -100
    # Programs whose integers have 32 bits take and give 64.
    return np.asarray(rng.integers(low, 100, shape), "int64" if dtype == "int32" else dtype)


def of_all_types(rng, op: str, shape: list[int], arguments: Callable, numpy: Callable) -> Built:
    """One program that applies an op to one input of each type. `arguments(b, dtype)` are those after self."""
    b = Blob()
    given, wanted = [], []
    for dtype in TYPES:
        x = elements(rng, dtype, *shape)
        result = numpy(x)
        x_id = b.tensor(dtype, shape)
        rest = arguments(b, dtype)
        if isinstance(result, list):
            outs = [b.tensor(dtype, r.shape) for r in result]
            b.op(op, [x_id, *rest, b.value_list(outs)])
        else:
            result, outs = [result], [b.tensor(dtype, result.shape)]
            b.op(op, [x_id, *rest, *outs])
        b.inputs.append(x_id)
        b.outputs.extend(outs)
        given.append(x)
        wanted.extend(result)
    return Built(b, [(given, wanted)])


BUILDERS: dict[str, Callable[[np.random.Generator], Built]] = {}


def everywhere(name: str, op: str, shape: list[int], arguments: Callable, numpy: Callable) -> None:
    BUILDERS[name] = lambda rng: of_all_types(rng, op, shape, arguments, numpy)


def slices(name, shape, dim, start, end, step, numpy, op="aten.slice_copy.Tensor") -> None:
    def arguments(b, dtype):
        ends = [b.null() if v is None else b.integer(v) for v in (start, end)]
        return [b.integer(dim), *ends, b.integer(step)]

    everywhere(name, op, shape, arguments, numpy)


slices("slice_inner", [3, 7], 1, 2, 6, 1, lambda x: x[:, 2:6])
slices("slice_aligned", [3, 12], 1, 4, 12, 1, lambda x: x[:, 4:])
slices("slice_long_runs", [3, 48], 1, 16, 48, 1, lambda x: x[:, 16:])
slices("slice_outer", [5, 2, 3], 0, 1, 4, 1, lambda x: x[1:4])
slices("slice_without_ends", [5, 3], 0, None, None, 2, lambda x: x[::2])
slices("slice_to_the_largest_number", [5, 3], -2, -4, 2**63 - 1, 3, lambda x: x[-4::3], op="aten.slice.Tensor")
slices("slice_huge_step", [5, 3], 0, 1, None, 2**62, lambda x: x[1::100])
slices("slice_nothing", [5, 3], 1, 3, 2, 1, lambda x: x[:, 3:2])
slices("slice_past_both_ends", [5, 3], 1, -(2**62), 2**62, 1, lambda x: x)
slices("slice_high_rank", [2, 1, 2, 3, 1, 2, 2, 3], 3, 1, 3, 1, lambda x: x[:, :, :, 1:3])

for name, shape, dim, at in (
    ("select_inner", [3, 5], 1, -2),
    ("select_outer", [3, 5], 0, 2),
    ("select_middle", [2, 3, 8], -2, 1),
    ("select_of_vector", [7], 0, -7),
):
    everywhere(
        name,
        "aten.select_copy.int" if dim else "aten.select.int",
        shape,
        lambda b, dtype, dim=dim, at=at: [b.integer(dim), b.integer(at)],
        lambda x, dim=dim, at=at: np.take(x, at, dim),
    )

for order in ((), (0,), (1, 0), (0, 2, 1), (-1, 0, 1), (7, 6, 5, 4, 3, 2, 1, 0), (1, 0, 3, 2, 5, 4, 7, 6)):
    everywhere(
        f"permute_{'_'.join(map(str, order)) or 'scalar'}",
        "aten.permute_copy.default" if len(order) != 2 else "aten.permute.default",
        [5, 3, 6, 2, 1, 3, 2, 2][: len(order)],
        lambda b, dtype, order=order: [b.ints(order)],
        lambda x, order=order: x.transpose(order),
    )
everywhere(
    "transpose_ends",
    "aten.transpose_copy.int",
    [3, 2, 5],
    lambda b, dtype: [b.integer(0), b.integer(-1)],
    lambda x: x.swapaxes(0, 2),
)
everywhere(
    "transpose_scalar", "aten.transpose_copy.int", [], lambda b, dtype: [b.integer(0), b.integer(-1)], lambda x: x
)
for shape in ([], [5], [5, 3], [64, 36]):
    everywhere(f"t_{'x'.join(map(str, shape))}", "aten.t_copy.default", shape, lambda b, dtype: [], lambda x: x.T)

for name, shape, size in (
    ("expand_scalar", [], [3, 5]),
    ("expand_inner", [3, 1], [3, 7]),
    ("expand_outer", [1, 5], [4, 5]),
    ("expand_kept", [3, 1, 5], [2, -1, 4, -1]),
    ("expand_to_nothing", [3, 1], [3, 0]),
    ("expand_high_rank", [1, 2, 1, 2], [2, 1, 2, 1, 2, 2, 3, 2]),
):
    full = [s if s != -1 else shape[i - len(size)] for i, s in enumerate(size)]
    everywhere(
        name,
        "aten.expand_copy.default",
        shape,
        lambda b, dtype, size=size: [b.ints(size), b.boolean(False)],
        lambda x, full=full: np.broadcast_to(x, full),
    )

for name, shape, size, stride, offset in (
    ("as_strided", [4, 6], [3, 5], [6, 1], 2),
    ("as_strided_turned", [8, 12], [12, 8], [1, 12], 0),
    ("as_strided_overlapping", [9], [2, 3, 4], [1, 2, 1], 0),
    ("as_strided_scalar", [5], [], [], 3),
    ("as_strided_empty", [3], [0, 2], [9, 9], 0),
):
    everywhere(
        name,
        "aten.as_strided_copy.default",
        shape,
        lambda b, dtype, a=(size, stride, offset): [b.ints(a[0]), b.ints(a[1]), b.integer(a[2])],
        lambda x, a=(size, stride, offset): as_strided(x.reshape(-1)[a[2] :], a[0], [s * x.itemsize for s in a[1]]),
    )

for shape, repeats in (
    ([], [5]),
    ([3], [4]),
    ([2, 3], [3, 2]),
    ([2, 4], [1, 3]),
    ([2, 3], [2, 2, 1, 2]),
    ([2, 3], [2, 0]),
    ([2] * 8, [2] * 8),
):
    everywhere(
        f"repeat_{'x'.join(map(str, shape))}_by_{'x'.join(map(str, repeats))}",
        "aten.repeat.default",
        shape,
        lambda b, dtype, repeats=repeats: [b.ints(repeats)],
        lambda x, repeats=repeats: np.tile(x, repeats),
    )
for dim in (None, 0, -1):
    everywhere(
        f"interleave_{'all' if dim is None else dim}",
        "aten.repeat_interleave.self_int",
        [3, 5],
        lambda b, dtype, dim=dim: [b.integer(3), b.null() if dim is None else b.integer(dim), b.null()],
        lambda x, dim=dim: np.repeat(x, 3, dim),
    )

for shape, dims in (([], ()), ([7], (0,)), ([3, 8], (0,)), ([3, 8], (1,)), ([2, 3, 2, 3, 2, 1, 2, 3], (-1, 0, 3))):
    everywhere(
        f"flip_{'x'.join(map(str, shape))}_{'_'.join(map(str, dims))}",
        "aten.flip.default",
        shape,
        lambda b, dtype, dims=dims: [b.ints(dims)],
        lambda x, dims=dims: np.flip(x, dims),
    )

everywhere(
    "split_inner",
    "aten.split_with_sizes_copy.default",
    [3, 9],
    lambda b, dtype: [b.ints([4, 0, 5]), b.integer(-1)],
    lambda x: np.split(x, [4, 4], 1),
)
everywhere(
    "split_outer",
    "aten.split_with_sizes_copy.default",
    [6, 3],
    lambda b, dtype: [b.ints([1, 2, 3]), b.integer(0)],
    lambda x: np.split(x, [1, 3], 0),
)

windows = np.lib.stride_tricks.sliding_window_view
everywhere(
    "unfold_inner",
    "aten.unfold_copy.default",
    [3, 9],
    lambda b, dtype: [b.integer(1), b.integer(4), b.integer(2)],
    lambda x: windows(x, 4, 1)[:, ::2],
)
everywhere(
    "unfold_outer",
    "aten.unfold_copy.default",
    [7, 3],
    lambda b, dtype: [b.integer(0), b.integer(2), b.integer(3)],
    lambda x: windows(x, 2, 0)[::3],
)
everywhere(
    "unfold_scalar",
    "aten.unfold_copy.default",
    [],
    lambda b, dtype: [b.integer(0), b.integer(1), b.integer(1)],
    lambda x: x.reshape(1),
)

for name, shape, pad in (
    ("pad_inner", [3, 5], [1, 2]),
    ("pad_aligned", [3, 8], [4, 8, 1, 0]),
    ("pad_rows", [3, 5], [0, 0, 2, 1]),
    ("pad_crops", [3, 8], [-3, 1, 2, -2]),
    ("pad_crops_aligned", [3, 12], [-4, 8]),
    ("pad_crops_all", [3, 5], [-2, -3]),
    ("pad_nothing", [3, 5], []),
    ("pad_empty", [0, 3], [1, 1, 2, 0]),
    ("pad_scalar", [], []),
    ("pad_high_rank", [2, 1, 2, 1, 3, 1, 2, 3], [1, 0, 0, 1, 0, 0, 1, 1]),
):

    def padded(x, pad=pad):
        pairs = [(pad[2 * i], pad[2 * i + 1]) for i in range(len(pad) // 2)][::-1]
        pairs = [(0, 0)] * (x.ndim - len(pairs)) + pairs
        cropped = x[tuple(slice(max(0, -a), n - max(0, -b)) for n, (a, b) in zip(x.shape, pairs, strict=True))]
        return np.pad(cropped, [(max(0, a), max(0, b)) for a, b in pairs], constant_values=3) if x.ndim else x

    everywhere(
        name, "aten.constant_pad_nd.default", shape, lambda b, dtype, pad=pad: [b.ints(pad), b.integer(3)], padded
    )


def joined(rng, shapes: list[list[int]], dim: int) -> Built:
    b = Blob()
    given, wanted = [], []
    for dtype in TYPES:
        parts = [elements(rng, dtype, *shape) for shape in shapes]
        result = np.concatenate([p for p in parts if p.shape != (0,)] or parts, dim)
        ids = [b.tensor(dtype, shape) for shape in shapes]
        out = b.tensor(dtype, result.shape)
        b.op("aten.cat.default", [b.value_list(ids), b.integer(dim), out])
        b.inputs.extend(ids)
        b.outputs.append(out)
        given.extend(parts)
        wanted.append(result)
    return Built(b, [(given, wanted)])


for name, shapes, dim in (
    ("cat_one", [[3, 5]], 0),
    ("cat_uneven_columns", [[3, 5], [3, 1], [3, 2]], 1),
    ("cat_uneven_rows", [[1, 5], [3, 5], [2, 5]], 0),
    ("cat_aligned", [[3, 4], [3, 8]], -1),
    ("cat_long_runs", [[3, 16], [3, 48], [3, 32]], 1),
    ("cat_empty_parts", [[3, 0], [0], [3, 5], [3, 0], [3, 2]], 1),
    ("cat_nothing", [[0], [0]], 0),
    ("cat_many_columns", [[3, 1 + i % 3] for i in range(17)], 1),
    ("cat_many_narrow_columns", [[5, 1]] * 9, 1),
    ("cat_many_rows", [[1 + i % 2, 3] for i in range(15)], 0),
    ("cat_many_vectors", [[2, 4 * (i % 3)] for i in range(10)], 1),
    ("cat_high_rank", [[2, 1, 2, 3, 1, 2, 1, 3]] * 2, 4),
):
    BUILDERS[name] = lambda rng, shapes=shapes, dim=dim: joined(rng, shapes, dim)


def built(builder):
    BUILDERS[builder.__name__] = builder
    return builder


@built
def cat_of_several_types(rng):
    b = Blob()
    parts = [elements(rng, dtype, 3, 5) for dtype in TYPES]
    ids = [b.tensor(dtype, [3, 5]) for dtype in TYPES]
    out, whole = b.tensor("float32", [3, 30]), b.tensor("int32", [6, 5])
    b.op("aten.cat.default", [b.value_list(ids), b.integer(1), out])
    b.op("aten.cat.default", [b.value_list(ids[2:4]), b.integer(0), whole])
    b.inputs, b.outputs = ids, [out, whole]
    return Built(b, [(parts, [np.concatenate(parts, 1).astype(np.float32), np.concatenate(parts[2:4])])])


@built
def parts_that_a_call_names(rng):
    """As a rotary table's rows: where they begin is an element of an input, how many is another's size."""
    b = Blob()
    table = elements(rng, "float32", 12, 6)
    places, x = b.tensor("int32", [4]), b.tensor("float32", [4, 6])
    first, last, count, end = (b.symint() for _ in range(4))
    zero = b.integer(0)
    b.op("et_vk.select_as_symint.default", [places, zero, zero, first])
    b.op("et_vk.select_as_symint.default", [places, zero, b.integer(-1), last])
    b.op("sym_size.int", [x, zero, count])
    b.op("add", [first, count, end])
    rows, row, wide, parts = (
        b.tensor("float32", [4, 6]),
        b.tensor("float32", [6]),
        b.tensor("float32", [4, 4, 6]),
        [b.tensor("float32", [4, 6]), b.tensor("float32", [12, 6])],
    )
    constant = b.constant(table)
    b.op("aten.slice_copy.Tensor", [constant, zero, first, end, b.integer(1), rows])
    b.op("aten.select_copy.int", [constant, zero, last, row])
    b.op("aten.expand_copy.default", [rows, b.value_list([count, b.integer(-1), b.integer(6)]), b.boolean(False), wide])
    rest = b.symint()
    b.op("sub", [b.integer(12), count, rest])
    b.op("aten.split_with_sizes_copy.default", [constant, b.value_list([count, rest]), zero, b.value_list(parts)])
    b.inputs, b.outputs = [places, x], [rows, row, wide, *parts]
    calls = []
    for at, n in ((0, 4), (3, 1), (8, 4), (11, 1), (5, 3), (7, 0)):
        wanted = table[at : at + n]
        where = np.array([at, 0, 0, 11 - at])
        stacked = np.broadcast_to(wanted, (n, n, 6))
        calls.append(([where, elements(rng, "float32", n, 6)], [wanted, table[11 - at], stacked, table[:n], table[n:]]))
    return Built(b, calls, dynamic=True)


@built
def moved_onto_itself(rng):
    """A state that is turned round in place, and one that is joined with itself in place."""
    b = Blob()
    start = elements(rng, "float32", 4, 4)
    state = b.constant(start, mem_obj=1)
    x, out = b.tensor("float32", [4, 4]), b.tensor("float32", [4, 4])
    b.op("aten.permute_copy.default", [state, b.ints([1, 0]), state])
    b.op("aten.add.Tensor", [state, x, b.integer(1), out])
    b.inputs, b.outputs = [x], [out]
    calls, now = [], start
    for _ in range(3):
        now, given = now.T, elements(rng, "float32", 4, 4)
        calls.append(([given], [now + given]))
    return Built(b, calls)
