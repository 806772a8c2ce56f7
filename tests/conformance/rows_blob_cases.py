"""Ops along rows that the exporter will not emit, or not with these arguments."""

import itertools

import numpy as np

from conformance.blob_cases import Built, floats
from conformance.rows_cases import layer_norm, log_softmax, qparams, rms_norm, softmax
from support.vk00 import Blob

BUILDERS = {}


def built(builder):
    BUILDERS[builder.__name__] = builder
    return builder


QPARAMS = "torchao.choose_qparams_affine.default"


def add_qparams(b: Blob, x: int, block, scale: int, zero: int, eps=None, keepdim=False) -> None:
    null = b.null()
    b.op(
        QPARAMS,
        [
            x,
            b.text("ASYMMETRIC"),
            b.ints(block),
            null,
            b.integer(-128),
            b.integer(127),
            null if eps is None else b.number(eps),
            null,
            null,
            b.boolean(keepdim),
            b.value_list([scale, zero]),
        ],
    )


def qparams_rows(rng, rows: int, width: int) -> np.ndarray:
    """Rows of all kinds: both signs, one sign, zeros, tiny and huge."""
    x = floats(rng, rows, width) * np.exp(rng.uniform(-20, 20, (rows, 1))).astype(np.float32)
    x[1::5] = abs(x[1::5])
    x[2::5] = -abs(x[2::5])
    x[3::7] = 0
    return x


@built
def qparams_of_rows(rng):
    b, ends, inputs, expected = Blob(), [], [], []
    sources = []
    for rows, width in ((1, 2048), (5, 64), (9, 31), (130, 20), (4, 1), (1, 8193)):
        x, scale, zero = b.tensor("float32", [rows, width]), b.tensor("float32", [rows]), b.tensor("int8", [rows])
        # A block of one element is not a folded dimension.
        if width == 1:
            scale, zero = b.tensor("float32", [rows, 1]), b.tensor("int8", [rows, 1])
        add_qparams(b, x, [1, width], scale, zero)
        sources.append(x)
        ends += [scale, zero]
        a = qparams_rows(rng, rows, width)
        inputs.append(a)
        expected += [r.reshape(-1, 1) if width == 1 else r for r in qparams(a)]
    b.inputs, b.outputs = sources, ends
    return Built(b, [(inputs, expected)], rtol=1e-6, atol=0)


@built
def qparams_of_blocks(rng):
    """Part of a row, several dimensions, all of it; with an epsilon, with dimensions kept; in place of int8, int32."""
    b = Blob()
    x = b.tensor("float32", [2, 3, 8])
    ends, expected = [], []
    a = qparams_rows(rng, 6, 8).reshape(2, 3, 8)
    for block, view, shape, kept in (
        ([1, 1, 4], (2, 3, 2, 4), [2, 3, 2], True),
        ([1, 3, 8], (2, 24), [2], False),
        ([2, 3, 8], (48,), [], False),
        ([2, 3, 8], (1, 1, 1, 48), [1, 1, 1], True),
        ([1, 1, 1], (2, 3, 8, 1), [2, 3, 8], False),
    ):
        for eps in (None, 6.1e-5):
            dtype = "int32" if eps else "int8"
            scale, zero = b.tensor("float32", shape), b.tensor(dtype, shape)
            add_qparams(b, x, block, scale, zero, eps, kept)
            ends += [scale, zero]
            s, z = qparams(a.reshape(view), eps or 2.0**-126)
            expected += [s, z.astype("int64" if eps else "int8")]
    b.inputs, b.outputs = [x], ends
    return Built(b, [([a], expected)], rtol=1e-6, atol=0)


@built
def qparams_with_live_rows(rng):
    b = Blob()
    x, scale, zero = b.tensor("float32", [1, 9, 12]), b.tensor("float32", [1, 9]), b.tensor("int8", [1, 9])
    add_qparams(b, x, [1, 1, 12], scale, zero)
    b.inputs, b.outputs = [x], [scale, zero]
    arrays = [qparams_rows(rng, n, 12).reshape(1, n, 12) for n in (9, 1, 4, 0, 7)]
    return Built(b, [([a], list(qparams(a))) for a in arrays], dynamic=True, rtol=1e-6, atol=0)


@built
def sums_with_their_norms(rng):
    """Widths of whole and of broken quads, one row and many, both types."""
    b, inputs, sources, ends, expected = Blob(), [], [], [], []
    for rows, width, dtype in ((1, 2048, "float32"), (5, 18, "float32"), (7, 64, "float16"), (3, 7, "float16")):
        w = floats(rng, width).astype(dtype)
        a, c = floats(rng, 1, rows, width).astype(dtype), floats(rng, 1, rows, width).astype(dtype)
        x, y, total, normed = (b.tensor(dtype, [1, rows, width]) for _ in range(4))
        b.op("nibble.add_rms_norm", [x, y, b.constant(w), b.number(1e-6), b.value_list([total, normed])])
        inputs += [a, c]
        sources += [x, y]
        ends += [total, normed]
        expected += [a + c, rms_norm(a + c, w, 1e-6)]
    b.inputs, b.outputs = sources, ends
    return Built(b, [(inputs, expected)], rtol=2e-3)


@built
def layer_norm_with_its_statistics(rng):
    b = Blob()
    x = b.tensor("float32", [3, 5, 8])
    a = floats(rng, 3, 5, 8) + 3
    ends, expected = [], []
    for dims, has in itertools.product((1, 2), ((True, True), (True, False), (False, True))):
        shape = [3, 5, 8][: 3 - dims] + [1] * dims
        out = b.tensor("float32", [3, 5, 8])
        mean, rstd = (b.tensor("float32", shape) if h else b.null() for h in has)
        null = b.null()
        b.op(
            "aten.native_layer_norm.default",
            [x, b.ints([3, 5, 8][3 - dims :]), null, null, b.number(1e-5), b.value_list([out, mean, rstd])],
        )
        axes = tuple(range(3 - dims, 3))
        values = (a.mean(axes, keepdims=True), 1 / np.sqrt(a.var(axes, keepdims=True) + np.float32(1e-5)))
        ends += [out, *(v for v, h in zip((mean, rstd), has, strict=True) if h)]
        expected += [layer_norm(a, dims), *(v for v, h in zip(values, has, strict=True) if h)]
    b.inputs, b.outputs = [x], ends
    return Built(b, [([a], expected)], rtol=1e-5)


@built
def extremes_of_everything(rng):
    """Several dims, none, all; integers and truth values; a place in the flattened tensor."""
    b = Blob()
    x, i, t = b.tensor("float32", [3, 5, 7]), b.tensor("int32", [3, 5, 7]), b.tensor("bool", [3, 5, 7])
    a = floats(rng, 3, 5, 7)
    ints = rng.integers(-(2**31), 2**31, (3, 5, 7))
    flags = rng.random((3, 5, 7)) < 0.5
    ends, expected = [], []
    for source, array in ((x, a), (i, ints), (t, flags)):
        device = {"float32": "float32", "int64": "int32", "bool": "bool"}[array.dtype.name]
        for name, numpy in (("amax", np.max), ("amin", np.min)):
            for dims in ((0, 2), (1,), (0, 1, 2), ()):
                wanted = numpy(array, axis=dims or None)
                out = b.tensor(device, wanted.shape)
                b.op(f"aten.{name}.default", [source, b.ints(dims), b.boolean(False), out])
                ends.append(out)
                expected.append(np.asarray(wanted))
        for name, numpy in (("argmax", np.argmax), ("argmin", np.argmin)):
            out = b.tensor("int32", [])
            b.op(f"aten.{name}.default", [source, b.null(), b.boolean(False), out])
            ends.append(out)
            expected.append(np.asarray(numpy(array)))
    b.inputs, b.outputs = [x, i, t], ends
    return Built(b, [([a, ints, flags], expected)])


@built
def variances(rng):
    b = Blob()
    x = b.tensor("float32", [3, 5, 7])
    a = floats(rng, 3, 5, 7) + 100
    ends, expected = [], []
    for dims, correction in (((2,), 1), ((0, 1), 0), ((), 2), ((1,), 1)):
        wanted = np.var(a.astype(np.float64), axis=dims or None, ddof=correction).astype(np.float32)
        out = b.tensor("float32", wanted.shape)
        if correction == 2:
            b.op("aten.var.correction", [x, b.ints(dims), b.number(correction), b.boolean(False), out])
        else:
            b.op("aten.var.dim", [x, b.ints(dims), b.boolean(correction == 1), b.boolean(False), out])
        ends.append(out)
        expected.append(wanted)
    b.inputs, b.outputs = [x], ends
    return Built(b, [([a], expected)], rtol=1e-4)


@built
def long_sums_of_two_dims(rng):
    """So many elements of two dimensions that one thread must not fold a line, see long_cases.py."""
    b = Blob()
    x, out = b.tensor("float32", [6, 130, 5000]), b.tensor("float32", [130])
    a = floats(rng, 6, 130, 5000) + np.float32(1)
    b.op("aten.sum.dim_IntList", [x, b.ints([0, 2]), b.boolean(False), b.null(), out])
    b.inputs, b.outputs = [x], [out]
    return Built(b, [([a], [a.astype(np.float64).sum((0, 2)).astype(np.float32)])], rtol=1e-4)


@built
def softmax_of_odd_ranks(rng):
    """A scalar, five dimensions, eight; halves to floats."""
    b, sources, ends, inputs, expected = Blob(), [], [], [], []
    for shape, dim in (((), 0), ((2, 1, 3, 2, 5), -3), ((1, 2, 1, 3, 1, 2, 1, 4), 3), ((3, 8), 1)):
        dtype = "float16" if shape == (3, 8) else "float32"
        x = b.tensor(dtype, shape)
        a = floats(rng, *shape).astype(dtype)
        sources.append(x)
        inputs.append(a)
        for name, numpy in (("_softmax", softmax), ("_log_softmax", log_softmax)):
            out = b.tensor("float32", shape)
            b.op(f"aten.{name}.default", [x, b.integer(dim), b.boolean(True), out])
            ends.append(out)
            wide = a.astype(np.float32)
            expected.append(numpy(wide.reshape(wide.shape or 1), dim).reshape(shape))
    b.inputs, b.outputs = sources, ends
    return Built(b, [(inputs, expected)], rtol=1e-5)
