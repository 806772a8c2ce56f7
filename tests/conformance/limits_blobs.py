"""Attention whose sizes all change from call to call, odd ranks, and values that go out as they are; built by hand."""

from conformance.attention_cases import floats
from conformance.blob_cases import Built
from conformance.limits_cases import broadcast_attention
from support.vk00 import Blob

BUILDERS = {}


def built(builder):
    BUILDERS[builder.__name__] = builder
    return builder


def attention_of(rng, shapes, calls, scale=None, dynamic=False) -> Built:
    """`shapes`: of q, k, v and the result, at most."""
    b = Blob()
    q, k, v, out = (b.tensor("float32", shape) for shape in shapes)
    b.op("et_vk.sdpa.default", [q, k, v, b.null(), b.null() if scale is None else b.number(scale), out])
    b.inputs, b.outputs = [q, k, v], [out]
    given = [[floats(rng, *shape) for shape in call] for call in calls]
    made = [(arrays, [broadcast_attention(*arrays, scale=scale)]) for arrays in given]
    return Built(b, made, dynamic=dynamic, rtol=3e-5)


@built
def attention_of_any_size(rng):
    """Every dimension is another one in every call, sizes of heads too: multiples of four and others."""
    most = [(3, 4, 9, 280), (3, 4, 80, 280), (3, 4, 80, 270), (3, 4, 9, 270)]
    calls = [
        [(b, h, rows, d), (b, h, keys, d), (b, h, keys, e)]
        for b, h, rows, keys, d, e in (
            (3, 4, 9, 80, 280, 270),
            (1, 1, 1, 1, 4, 8),
            (2, 3, 5, 70, 17, 12),
            (1, 4, 1, 64, 64, 64),
            (3, 1, 9, 33, 260, 268),
            (2, 2, 0, 5, 8, 8),
            (2, 2, 3, 0, 8, 7),
            (2, 2, 3, 5, 8, 0),
        )
    ]
    return attention_of(rng, most, calls, dynamic=True)


@built
def attention_of_five_dimensions(rng):
    given = [(2, 3, 4, 5, 8), (1, 1, 1, 7, 8), (4, 7, 6)]
    return attention_of(rng, [*given, (2, 3, 4, 5, 6)], [given])


@built
def attention_of_empty_heads(rng):
    """All scores are 0: the mean of the values."""
    given = [(1, 2, 3, 0), (1, 2, 5, 0), (1, 2, 5, 8)]
    return attention_of(rng, [*given, (1, 2, 3, 8)], [given], 1.0)


@built
def values_that_go_out_as_they_are(rng):
    """Outputs that are an input, a constant, one another, or a state before and after a write."""
    b = Blob()
    c, s = floats(rng, 3), floats(rng, 2, 3)
    x, constant, state = b.tensor("float32", [2, 3]), b.constant(c), b.constant(s, mem_obj=0)
    total, one = b.tensor("float32", [2, 3]), b.integer(1)
    b.op("aten.add.Tensor", [x, constant, one, total])
    b.op("aten.add.Tensor", [state, x, one, state])
    b.inputs, b.outputs = [x], [x, constant, total, total, state, x, state]
    calls = []
    for _ in range(3):
        given = floats(rng, 2, 3)
        s = s + given
        calls.append(([given], [given, c, given + c, given + c, s, given, s]))
    return Built(b, calls, rtol=1e-6)
