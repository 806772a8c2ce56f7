"""Training ops and small ones that the exporter will not emit, or not with these arguments."""

import numpy as np

from conformance.blob_cases import Built, floats
from conformance.quant_blobs import QD, Program
from conformance.quant_cases import F32, cross_entropy, dequantize_q4, product, requantize
from support.vk00 import Blob

BUILDERS = {}


def built(builder):
    BUILDERS[builder.__name__] = builder
    return builder


@built
def steps_of_adamw(rng):
    """Three steps, each from what the last one left; one set of states is the program's, the other the caller's."""
    b = Blob()
    start = [floats(rng, 3, 7), floats(rng, 3, 7) / F32(10), abs(floats(rng, 3, 7)) / F32(100)]
    states = [b.constant(a) for a in start]
    given = [b.tensor("float32", [3, 7]) for _ in range(3)]
    grad = b.tensor("float32", [3, 7])
    rates = (1e-2, 0.9, 0.999, 1e-8, 0.01, 0.5, 0.25)
    numbers = [b.number(v) for v in rates]
    kept = [b.tensor("float32", [3, 7]) for _ in range(3)]
    copies = [b.tensor("float32", [3, 7]) for _ in range(3)]
    b.op("et_vk.adamw_step.default", [*states, grad, *numbers, b.value_list(states)])
    for state, out in zip(states, kept, strict=True):
        b.op("aten.clone.default", [state, b.null(), out])
    b.op("et_vk.adamw_step.default", [*given, grad, *numbers, b.value_list(copies)])
    b.inputs, b.outputs = [*given, grad], [*kept, *copies]

    def step(param, m, v, g):
        lr, beta1, beta2, eps, decay, correction1, correction2 = rates
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
        param = param * (1 - lr * decay) - lr * (m / correction1) / (np.sqrt(v / correction2) + eps)
        return [a.astype(F32) for a in (param, m, v)]

    calls, held = [], start
    for _ in range(3):
        others, g = [floats(rng, 3, 7), floats(rng, 3, 7), abs(floats(rng, 3, 7))], floats(rng, 3, 7)
        held = step(*held, g)
        calls.append(([*others, g], [*held, *step(*others, g)]))
    return Built(b, calls, rtol=1e-5, atol=1e-6)


@built
def training_of_odd_sizes(rng):
    """One row, one label for all, a vocabulary of some size; gradients and weights of odd widths."""
    p = Program()
    for rows, width in ((1, 5), (6, 300), (70, 3)):
        logits, labels = floats(rng, rows, width) * F32(9), rng.integers(-1, width, rows)
        loss, gradient = cross_entropy(logits, labels, 3.0)
        outs = p.b.value_list([p.output(loss), p.output(gradient)])
        p.op("et_vk.fused_ce.default", p.input(logits), p.input(labels), (3.0,), outs=outs)
    for rows, n, k in ((5, 3, 7), (1, 4, 8), (33, 12, 1)):
        d, x = floats(rng, rows, n), floats(rng, rows, k)
        p.op("et_vk.linear_dW.default", p.input(d), p.input(x), outs=p.output(product(d.T, x.T)))
    for n, k, group in ((3, 14, 7), (5, 6, 1), (8, 32, 32)):
        weights, scales = rng.integers(0, 256, (n, k // 2), np.uint8), floats(rng, k // group, n)
        d = floats(rng, 4, n)
        out = p.output((d.astype(np.float64) @ dequantize_q4(weights, scales, group)).astype(F32))
        factors = p.b.constant(weights), p.b.constant(scales), (group,)
        p.op("et_vk.linear_q4gsw_backward.default", p.input(d), *factors, outs=out)
    for n, k, group in ((3, 7, 7), (5, 1, 4), (2, 10, 3)):
        latent, scales = floats(rng, n, k) * F32(4), floats(rng, -(-k // group), n)
        scales[0, 0] = 0
        out = p.output(requantize(latent, scales, group))
        p.op("et_vk.q4gsw_requant.default", p.input(latent), p.b.constant(scales), (group,), outs=out)
    return p.built(rtol=1e-5, atol=1e-4)


@built
def copies_to_other_types(rng):
    """The same shape, repeated, of other types."""
    p = Program()
    for shape, to, source, dtype in (
        ((3, 5), (3, 5), "float32", "float32"),
        ((5,), (3, 5), "float32", "float16"),
        ((3, 1), (3, 5), "int64", "float32"),
        ((), (2, 3), "float32", "float32"),
        ((7,), (7,), "int8", "float32"),
    ):
        a = (floats(rng, *shape) * F32(4)).astype(source)
        wanted = np.broadcast_to(a, to).astype(dtype)
        self = p.input(np.zeros(to, dtype))
        p.op("aten.copy.default", self, p.input(np.asarray(a)), (False,), outs=p.output(wanted))
    return p.built(rtol=1e-3)


@built
def comparisons_of_integers(rng):
    b = Blob()
    places = b.tensor("int32", [2])
    n, d = b.symint(), b.symint()
    b.op("et_vk.select_as_symint.default", [places, b.integer(0), b.integer(0), n])
    b.op("et_vk.select_as_symint.default", [places, b.integer(0), b.integer(1), d])
    outs = [b.symint() for _ in range(5)]
    for name, out in zip(("eq", "lt", "le", "gt", "ge"), outs, strict=True):
        b.op(name, [n, d, out])
    b.inputs, b.outputs = [places], outs
    pairs = ((7, 2), (-7, 2), (3, 3))
    calls = [([np.array([x, y])], [np.array(int(v)) for v in (x == y, x < y, x <= y, x > y, x >= y)]) for x, y in pairs]
    return Built(b, calls)


@built
def embeddings_of_odd_widths(rng):
    """The exporter's own 4-bit embedding, with a scale for each row and with several."""
    p = Program()
    ids = rng.integers(0, 9, (2, 3))
    for width, groups in ((10, 1), (12, 3)):
        weight = rng.integers(0, 256, (9, width // 2), np.uint8)
        scales = floats(rng, 9) if groups == 1 else floats(rng, 9, groups)
        nibbles = np.stack([weight >> 4, weight & 15], -1).reshape(9, width).astype(F32) - 8
        table = nibbles * np.repeat(scales.reshape(9, groups), width // groups, -1)
        rest = (None,), (-8,), (7,), p.input(ids), (None,)
        name = f"{QD}.embedding_4bit.dtype"
        p.op(name, p.b.constant(weight), p.b.constant(scales), *rest, outs=p.output(table[ids]))
    return p.built()
