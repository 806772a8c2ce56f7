"""Products of matrices, elements picked by indices, state, and integers that a call knows."""

import torch

from search.graph import Source
from search.table import FLOATS, MOVED, Near, add

# Products. The bounds of sizes are those of the graph's axes.


def product(a, b, addend=None, alpha=1.0):
    made, scale = alpha * (a @ b), abs(alpha) * (a.abs() @ b.abs())
    if addend is not None:
        made, scale = made + addend, scale + addend.abs()
    # Finite elements whose product overflows count as infinite beside those that are.
    finite = [torch.where(torch.isfinite(t), t, 0).abs() for t in (a, b)]
    return Near(made, scale, finite[0] @ finite[1] > 1e37)


def beside(d, name, columns):
    """Shapes of a matrix that the last dimension of another goes along; and of that, transposed."""
    shapes = d.shapes(name)
    return [[shape[-1], size] for shape, size in zip(shapes, columns, strict=True)]


def matrix(d, rank):
    name = d.tensor(FLOATS, rank=rank)
    return name if d.rank(name) == rank else None


def mm_args(d):
    a = matrix(d, 2)
    b = d.tensor_with([d.dtype(a)], beside(d, a, d.pick(d.axes)), d.pick([None, True]))
    return [f"%{a}", f"%{b}"]


def bmm_args(d):
    a = matrix(d, 3)
    shapes = [[batch[0], *pair] for batch, pair in zip(d.shapes(a), beside(d, a, d.pick(d.axes)), strict=True)]
    return [f"%{a}", f"%{d.tensor_with([d.dtype(a)], shapes)}"]


def addmm_args(d):
    a, b = mm_args(d)
    rows, columns = d.shapes(a[1:]), d.shapes(b[1:])
    whole = [[r[0], c[1]] for r, c in zip(rows, columns, strict=True)]
    row = [[c[1]] for c in columns]
    one = [[1, c[1]] for c in columns]
    addend = d.tensor_with([d.dtype(a[1:])], d.pick([whole, row, row, one, [[r[0], 1] for r in rows]]))
    return [f"%{addend}", a, b, d.pick([1, 1, 0, 0.5, -2.0]), d.pick([1, 1, 2.0, -0.5])]


def addmm(addend, a, b, beta, alpha):
    made = product(a, b, None, alpha)
    if beta == 0:
        return made
    return Near(made.value + beta * addend, made.scale + abs(beta) * addend.abs(), made.undefined)


def linear_args(d):
    name = d.tensor(FLOATS, fits=lambda name: d.rank(name) >= 1)
    if d.rank(name) == 0:
        return None
    columns = d.pick(d.axes)
    shapes = [[size, shape[-1]] for shape, size in zip(d.shapes(name), columns, strict=True)]
    weight = d.tensor_with([d.dtype(name)], shapes, d.pick([None, True]))
    bias = f"%{d.tensor_with([d.dtype(name)], [[size] for size in columns])}" if d.chance(0.5) else None
    return [f"%{name}", f"%{weight}", bias]


for op, args, eager in (
    ("aten.mm.default", mm_args, product),
    ("aten.bmm.default", bmm_args, product),
    ("aten.addmm.default", addmm_args, addmm),
    ("aten.linear.default", linear_args, lambda x, weight, bias: product(x, weight.T, bias)),
):
    add(op, args, eager, rtol=4e-6, weight=1)


# Indices. A negative one counts from the end.


def ids_of(d, sizes, shapes, low=True):
    """Indices into dimensions of these sizes: new ones, or the places that a node made."""
    found = d.tensors(["int32"], lambda name: d.shapes(name) == shapes)
    if found and d.chance(0.4):
        return f"%{d.pick(found)}"
    span = [[-size if low and d.chance(0.5) else 0, size] for size in sizes]
    return f"%{d.source('int32', shapes, span)}"


def checked(ids, size, low=True):
    if ((ids < (-size if low else 0)) | (ids >= size)).any():
        raise ValueError("outside")
    return torch.where(ids < 0, ids + size, ids)


def short(d, rank):
    """The shape of a few indices."""
    return [[min(size, 6) for size in shape] for shape in d.shape(rank)]


def picked_tensor(d, least=0):
    name = d.tensor(MOVED, fits=lambda name: d.rank(name) >= least)
    return name if d.rank(name) >= least else d.source(d.pick(MOVED), d.shape(d.integer(max(least, 1), 4)))


def sizes_along(d, name, dim):
    return [shape[dim] if shape else 1 for shape in d.shapes(name)]


def index_select_args(d):
    name = picked_tensor(d)
    dim = d.dim(d.rank(name))
    shapes = short(d, 1) if d.rank(name) else [[1]] * d.graph.calls
    return [f"%{name}", dim, ids_of(d, sizes_along(d, name, dim), shapes)]


def index_select(x, dim, ids):
    return x.index_select(dim, checked(ids, x.shape[dim] if x.dim() else 1))


def gather_args(d):
    name = picked_tensor(d)
    rank = d.rank(name)
    dim = d.dim(rank)
    shapes = [list(shape) for shape in d.shapes(name)]
    size = d.integer(0, 5)
    for shape in shapes:
        if rank:
            shape[dim] = size
    return [f"%{name}", dim, ids_of(d, sizes_along(d, name, dim), shapes), False]


def gather(x, dim, ids, _sparse):
    return x.gather(dim, checked(ids, x.shape[dim] if x.dim() else 1))


def index_args(d):
    name = picked_tensor(d, 1)
    common = short(d, d.integer(0, 2))
    ids = []
    for dim in range(d.integer(1, min(d.rank(name), 3))):
        if ids and d.chance(0.3):
            ids.append(None)
            continue
        shapes = [[1] * len(c) if d.chance(0.2) else c for c in common[:1]] * d.graph.calls
        shapes = common if shapes[0] == common[0] else shapes
        ids.append(ids_of(d, sizes_along(d, name, dim), shapes))
    if d.chance(0.3):
        ids.insert(0, None)
    return [f"%{name}", ids]


def index(x, ids):
    key = [slice(None) if i is None else checked(i, size) for i, size in zip(ids, x.shape, strict=False)]
    if len(ids) > x.dim() or all(i is None for i in ids):
        raise ValueError("torch raises")
    return x[tuple(key)]


def embedding_args(d):
    weight = d.tensor(FLOATS, rank=2)
    ids = ids_of(d, sizes_along(d, weight, 0), short(d, d.integer(0, 3)), low=False)
    return [f"%{weight}", ids, -1, False, False]


add("aten.index_select.default", index_select_args, index_select, weight=0.8)
add("aten.gather.default", gather_args, gather, weight=0.8)
add("aten.index.Tensor", index_args, index, weight=1)
add("aten.embedding.default", embedding_args, lambda w, ids, *_: w[checked(ids, w.shape[0], low=False)], weight=0.6)


# State.


def cache_args(d):
    rows = d.pick([axis for axis in d.axes if max(axis) <= 8] or [[2] * d.graph.calls])
    batch, heads, width = d.integer(1, 2), d.integer(1, 3), d.pick([1, 2, 3, 4, 8])
    length = max(rows) + d.integer(0, 4)
    cache = [[batch, length, heads, width]] * d.graph.calls
    dtype = d.pick(FLOATS)
    value = d.tensor_with([dtype], [[batch, n, heads, width] for n in rows])
    found = d.tensors([dtype], lambda name: d.shapes(name) == cache and name.startswith("c"))
    state = d.pick(found) if found and d.chance(0.6) else d.source(dtype, cache, constant=True)
    if value == state:
        return None
    return [f"%{value}", f"%{state}", d.place(0, length - max(rows))]


def update_cache(value, cache, start):
    if not 0 <= start <= cache.shape[1] - value.shape[1]:
        raise ValueError("outside")
    cache[:, start : start + value.shape[1]] = value
    return cache.clone()


add("update_cache.default", cache_args, update_cache, changes=1, weight=1.5)


# Integers.


def two_numbers(d):
    args = [d.symint() or d.integer(1, 4), d.place(1, 4)]
    return args[::-1] if d.chance(0.3) else args


def small(f):
    def eager(a, b):
        made = f(a, b)
        if abs(made) > 1000:
            raise ValueError("too large")
        return made

    return eager


for op, f in (
    ("add", lambda a, b: a + b),
    ("sub", lambda a, b: a - b),
    ("mul", lambda a, b: a * b),
    ("floordiv", lambda a, b: a // b),
):
    add(op, two_numbers, small(f), weight=0.4)


def size_args(d):
    name = picked_tensor(d, 1)
    return [f"%{name}", d.dim(d.rank(name))]


def symint_args(d):
    """An element of an input, or a new input that is an integer."""
    span = [[-2, 7]] * d.graph.calls
    if d.chance(0.4):
        d.add_source(Source(d.name("n"), "integer", "int32", [[]] * d.graph.calls, span))
        return None
    length = d.integer(1, 3)
    name = d.source("int32", [[length]] * d.graph.calls, span, constant=False)
    return [f"%{name}", 0, d.integer(-length, length - 1)]


add("sym_size.int", size_args, lambda x, dim: x.shape[dim], weight=0.8)
add("et_vk.select_as_symint.default", symint_args, lambda x, dim, index: int(x.select(dim, index)), weight=0.6)
