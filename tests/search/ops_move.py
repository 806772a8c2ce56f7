"""Views, movers and fills: every element is one of the input's, or a number."""

import torch

from search.draw import MAX_RANK, MOST_ELEMENTS, count
from search.table import COMPUTED, FLOATS, MOVED, Near, add


def any_tensor(d, rank_below=MAX_RANK + 1, rank_from=0):
    return d.tensor(MOVED, fits=lambda name: rank_from <= d.rank(name) < rank_below)


def at_least(rank):
    """A tensor of this rank or more."""

    def draw(d):
        name = any_tensor(d, rank_from=rank)
        return name if d.rank(name) >= rank else d.source(d.pick(MOVED), d.shape(d.integer(rank, 5)))

    return draw


# Views.


def view_args(d):
    """Neighbouring dimensions are joined, and fixed ones split."""
    name = any_tensor(d)
    shapes, sizes = d.shapes(name), []
    dim, free = 0, True
    while dim < len(shapes[0]):
        run = d.integer(1, 3) if d.chance(0.5) else 1
        part = [shape[dim : dim + run] for shape in shapes]
        own = [count(p) for p in part]
        if len(set(own)) > 1:
            if free and d.chance(0.4) and all(count(shape) for shape in shapes):
                free = False
                sizes.append(-1)
            elif len(part[0]) == 1:
                sizes.append(d.size(name, dim))
            else:
                product = d.size(name, dim)
                for other in range(dim + 1, dim + len(part[0])):
                    product = f"%{d.node('mul', [product, d.size(name, other)])}"
                sizes.append(product)
        else:
            factors = [f for f in (2, 3, 4) if own[0] and own[0] % f == 0]
            if factors and d.chance(0.4):
                factor = d.pick(factors)
                sizes.extend([factor, own[0] // factor] if d.chance(0.5) else [own[0] // factor, factor])
            else:
                sizes.append(own[0])
        dim += run
    if d.chance(0.2):
        sizes.insert(d.integer(0, len(sizes)), 1)
    if free and sizes and d.chance(0.2) and all(count(shape) for shape in shapes):
        sizes[d.integer(0, len(sizes) - 1)] = -1
    return [f"%{name}", sizes]


add("aten.view_copy.default", view_args, lambda x, size: x.reshape(size), weight=4)
add("aten.clone.default", lambda d: [f"%{any_tensor(d)}", None], lambda x, _: x.clone(), weight=0.7)
add("aten.alias_copy.default", lambda d: [f"%{any_tensor(d)}"], torch.clone, weight=0.4)
add(
    "dim_order_ops._clone_dim_order.default",
    lambda d: [f"%{any_tensor(d)}", False, None],
    lambda x, *_: x.clone(),
    weight=0.3,
)


def unsqueeze_args(d):
    name = any_tensor(d, MAX_RANK)
    return [f"%{name}", d.dim(d.rank(name) + 1)]


def ones_of(d, name):
    return [i for i in range(d.rank(name)) if all(shape[i] == 1 for shape in d.shapes(name))]


def squeeze_args(d):
    name = d.tensor(MOVED, fits=lambda name: ones_of(d, name), fresh=0.05)
    ones = ones_of(d, name)
    return [f"%{name}", [i for i in ones if d.chance(0.7)] or d.dims(d.rank(name))]


def squeeze_one(d):
    name = d.tensor(MOVED, fits=lambda name: ones_of(d, name), fresh=0.05)
    return [f"%{name}", d.pick(ones_of(d, name) or [d.dim(d.rank(name))])]


add("aten.unsqueeze_copy.default", unsqueeze_args, torch.unsqueeze, weight=1)
add("aten.squeeze_copy.dims", squeeze_args, lambda x, dims: x.squeeze(tuple(dims)), weight=0.7)
add("aten.squeeze_copy.dim", squeeze_one, lambda x, dim: x.squeeze(dim), weight=0.5)


# Movers.


def slice_args(d):
    name = at_least(1)(d)
    dim = d.dim(d.rank(name))
    size = d.shapes(name)[0][dim]
    ends = [None if d.chance(0.2) else d.place(-size - 1, size + 1) for _ in range(2)]
    if d.chance(0.1):
        ends[1] = 2**63 - 1
    return [f"%{name}", dim, *ends, d.pick([1, 1, 1, 2, 3, 2**40])]


def slice_eager(x, dim, start, end, step):
    start, end, _ = slice(start, end, 1).indices(x.shape[dim])
    picked = list(range(start, end, step))
    return x.index_select(dim, torch.tensor(picked, dtype=torch.int64))


def select_args(d):
    name = at_least(1)(d)
    dim = d.dim(d.rank(name))
    least = min(shape[dim] for shape in d.shapes(name))
    return [f"%{name}", dim, d.place(-least, max(least - 1, 0))]


for op in ("aten.slice_copy.Tensor", "aten.slice.Tensor"):
    add(op, slice_args, slice_eager, weight=1.5)
for op in ("aten.select_copy.int", "aten.select.int"):
    add(op, select_args, lambda x, dim, index: x.select(dim, index), weight=0.7)


def permute_args(d):
    name = any_tensor(d)
    rank = d.rank(name)
    return [f"%{name}", [int(i) - (rank if d.chance(0.2) else 0) for i in d.rng.permutation(rank)]]


def transpose_args(d):
    name = any_tensor(d)
    return [f"%{name}", d.dim(d.rank(name)), d.dim(d.rank(name))]


for op in ("aten.permute_copy.default", "aten.permute.default"):
    add(op, permute_args, lambda x, dims: x.permute(dims), weight=1.5)
add("aten.transpose_copy.int", transpose_args, torch.transpose, weight=0.7)
add("aten.t_copy.default", lambda d: [f"%{any_tensor(d, 3)}"], torch.t, weight=0.4)


def expand_args(d):
    name = any_tensor(d)
    sizes = []
    for dim in range(d.rank(name)):
        is_one = all(shape[dim] == 1 for shape in d.shapes(name))
        sizes.append(d.place(0, 5) if is_one and d.chance(0.6) else -1 if d.chance(0.3) else d.size(name, dim))
    for _ in range(d.integer(0, 2)):
        sizes.insert(0, d.place(1, 4))
    return [f"%{name}", sizes, False]


def expand(x, size, _implicit):
    if any(s < 0 for s in size[: len(size) - x.dim()]):
        raise ValueError("torch raises")
    if x.numel() and count([max(s, 1) for s in size]) > MOST_ELEMENTS:
        raise ValueError("too large")
    return x.expand(size)


def repeat_args(d):
    name = any_tensor(d)
    repeats = [d.place(0, 3) if d.chance(0.3) else 1 for _ in range(d.rank(name))]
    for _ in range(d.integer(0, 1)):
        repeats.insert(0, d.place(1, 3))
    return [f"%{name}", repeats]


def repeat(x, repeats):
    if any(not 0 <= r <= MOST_ELEMENTS for r in repeats) or count(repeats) * x.numel() > 4 * MOST_ELEMENTS:
        raise ValueError("too large")
    return x.repeat(repeats)


def interleave(x, repeats, dim, _output_size):
    if not 0 <= repeats <= 100:
        raise ValueError("too large")
    return x.repeat_interleave(repeats, dim)


def interleave_args(d):
    name = any_tensor(d)
    return [f"%{name}", d.place(0, 3), d.pick([None, d.dim(d.rank(name)), d.dim(d.rank(name))]), None]


add("aten.expand_copy.default", expand_args, expand, weight=2)


def as_strided_args(d):
    name = any_tensor(d)
    elements = min(map(count, d.shapes(name)))
    stride = [d.integer(0, 7) for _ in range(d.integer(0, 4))]
    offset = d.integer(0, elements // 2)
    size, left = [], elements - 1 - offset
    for step in stride:
        size.append(
            d.integer(1, 1 + min(left // step, 8)) if step and left >= 0 else d.integer(0 if left < 0 else 1, 3)
        )
        left -= (size[-1] - 1) * step
    return [f"%{name}", size, stride, offset]


add(
    "aten.as_strided_copy.default", as_strided_args, lambda x, *how: x.contiguous().as_strided(*how).clone(), weight=0.6
)
add("aten.repeat.default", repeat_args, repeat, weight=1)
add("aten.repeat_interleave.self_int", interleave_args, interleave, weight=0.6)


def flip_args(d):
    name = any_tensor(d)
    return [f"%{name}", d.dims(d.rank(name))]


add("aten.flip.default", flip_args, lambda x, dims: x.flip(dims), weight=1)


def split_args(d):
    name = at_least(1)(d)
    dim = d.dim(d.rank(name))
    sizes = [shape[dim] for shape in d.shapes(name)]
    first = d.integer(0, min(sizes))
    if len(set(sizes)) > 1:
        return [f"%{name}", [first, f"%{d.node('sub', [d.size(name, dim), first])}"], dim]
    second = d.integer(0, sizes[0] - first)
    return [f"%{name}", [first, second, sizes[0] - first - second], dim]


def unfold_args(d):
    name = any_tensor(d, MAX_RANK)
    dim = d.dim(d.rank(name))
    least = min(shape[dim] for shape in d.shapes(name)) if d.rank(name) else 1
    return [f"%{name}", dim, d.integer(0, min(least, 5)), d.integer(1, 3)]


add(
    "aten.split_with_sizes_copy.default",
    split_args,
    lambda x, sizes, dim: [part.clone() for part in x.split_with_sizes(sizes, dim)],
    weight=1,
)
add("aten.unfold_copy.default", unfold_args, lambda x, dim, size, step: x.unfold(dim, size, step), weight=0.6)


def shuffle_args(d):
    factor = d.integer(1, 3)
    calls = range(d.graph.calls)
    channels = factor**2 * d.integer(1, 2)
    shapes = [[*shape[:-2], channels, *shape[-2:]] for shape in d.shape(d.integer(2, 3))]
    if any(count(shapes[call]) > MOST_ELEMENTS for call in calls):
        return None
    return [f"%{d.tensor_with(['float32', 'float16', 'int32'], shapes)}", factor]


add("aten.pixel_shuffle.default", shuffle_args, torch.nn.functional.pixel_shuffle, weight=0.4)


def cat_args(d):
    first = at_least(1)(d)
    dim = d.dim(d.rank(first))
    names = [first]
    for _ in range(d.integer(0, 3) if d.chance(0.9) else 9):
        shapes = [list(shape) for shape in d.shapes(first)]
        if d.chance(0.5):
            size = d.pick([0, 1, 2, 4, 5])
            for shape in shapes:
                shape[dim] = size
        dtypes = [d.dtype(first)] if d.chance(0.8) or d.dtype(first) not in COMPUTED else COMPUTED
        names.append(d.tensor_with(dtypes, shapes))
    if d.chance(0.05):
        names.append(d.tensor_with([d.dtype(first)], [[0]] * d.graph.calls))
    d.rng.shuffle(names)
    common = d.dtype(first) if len({d.dtype(name) for name in names}) == 1 else None
    return [[f"%{name}" for name in names], dim], common


def cat(tensors, dim):
    kept = [t for t in tensors if tuple(t.shape) != (0,)]
    wide = [t.double() if any(u.is_floating_point() for u in tensors) else t for t in kept]
    return torch.cat(wide, dim) if wide else torch.zeros(0, dtype=tensors[0].dtype)


add("aten.cat.default", cat_args, cat, gives="promote", weight=3)


def pad_args(d):
    name = any_tensor(d)
    pad = [d.integer(-1, 3) for _ in range(2 * d.integer(0, min(d.rank(name), 3)))]
    value = d.integer(0, 1) if d.dtype(name) in ("bool", "uint8") else d.integer(-3, 3)
    return [f"%{name}", pad, d.number() if d.dtype(name) in FLOATS and d.chance(0.5) else value]


def pad_eager(x, pad, value):
    if not pad:
        return x
    made = torch.nn.functional.pad(x.double(), pad, value=float(value))
    return made if x.is_floating_point() else made.to(x.dtype)


add("aten.constant_pad_nd.default", pad_args, pad_eager, weight=1)


# Fills.

NONE = [None, None, None, None]


def sizes_args(d):
    return [d.place(0, 5) for _ in range(d.integer(0, 4))]


def fill_value(d, dtype):
    return d.integer(0, 1) if dtype == "bool" else d.integer(-9, 9) if dtype == "int32" else d.number()


def filled(shape, value):
    if any(not 0 <= s <= 100 for s in shape) or count(shape) > MOST_ELEMENTS:
        raise ValueError("too large")
    return torch.full(shape, float(value), dtype=torch.float64)


def full_args(d):
    dtype = d.pick(COMPUTED)
    return [sizes_args(d), fill_value(d, dtype), *NONE], dtype


def full_like_args(d):
    dtype = d.pick(COMPUTED)
    return [f"%{any_tensor(d)}", fill_value(d, dtype), *NONE, None], dtype


add("aten.full.default", full_args, lambda size, value, *_: filled(size, value), weight=0.4)
add("aten.full_like.default", full_like_args, lambda x, value, *_: filled(x.shape, value), weight=0.3)
for name, value in (("zeros", 0), ("ones", 1)):
    add(
        f"aten.{name}.default",
        lambda d: ([sizes_args(d), *NONE], d.pick(COMPUTED)),
        lambda size, *_, value=value: filled(size, value),
        weight=0.2,
    )
    add(
        f"aten.{name}_like.default",
        lambda d: ([f"%{any_tensor(d)}", *NONE, None], d.pick(COMPUTED)),
        lambda x, *_, value=value: filled(x.shape, value),
        weight=0.2,
    )


def scalar_args(d):
    dtype = d.pick(COMPUTED)
    return [fill_value(d, dtype), *NONE], dtype


def arange_args(d):
    dtype = d.pick(["int32", "float32", "float16"])
    step = d.pick([1, 2, -1] if dtype == "int32" else [1, 2, -1, 0.5, 0.25])
    return [d.place(-3, 3), d.place(-5, 20), step, *NONE], dtype


def arange(start, end, step, *_):
    if abs(end - start) > 1000:
        raise ValueError("too large")
    made = torch.arange(start, end, step, dtype=torch.float64)
    return Near(made, made.abs() + abs(start))


add("aten.scalar_tensor.default", scalar_args, lambda value, *_: filled([], value), weight=0.2)
add("aten.arange.start_step", arange_args, arange, weight=0.5)
