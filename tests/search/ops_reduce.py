"""Reductions, softmax and norms."""

import torch

from search.draw import is_float
from search.table import FLOATS, MOVED, Near, add


def reduce_args(dtypes, *extra, least=0):
    def propose(d):
        name = d.tensor(dtypes)
        dims = d.pick([None, d.dims(d.rank(name), least), d.dims(d.rank(name), 1), d.dims(d.rank(name), 1)])
        return [f"%{name}", dims, *(e(d) if callable(e) else e for e in extra)]

    return propose


def keep(d):
    return d.chance(0.5)


def all_dims(x, dims):
    return list(range(x.dim())) if not dims else [dim % max(x.dim(), 1) for dim in dims]


def folded(f, x, dims, keepdim):
    """f over dims one by one: torch wants none for a scalar."""
    if x.dim() == 0:
        return f(x.reshape(1), 0).reshape(())
    for dim in all_dims(x, dims):
        x = f(x, dim).unsqueeze(dim)
    return x if keepdim else x.squeeze(tuple(all_dims(x, dims)))


def add_up(x, dim):
    return x.sum(dim)


def sum_eager(x, dims, keepdim, _dtype=None):
    made = folded(add_up, x, dims, keepdim)
    return Near(made, folded(add_up, x.abs(), dims, keepdim)) if x.is_floating_point() else made


def mean_eager(x, dims, keepdim, _dtype=None):
    n = folded(add_up, torch.ones_like(x), dims, keepdim)
    return Near(folded(add_up, x, dims, keepdim) / n, folded(add_up, x.abs(), dims, keepdim) / n)


def sum_args(d):
    args = reduce_args(MOVED, keep, None)(d)
    dtype = d.dtype(args[0][1:])
    return args, dtype if is_float(dtype) else "int32"


add("aten.sum.dim_IntList", sum_args, sum_eager, rtol=2e-6, weight=1.5)
add("aten.mean.dim", reduce_args(FLOATS, keep, None), mean_eager, rtol=2e-6, weight=1.5)


def variance(x, dims, correction, keepdim):
    n = folded(add_up, torch.ones_like(x), dims, True)
    mean = folded(add_up, x, dims, True) / n
    squares = folded(add_up, (x - mean) ** 2, dims, keepdim)
    scale = folded(add_up, (x.abs() + mean.abs()) ** 2, dims, keepdim)
    rest = (folded(add_up, torch.ones_like(x), dims, keepdim) - int(correction)).clamp(min=0)
    return Near(squares / rest, torch.where(rest > 0, scale / rest, scale))


add("aten.var.dim", reduce_args(FLOATS, keep, keep), variance, rtol=4e-6, weight=0.6)
add(
    "aten.var.correction",
    reduce_args(FLOATS, lambda d: d.pick([None, 0, 1, 2]), keep),
    lambda x, dims, correction, keepdim: variance(x, dims, 1 if correction is None else correction, keepdim),
    rtol=4e-6,
    weight=0.6,
)


def extreme(f):
    def eager(x, dims, keepdim):
        return folded(lambda y, dim: f(y, dim=dim), x, dims, keepdim)

    return eager


add("aten.amax.default", reduce_args(MOVED, keep), extreme(torch.amax), weight=0.8)
add("aten.amin.default", reduce_args(MOVED, keep), extreme(torch.amin), weight=0.8)


def place_args(d):
    name = d.tensor(MOVED)
    return [f"%{name}", d.pick([None, d.dim(d.rank(name)), d.dim(d.rank(name))]), d.chance(0.5)]


def place(f):
    def eager(x, dim, keepdim):
        x = x.long() if x.dtype == torch.bool else x
        if dim is None:
            return f(x).reshape([1] * x.dim() if keepdim else [])
        return f(x, dim=dim, keepdim=keepdim)

    return eager


add("aten.argmax.default", place_args, place(torch.argmax), gives="int32", weight=0.8)
add("aten.argmin.default", place_args, place(torch.argmin), gives="int32", weight=0.8)


# Lines.


def line_args(d):
    name = d.tensor(FLOATS)
    return [f"%{name}", d.dim(d.rank(name)), False]


def too_far(x):
    """Whether float32 loses an element beside another, or its square."""
    return (x.abs() > 1e15) & torch.isfinite(x)


def softmax(x, dim, _half):
    made = x.softmax(dim)
    size = torch.where(torch.isfinite(x), x.abs(), 0)
    most = size.amax(dim, keepdim=True) if x.dim() and x.numel() else size
    return Near(made, made * (1 + size + most))


def log_softmax(x, dim, _half):
    size = torch.where(torch.isfinite(x), x.abs(), 0)
    most = size.amax(dim, keepdim=True) if x.dim() and x.numel() else size
    return Near(x.log_softmax(dim), 1 + size + most)


add("aten._softmax.default", line_args, softmax, rtol=3e-6, weight=1.5)
add("aten._log_softmax.default", line_args, log_softmax, rtol=3e-6, weight=1)


def with_row(d, name, dims, constant=None):
    """A tensor of the shape of the last dimensions."""
    shapes = [shape[len(shape) - dims :] for shape in d.shapes(name)]
    return f"%{d.tensor_with([d.dtype(name)], shapes, constant)}"


def of_rank(d, least):
    name = d.tensor(FLOATS, fits=lambda name: d.rank(name) >= least)
    return name if d.rank(name) >= least else d.source(d.pick(FLOATS), d.shape(d.integer(least, 4)))


def rms_args(d):
    name = of_rank(d, 1)
    # Its input is often a sum: a rewrite joins the two.
    if d.chance(0.5):
        other = d.tensor_with([d.dtype(name)], d.shapes(name))
        name = d.node("aten.add.Tensor", [f"%{name}", f"%{other}", 1])
    weight = None if d.chance(0.1) else with_row(d, name, 1, d.pick([True, None]))
    return [f"%{name}", weight, d.pick([1e-5, 1e-6, 0.1])]


def norm(x, dims, weight, bias, eps, centre):
    if x.numel() == 0:
        # torch leaves open what the mean of nothing is.
        none = x.sum(dims, keepdim=True)
        return [Near(x), *(Near(none, undefined=torch.ones_like(none, dtype=torch.bool)),) * 2]
    mean = x.mean(dims, keepdim=True) if centre else x.new_zeros(())
    squares = ((x - mean) ** 2).mean(dims, keepdim=True)
    size = (x**2).mean(dims, keepdim=True)
    rstd = 1 / (squares + eps).sqrt()
    weight = x.new_ones(()) if weight is None else weight
    bias = x.new_zeros(()) if bias is None else bias
    # Elements that nearly equal each other lose most of their digits.
    worse = 1 + size / (squares + eps)
    lost = too_far(x).sum(dims, keepdim=True) > 0
    # A mean of elements that cancel each other is off by as much as theirs.
    mean_scale = x.abs().mean(dims, keepdim=True) if centre else x.new_zeros(())
    scale = (x.abs() + mean_scale) * rstd * weight.abs() * worse + bias.abs()
    made = Near((x - mean) * rstd * weight + bias, scale, lost.expand(x.shape))
    # torch's mean of infinite elements depends on their order.
    return [made, Near(mean, mean_scale, lost | ~torch.isfinite(mean)), Near(rstd, rstd * worse, lost)]


def rms_norm(x, weight, eps):
    return norm(x, [-1], weight, None, eps, False)[0]


def layer_args(d):
    name = of_rank(d, 1)
    dims = d.integer(1, min(d.rank(name), 3))
    sizes = [d.size(name, d.rank(name) - dims + i) for i in range(dims)]
    weight = with_row(d, name, dims) if d.chance(0.7) else None
    return [f"%{name}", sizes, weight, with_row(d, name, dims) if d.chance(0.7) else None, d.pick([1e-5, 0.1])]


def layer_norm(x, sizes, weight, bias, eps):
    if list(x.shape[x.dim() - len(sizes) :]) != sizes:
        raise ValueError("torch raises")
    return norm(x, list(range(x.dim() - len(sizes), x.dim())), weight, bias, eps, True)


add("et_vk.rms_norm.default", rms_args, rms_norm, rtol=4e-6, weight=1.5, exact=False)
add("aten.native_layer_norm.default", layer_args, layer_norm, rtol=4e-6, weight=1, exact=False)
