"""Elementwise ops: arithmetic with broadcasting, functions of one tensor, comparisons, conversions."""

import math

import torch

from search.draw import is_float
from search.table import COMPUTED, FLOATS, MOVED, NUMBERS, Near, add


def operands(*tensors: torch.Tensor) -> list[torch.Tensor]:
    """Integers beside floats become float32 first, as in torch."""
    if not any(t.is_floating_point() for t in tensors):
        return list(tensors)
    return [t if t.is_floating_point() else t.float().double() for t in tensors]


def halves_beside_ints(to: str, *tensors: torch.Tensor) -> torch.Tensor | None:
    """torch makes float16 of the integer first; what that cannot say is left open."""
    if to != "float16":
        return None
    open_ = torch.zeros(())
    for t in tensors:
        if not t.is_floating_point():
            open_ = open_ + (t.double().abs() > 2048)
    return open_ > 0


# Two tensors.


def two(dtypes=COMPUTED, needs=NUMBERS):
    """Two tensors that broadcast, one of which has one of the types `needs`."""

    def propose(d, extra=()):
        a = d.tensor(dtypes)
        b = d.partner(a, [d.dtype(a)] if d.chance(0.6) and d.dtype(a) in needs else needs)
        if d.chance(0.3):
            a, b = b, a
        return [f"%{a}", f"%{b}", *extra]

    return propose


def with_alpha(d):
    args = two()(d)
    ints = not any(is_float(d.dtype(name[1:])) for name in args)
    return [*args, 1 if d.chance(0.6) else d.integer(-3, 3) if ints or d.chance(0.5) else d.number()]


def add_eager(sign):
    def eager(a, b, alpha, to):
        open_ = halves_beside_ints(to, a, b)
        a, b = operands(a, b)
        if not a.is_floating_point():
            return a.long() + sign * alpha * b.long()
        b = b * alpha
        return Near(a + sign * b, a.abs() + b.abs(), open_)

    return eager


add("aten.add.Tensor", with_alpha, add_eager(1), gives="promote", takes_dtype=True, weight=3)
add("aten.sub.Tensor", with_alpha, add_eager(-1), gives="promote", takes_dtype=True)


def mul(a, b, to):
    open_ = halves_beside_ints(to, a, b)
    a, b = operands(a, b)
    return Near(a.long() * b.long() if not a.is_floating_point() else a * b, undefined=open_)


def div(a, b, to):
    open_ = halves_beside_ints(to, a, b)
    return Near(a.float().double() / b.float().double(), undefined=open_)


add("aten.mul.Tensor", two(), mul, gives="promote", takes_dtype=True, weight=3)
# In one kernel with the product before it, SwiftShader divides otherwise, in the last bit.
add("aten.div.Tensor", two(), div, gives="float", takes_dtype=True, exact=False)


def div_mode(a, b, mode):
    if not a.is_floating_point():
        if (b == 0).any():
            raise ValueError("torch raises")
        return torch.div(a, b, rounding_mode=mode)
    exact = a / b
    if mode is None:
        return exact
    # Next to a whole number, but not at it, rounding decides; so it does beyond a few digits.
    close = (exact - exact.round()).abs() <= 1e-5 * exact.abs().clamp(min=1)
    open_ = (close & (exact.round() * b != a)) | (exact.abs() > 1e6)
    return Near(torch.div(a, b, rounding_mode=mode), undefined=open_ & torch.isfinite(exact) & torch.isfinite(b))


def with_mode(d):
    dtype = d.pick(["float32", "float16", "int32"])
    mode = d.pick(["floor", "trunc"] if dtype == "int32" else ["floor", "trunc", None])
    return two([dtype], [dtype])(d, [mode])


add("aten.div.Tensor_mode", with_mode, div_mode)


def extreme(f):
    def eager(a, b, to):
        return Near(f(*operands(a, b)), undefined=halves_beside_ints(to, a, b))

    return eager


add("aten.minimum.default", two(), extreme(torch.minimum), gives="promote", takes_dtype=True)
add("aten.maximum.default", two(), extreme(torch.maximum), gives="promote", takes_dtype=True)


def power(a, b):
    a, b = operands(a, torch.as_tensor(b))
    made = torch.pow(a, b)
    if not made.is_floating_point():
        return made
    size = (b * a.abs().log()).abs()
    return Near(made, made.abs() * (1 + torch.where(torch.isfinite(size), size, 0)))


def same_type(dtypes):
    def propose(d):
        dtype = d.pick(dtypes)
        return two([dtype], [dtype])(d)

    return propose


add("aten.pow.Tensor_Tensor", same_type(["float32", "int32"]), power, rtol=2e-6)
for name, f in (("and", torch.bitwise_and), ("or", torch.bitwise_or), ("xor", torch.bitwise_xor)):
    add(f"aten.bitwise_{name}.Tensor", same_type(["int32", "bool"]), f, weight=0.4)
for name, f in (("and", torch.logical_and), ("or", torch.logical_or), ("xor", torch.logical_xor)):
    add(f"aten.logical_{name}.default", two(COMPUTED, COMPUTED), f, gives="bool", weight=0.4)


def comparison(f):
    def eager(a, b):
        open_ = None
        if isinstance(b, torch.Tensor):
            open_ = halves_beside_ints("float16", a, b) if a.is_floating_point() != b.is_floating_point() else None
            a, b = operands(a, b)
        elif not a.is_floating_point() and isinstance(b, float):
            a, b = a.float().double(), float(torch.tensor(b))
        elif a.is_floating_point():
            b = float(torch.tensor(float(b)))
        return Near(f(a, b), undefined=open_)

    return eager


def with_number(d):
    number = d.pick([0, 1, -1, 2, 3000000000, d.number(), d.number()])
    if d.chance(0.1) and (symint := d.symint()):
        number = symint
    return [f"%{d.tensor(COMPUTED)}", number]


for name in ("eq", "ne", "lt", "le", "gt", "ge"):
    add(f"aten.{name}.Tensor", two(COMPUTED, COMPUTED), comparison(getattr(torch, name)), gives="bool", weight=0.4)
    add(f"aten.{name}.Scalar", with_number, comparison(getattr(torch, name)), gives="bool", weight=0.3)


def where_args(d):
    a, b = two()(d)
    return [f"%{d.partner(d.pick([a, b])[1:], ['bool'])}", a, b]


def where_bools(d):
    return where_args(d) if d.chance(0.8) else [f"%{d.tensor(['bool'])}" for _ in range(3)]


add(
    "aten.where.self",
    where_bools,
    lambda c, a, b, to: Near(torch.where(c, *operands(a, b)), undefined=halves_beside_ints(to, a, b)),
    gives="promote",
    takes_dtype=True,
    weight=1.5,
)


# One tensor.


def one(dtypes=FLOATS):
    return lambda d: [f"%{d.tensor(dtypes)}"]


def unary(name: str, f, dtypes=FLOATS, **how) -> None:
    add(f"aten.{name}.default", one(dtypes), f, weight=how.pop("weight", 0.4), **how)


unary("abs", torch.abs, NUMBERS)
unary("neg", torch.neg, NUMBERS)
unary("round", torch.round, NUMBERS)
unary("relu", torch.relu, NUMBERS)
unary("relu6", lambda x: x.clamp(0, 6), NUMBERS)
unary(
    "exp",
    lambda x: Near(x.double().exp(), x.double().exp() * (1 + x.abs().clamp(max=200))),
    (*FLOATS, "int32"),
    gives="float",
)
unary("sqrt", torch.sqrt)
# Of -0.0 torch gives -infinity, which no shading language has.
unary("rsqrt", lambda x: Near(x.rsqrt(), undefined=x == 0))
unary("log10", lambda x: Near(x.log10(), x.log10().abs() + 0.5))
for name, f in (("sin", torch.sin), ("cos", torch.cos)):
    unary(name, lambda x, f=f: Near(f(x), 1 + 0 * f(x), x.abs() > 1e4), rtol=2e-6)
unary("tan", lambda x: Near(x.tan(), 1 + x.tan() ** 2, x.abs() > 1e4), rtol=4e-6)
unary("sigmoid", torch.sigmoid, rtol=1e-5)
unary("tanh", torch.tanh, rtol=1e-5)
unary("hardsigmoid", lambda x: Near((x + 3).clamp(0, 6) / 6, 0 * x + 1))
unary("hardswish", lambda x: Near(x * (x + 3).clamp(0, 6) / 6, 8 * x.abs()))
unary("bitwise_not", torch.bitwise_not, ("int32", "bool"))
unary("logical_not", torch.logical_not, COMPUTED, gives="bool")


def gelu(x, approximate):
    made = torch.nn.functional.gelu(x, approximate=approximate)
    # torch multiplies -infinity by 0; the limit is 0.
    return Near(made, made.abs() + 0.2, x == -math.inf)


add("aten.gelu.default", lambda d: [f"%{d.tensor(FLOATS)}", d.pick(["none", "tanh"])], gelu, rtol=1e-5, weight=0.6)


def with_bounds(d):
    name = d.tensor(NUMBERS)
    draw = (lambda: d.integer(-5, 5)) if d.dtype(name) == "int32" else d.number
    low, high = sorted([draw(), draw()])
    return [f"%{name}", *d.pick([[low, high], [low, high], [low, None], [None, high]])]


def hardtanh_args(d):
    name = d.tensor(FLOATS)
    return [f"%{name}", *sorted([d.number(), d.number()])]


def clamp(x, low, high):
    bounds = [None if b is None or not x.is_floating_point() else float(torch.tensor(float(b))) for b in (low, high)]
    return x.clamp(*(bounds if x.is_floating_point() else (low, high)))


add("aten.clamp.default", with_bounds, clamp, weight=0.6)
add("aten.hardtanh.default", hardtanh_args, clamp, weight=0.4)


def f32(number) -> float:
    return float(torch.tensor(float(number)))


add(
    "aten.hardshrink.default",
    lambda d: [f"%{d.tensor(FLOATS)}", d.pick([0.5, 1.0, 0.0])],
    lambda x, limit: torch.where(x.abs() <= limit, 0.0, x),
    weight=0.4,
)
add(
    "aten.leaky_relu.default",
    lambda d: [f"%{d.tensor(FLOATS)}", d.pick([0.01, 0.5, 0.0, -1.0])],
    lambda x, slope: torch.where(x > 0, x, f32(slope) * x),
    weight=0.4,
)


def with_exponent(d):
    name = d.tensor(["float32", "float16", "int32"])
    return [
        f"%{name}",
        d.integer(0, 5) if d.dtype(name) == "int32" else d.pick([0, 1, 2, 3, -1, -2, 0.5, -0.5, 2.5, 4]),
    ]


def power_of(x, exponent):
    near = power(x, float(exponent)) if x.is_floating_point() else Near(x**exponent)
    if near.value.is_floating_point():
        # Short cuts for squares and their like leave float32's range; roots of -0.0 and -infinity differ in them.
        near.undefined = (x.abs() > 1e18) | (x == 0) if exponent not in (0, 1, 2, 3) else None
    return near


add("aten.pow.Tensor_Scalar", with_exponent, power_of, rtol=2e-6, weight=0.6)


# Conversions.


def to_copy(x, *_ignored, to):
    if to == "bool":
        return x != 0
    if not x.is_floating_point() or to in FLOATS:
        return x.double() if to in FLOATS else x.long()
    info = torch.iinfo(getattr(torch, to))
    whole = x.trunc()
    fits = (whole >= info.min) & (whole <= info.max)
    return Near(torch.where(fits, whole, 0).long(), undefined=~fits)


def conversion(d):
    to = d.pick(MOVED)
    return [f"%{d.tensor(MOVED)}", None, None, None, None, False, None], to


add("aten._to_copy.default", conversion, to_copy, takes_dtype=True, weight=2)
add("dim_order_ops._to_dim_order_copy.default", conversion, to_copy, takes_dtype=True, weight=0.3)
