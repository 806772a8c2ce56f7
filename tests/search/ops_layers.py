"""What networks for pictures are made of: convolutions, batch norms, pools, and bytes with a scale."""

import torch

from search.draw import count
from search.table import FLOATS, Near, add

# Convolutions. Their channels are the same in all calls.


def pictures(d, dims, fits=lambda shape: True):
    """A tensor of batch, channels, and so many dimensions more, of which there is something in every call."""
    is_right = lambda shapes: len({s[1] for s in shapes}) == 1 and all(count(s) and fits(s) for s in shapes)  # noqa: E731
    found = d.tensors(FLOATS, lambda name: d.rank(name) == dims + 2 and is_right(d.shapes(name)))
    if found and not d.chance(0.3):
        return d.pick(found)
    channels = d.pick([1, 2, 3, 4, 4, 6, 8, 12])
    sizes = [[max(1, size) for size in d.pick([axis for axis in d.axes if max(axis) <= 33] or [[5] * d.graph.calls])]
             for _ in range(dims)]  # fmt: skip
    batch = d.pick([1, 1, 2, 3])
    shapes = [[batch, channels, *(size[call] for size in sizes)] for call in range(d.graph.calls)]
    return d.source(d.pick(FLOATS), shapes, constant=False)


def row(d, name, size):
    shapes = [[size]] * d.graph.calls
    return f"%{d.tensor_with([d.dtype(name)], shapes, True)}"


def convolution_args(d):
    dims = d.pick([1, 2, 2, 2])
    name = pictures(d, dims)
    channels = d.shapes(name)[0][1]
    groups = d.pick([1, 1, channels, *(g for g in (2, 3) if channels % g == 0)])
    transposed = d.chance(0.2)
    columns = d.pick([1, 2, 3, 4, 5, 8])
    weight = [channels, columns] if transposed else [columns * groups, channels // groups]
    kernel = [d.pick([1, 1, 2, 3, 3, 5])] * dims if d.chance(0.7) else [d.integer(1, 5) for _ in range(dims)]
    one = lambda items: [d.pick(items)] * (dims if d.chance(0.7) else 1)  # noqa: E731
    stride, dilation = one([1, 1, 1, 2, 3]), one([1, 1, 1, 2, 3])
    padding = [k // 2 for k in kernel] if d.chance(0.4) else one([0, 1, 1, 2, 4])
    extra = one([0, 0, 1]) if transposed else [0] * dims
    shapes = [[*weight, *kernel]] * d.graph.calls
    filters = d.tensor_with([d.dtype(name)], shapes, d.pick([True, True, True, None]))
    bias = row(d, name, columns * groups) if d.chance(0.6) else None
    return [f"%{name}", f"%{filters}", bias, stride, padding, dilation, transposed, extra, groups]


def convolution(x, weight, bias, stride, padding, dilation, transposed, extra, groups, low=None, high=None):
    def convolve(x, weight, bias):
        dims = x.dim() - 2
        lists = [items * (dims if len(items) == 1 else 1) for items in (stride, padding, dilation)]
        return torch.ops.aten.convolution(x, weight, bias, *lists, transposed, extra * (dims // len(extra)), groups)

    # What meets the border where a number is not finite is left open.
    finite = [None if t is None else torch.where(torch.isfinite(t), t, 0) for t in (x, weight, bias)]
    lost = convolve((~torch.isfinite(x)).double(), torch.ones_like(weight), None) > 0
    if not all(t is None or torch.isfinite(t).all() for t in (weight, bias)):
        lost = torch.ones_like(lost)
    made = convolve(*finite)
    scale = convolve(*(None if t is None else t.abs() for t in finite))
    if low is not None or high is not None:
        made = made.clamp(low, high)
    return Near(made, scale, lost | (scale > 1e37))


def clamped_args(d):
    low, high = sorted([d.number(), d.number()])
    return [*convolution_args(d), *d.pick([[low, high], [low, None], [None, high], [None, None]])]


add("aten.convolution.default", convolution_args, convolution, rtol=6e-6, weight=3)
add("et_vk.conv_with_clamp.default", clamped_args, convolution, rtol=6e-6, weight=1)


def batch_norm_args(d):
    name = pictures(d, d.pick([1, 2, 2]))
    channels = d.shapes(name)[0][1]
    weight, bias = (row(d, name, channels) if d.chance(0.8) else None for _ in range(2))
    return [f"%{name}", weight, bias, row(d, name, channels), row(d, name, channels), 0.1, d.pick([1e-5, 0.1])]


def batch_norm(x, weight, bias, mean, variance, _momentum, eps):
    def by_channel(t):
        return t.reshape(-1, *[1] * (x.dim() - 2))

    factor = 1 / (by_channel(variance) + eps).sqrt()
    if weight is not None:
        factor = factor * by_channel(weight)
    scale = (x.abs() + by_channel(mean).abs()) * factor.abs()
    made = (x - by_channel(mean)) * factor
    if bias is not None:
        made, scale = made + by_channel(bias), scale + by_channel(bias).abs()
    return Near(made, scale, (x.abs() > 1e30) | (factor.abs() > 1e30))


# Folded into the convolution before it, it rounds otherwise.
add(
    "aten._native_batch_norm_legit_no_training.default", batch_norm_args, batch_norm, rtol=6e-6, exact=False, lists=True
)


# Pools.


def max_pool_args(d):
    name = pictures(d, 2)
    kernel = [d.integer(1, 4), d.integer(1, 4)]
    stride = d.pick([[], [1, 1], [2, 2], [3, 1], [2]])
    return [f"%{name}", kernel, stride, [d.integer(0, k // 2) for k in kernel], [d.integer(1, 2)] * 2, d.chance(0.3)]


def avg_pool_args(d):
    args = max_pool_args(d)
    return [*args[:4], args[5], d.chance(0.5), d.pick([None, None, 1, 3, -2])]


def avg_pool(x, kernel, stride, padding, ceil, counts, divisor):
    def pool(x):
        return torch.ops.aten.avg_pool2d(x, kernel, stride, padding, ceil, counts, divisor)

    return Near(pool(x), pool(x.abs()).abs())


def adaptive_args(d):
    return [f"%{pictures(d, 2)}", [d.pick([1, 1, 2, 3, 7]), d.pick([1, 1, 2, 3, 7])]]


def adaptive(x, size):
    return Near(torch.ops.aten._adaptive_avg_pool2d(x, size), torch.ops.aten._adaptive_avg_pool2d(x.abs(), size))


add("aten.max_pool2d.default", max_pool_args, torch.ops.aten.max_pool2d, weight=0.6)
add("aten.avg_pool2d.default", avg_pool_args, avg_pool, rtol=4e-6, weight=0.6)
add("aten._adaptive_avg_pool2d.default", adaptive_args, adaptive, rtol=4e-6, weight=0.6)


# Bytes. Scales are powers of two, so that no rounding is open.


def bytes_args(d):
    to = d.pick(["int8", "uint8", "int8", "int32"])
    low, high = {"int8": (-128, 127), "uint8": (0, 255), "int32": (-1000, 1000)}[to]
    if d.chance(0.3):
        low, high = low + 3, high - 100
    scale, zero = d.pick([2.0**-5, 0.25, 1.0, 2.0]), d.integer(max(low, -20), 20)
    return [f"%{d.tensor(FLOATS)}", scale, zero, low, high, None], to


def quantize(x, scale, zero, low, high, _dtype):
    return Near((torch.round(x / scale) + zero).nan_to_num(0, high, low).clamp(low, high), undefined=torch.isnan(x))


def numbers_args(d):
    found = d.tensors(["int8", "uint8"], lambda name: True)
    name = d.pick(found) if found and d.chance(0.9) else d.tensor(["int8", "uint8"])
    # Often those that made the bytes: a rewrite looks for such pairs.
    maker = next((n for n in d.graph.nodes if n.outs == [name] and n.op.endswith("quantize_per_tensor.default")), None)
    numbers = maker.args[1:5] if maker and d.chance(0.7) else [0.25, d.integer(-5, 5), -128, 127]
    return [f"%{name}", *numbers, None, None], d.pick(FLOATS)


def dequantize(x, scale, zero, *_):
    return (x.double() - zero) * scale


add("quantized_decomposed.quantize_per_tensor.default", bytes_args, quantize, weight=2)
add("quantized_decomposed.dequantize_per_tensor.default", numbers_args, dequantize, weight=2)
