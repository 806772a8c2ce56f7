"""Programs that the exporter will not emit, built by hand, with what they give in NumPy."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from conformance.embedding_cases import table
from conformance.reference import dequantize_rows, random_ids, reduce
from support.vk00 import Blob

Q4 = "et_vk.embedding_q4gsw.default"


@dataclass(frozen=True)
class Built:
    """A program and its calls: inputs and the results to expect."""

    blob: Blob
    calls: list[tuple[list[np.ndarray], list[np.ndarray]]]
    dynamic: bool = False
    rtol: float = 0.0
    # As rtol if None.
    atol: float | None = None
    # The caller's dtypes in place of the program's, by value.
    host: dict[int, str] | None = None
    # As a case; the web's tests and the record of cases that ran know it by this.
    name: str = ""

    @property
    def tolerances(self) -> tuple[float, float]:
        return self.rtol, self.rtol if self.atol is None else self.atol

    def pte(self) -> bytes:
        for value, dtype in (self.host or {}).items():
            self.blob._host[value] = (dtype, self.blob._host[value][1])
        return self.blob.pte(dynamic=self.dynamic)


def build(builder: Callable[[np.random.Generator], Built], name: str) -> Built:
    """The same program at every call, wherever it is made."""
    with np.errstate(all="ignore"):
        return replace(builder(np.random.default_rng(zlib.crc32(name.encode()))), name=name)


BUILDERS: dict[str, Callable[[np.random.Generator], Built]] = {}


def built(builder):
    BUILDERS[builder.__name__] = builder
    return builder


def floats(rng, *shape) -> np.ndarray:
    return np.asarray(rng.uniform(-2, 2, shape), np.float32)


def q4_program(rng, ids_shape, width=12, group=3, is_linear=False, rows=20, inline=False) -> Built:
    b = Blob()
    weight, scales = table(rng, rows, width, group)
    ids = b.tensor("int32", ids_shape)
    out = b.tensor("float32", [*ids_shape, width])
    weight_id, scales_id = b.constant(weight, inline=inline), b.constant(scales, inline=inline)
    b.op(Q4, [weight_id, scales_id, b.integer(group), ids, b.boolean(is_linear), out])
    b.inputs, b.outputs = [ids], [out]
    calls = [random_ids(rng, rows, tuple(ids_shape)) for _ in range(2)]
    return Built(b, [([i], [dequantize_rows(weight, scales, group, is_linear, i)]) for i in calls])


for shape in ([], [3], [2, 1, 2], [2, 1, 3, 2], [1, 2, 1, 2, 1], [1, 1, 2, 1, 2, 1, 2], [0], [2, 0, 3, 1]):
    for is_linear in (False, True):
        name = f"q4_ids_{'x'.join(map(str, shape)) or 'scalar'}_{'linear' if is_linear else 'swapped'}"
        BUILDERS[name] = lambda rng, shape=shape, is_linear=is_linear: q4_program(rng, shape, is_linear=is_linear)

BUILDERS["q4_inline_table"] = lambda rng: q4_program(rng, [2, 3], inline=True)
BUILDERS["q4_one_row"] = lambda rng: q4_program(rng, [3], rows=1)


@built
def q4_numbers_of_the_other_type(rng):
    """The exporter writes equal scalars once, so a size may come as a double and a truth value as an integer."""
    b = Blob()
    weight, scales = table(rng, 20, 32, 8)
    ids, out = b.tensor("int32", [4]), b.tensor("float32", [4, 32])
    b.op(Q4, [b.constant(weight), b.constant(scales), b.number(8.0), ids, b.integer(1), out])
    b.inputs, b.outputs = [ids], [out]
    wanted = random_ids(rng, 20, (4,))
    return Built(b, [([wanted], [dequantize_rows(weight, scales, 8, True, wanted)])])


@built
def q4_half_result(rng):
    b = Blob()
    weight, scales = table(rng, 20, 32, 8, np.float16)
    ids, out = b.tensor("int32", [4]), b.tensor("float16", [4, 32], staging="float32")
    b.op(Q4, [b.constant(weight), b.constant(scales), b.integer(8), ids, b.boolean(True), out])
    b.inputs, b.outputs = [ids], [out]
    wanted = random_ids(rng, 20, (4,))
    return Built(b, [([wanted], [dequantize_rows(weight, scales, 8, True, wanted)])], rtol=1e-3)


@built
def q4_prepacked_table(rng):
    b = Blob()
    weight, scales = table(rng, 20, 32, 8)
    ids, out = b.tensor("int32", [4]), b.tensor("float32", [4, 32])
    packed, packed_scales = b.tensor("uint8", weight.shape), b.tensor("float32", scales.shape)
    b.op("et_vk.prepack.default", [b.constant(weight), packed])
    b.op("et_vk.prepack.default", [b.constant(scales), packed_scales])
    b.op(Q4, [packed, packed_scales, b.integer(8), ids, b.boolean(True), out])
    b.inputs, b.outputs = [ids], [out]
    wanted = random_ids(rng, 20, (4,))
    return Built(b, [([wanted], [dequantize_rows(weight, scales, 8, True, wanted)])])


@built
def constant_prepacked_twice_and_written_once(rng):
    b = Blob()
    start = floats(rng, 3, 2)
    source = b.constant(start)
    state, kept = b.tensor("float32", [3, 2]), b.tensor("float32", [3, 2])
    x, out = b.tensor("float32", [3, 2]), b.tensor("float32", [3, 2])
    b.op("et_vk.prepack.default", [source, state])
    b.op("et_vk.prepack.default", [source, kept])
    b.op("aten.add.Tensor", [state, x, b.integer(1), state])
    b.op("aten.mul.Tensor", [state, kept, out])
    b.inputs, b.outputs = [x], [out]
    inputs = [floats(rng, 3, 2) for _ in range(3)]
    totals = np.cumsum([start, *inputs], axis=0, dtype=np.float32)[1:]
    return Built(b, [([i], [t * start]) for i, t in zip(inputs, totals, strict=True)], rtol=1e-6)


@built
def embedding_overwrites_its_table(rng):
    """Every row comes from one that the same operator overwrites."""
    b = Blob()
    start = floats(rng, 5, 7)
    state = b.constant(start, mem_obj=1)
    ids, out = b.tensor("int32", [5], mem_obj=0), b.tensor("float32", [5, 7], mem_obj=2)
    off, no = b.integer(-1), b.boolean(False)
    b.op("aten.embedding.default", [state, ids, off, no, no, state])
    b.op("aten.add.Tensor", [state, state, b.integer(1), out])
    b.inputs, b.outputs = [ids], [out]
    calls, now = [], start
    for order in ([4, 0, 1, 2, 3], [1, 0, 3, 2, 2], [4, 3, 2, 1, 0]):
        now = now[order]
        calls.append(([np.array(order)], [now + now]))
    return Built(b, calls)


@built
def state_reads_itself_broadcast(rng):
    """A row of one state is added to all rows of another, and the sums of those go back to the row."""
    b = Blob()
    rows, row = floats(rng, 4, 3), floats(rng, 1, 3)
    rows_id, row_id = b.constant(rows, mem_obj=1), b.constant(row, mem_obj=2)
    x, out = b.tensor("float32", [1, 3]), b.tensor("float32", [4, 3])
    one, keep, none = b.integer(1), b.boolean(True), b.null()
    b.op("aten.add.Tensor", [rows_id, row_id, one, rows_id])
    b.op("aten.mean.dim", [rows_id, b.ints([0]), keep, none, row_id])
    b.op("aten.mul.Tensor", [row_id, row_id, row_id])
    b.op("aten.add.Tensor", [rows_id, x, one, out])
    b.inputs, b.outputs = [x], [out]
    calls = []
    for _ in range(3):
        given = floats(rng, 1, 3)
        rows = rows + row
        row = reduce(rows, (0,), True, is_mean=True) ** 2
        calls.append(([given], [rows + given]))
    return Built(b, calls, rtol=1e-5)


@built
def divided_integers(rng):
    b = Blob()
    x, y, out = b.tensor("int32", [3, 4]), b.tensor("int32", [4]), b.tensor("float32", [3, 4])
    b.op("aten.div.Tensor", [x, y, out])
    b.inputs, b.outputs = [x, y], [out]
    a, d = rng.integers(-1000, 1000, (3, 4)), rng.integers(1, 50, 4)
    return Built(b, [([a, d], [(a / d).astype(np.float32)])], rtol=1e-6)


@built
def integers_with_alpha_as_double(rng):
    b = Blob()
    x, y, out = b.tensor("int32", [3, 4]), b.tensor("int32", [3, 1]), b.tensor("int32", [3, 4])
    b.op("aten.sub.Tensor", [x, y, b.number(2.0), out])
    b.inputs, b.outputs = [x, y], [out]
    a, d = rng.integers(-1000, 1000, (3, 4)), rng.integers(-1000, 1000, (3, 1))
    return Built(b, [([a, d], [a - 2 * d])])


def reduction(rng, op, shape, dims, keepdim) -> Built:
    b = Blob()
    kept = tuple(range(len(shape))) if dims is None or not dims else tuple(d % len(shape) for d in dims)
    given = floats(rng, *shape)
    wanted = reduce(given, kept, keepdim, is_mean=op == "mean")
    x, out = b.tensor("float32", shape), b.tensor("float32", wanted.shape)
    name = {"mean": "aten.mean.dim", "sum": "aten.sum.dim_IntList"}[op]
    b.op(name, [x, b.null() if dims is None else b.ints(dims), b.boolean(keepdim), b.null(), out])
    b.inputs, b.outputs = [x], [out]
    return Built(b, [([given], [wanted])], rtol=2e-5)


for op, shape, dims, keepdim in (
    ("mean", [3, 4, 5], [1], False),
    ("sum", [3, 4, 5], [0], False),
    ("mean", [3, 4, 5], [0, 2], False),
    ("sum", [2, 3, 4, 5], [1, 2, 3], True),
    ("mean", [2, 3, 4, 5], [-3, -1], False),
    ("sum", [2, 3, 4, 5], None, False),
    ("mean", [2, 3, 4, 5], [], True),
    ("mean", [2, 3, 2, 3, 2], [0, 2, 4], False),
    ("sum", [2, 1, 2, 3, 2, 1, 2, 3], [1, 3, 5, 7], True),
    ("sum", [300, 70, 3], [0], False),
    ("mean", [3, 300, 70], [1, 2], False),
    ("sum", [], None, False),
):
    name = f"{op}_{'x'.join(map(str, shape))}_over_{'all' if dims is None else dims}_{'keep' if keepdim else 'drop'}"
    BUILDERS[name.replace(" ", "")] = lambda rng, a=(op, shape, dims, keepdim): reduction(rng, *a)


@built
def summed_integers(rng):
    b = Blob()
    x, out = b.tensor("int32", [3, 4, 5]), b.tensor("int32", [3, 5])
    b.op("aten.sum.dim_IntList", [x, b.ints([1]), b.boolean(False), b.null(), out])
    b.inputs, b.outputs = [x], [out]
    given = rng.integers(-(10**6), 10**6, (3, 4, 5))
    return Built(b, [([given], [given.sum(1)])])


@built
def linear_with_a_scale_per_row(rng):
    b = Blob()
    weight, scales = table(rng, 24, 16, 16)
    x, out = b.tensor("float32", [5, 16]), b.tensor("float32", [5, 24])
    b.op("et_vk.linear_qcs4w.default", [x, b.constant(weight), b.constant(scales.reshape(-1)), out])
    b.inputs, b.outputs = [x], [out]
    a = floats(rng, 5, 16)
    rows = dequantize_rows(weight, scales, 16, False, slice(None)).astype(np.float64)
    return Built(b, [([a], [(a @ rows.T).astype(np.float32)])], rtol=1e-5)


@built
def copies_by_every_name(rng):
    b = Blob()
    x = b.tensor("float32", [2, 1, 3])
    null, no = b.null(), b.boolean(False)
    outs = [b.tensor("float32", [2, 1, 3]) for _ in range(4)]
    b.op("aten._to_copy.default", [x, null, null, null, null, no, null, outs[0]])
    b.op("aten.clone.default", [outs[0], null, outs[1]])
    b.op("aten.alias_copy.default", [outs[1], outs[2]])
    b.op("dim_order_ops._clone_dim_order.default", [outs[2], no, null, outs[3]])
    squeezed, unsqueezed = b.tensor("float32", [2, 3]), b.tensor("float32", [2, 3, 1])
    by_one_dim = b.tensor("float32", [2, 3])
    b.op("aten.squeeze_copy.dims", [outs[3], b.ints([1]), squeezed])
    b.op("aten.squeeze_copy.dim", [outs[3], b.integer(-2), by_one_dim])
    b.op("aten.unsqueeze_copy.default", [squeezed, b.integer(-1), unsqueezed])
    flat = b.tensor("float32", [6])
    b.op("aten.view_copy.default", [unsqueezed, b.ints([-1]), flat])
    b.inputs, b.outputs = [x], [*outs, squeezed, by_one_dim, unsqueezed, flat, x, flat]
    a = floats(rng, 2, 1, 3)
    wanted = [a, a, a, a, a.reshape(2, 3), a.reshape(2, 3), a.reshape(2, 3, 1), a.reshape(6), a, a.reshape(6)]
    return Built(b, [([a], wanted)])


@built
def memory_shared_under_a_view(rng):
    """A tensor with the memory id of one that a view still shows."""
    b = Blob()
    x, one = b.tensor("float32", [2, 3], mem_obj=0), b.integer(1)
    first, view = b.tensor("float32", [2, 3], mem_obj=1), b.tensor("float32", [6], mem_obj=2)
    second, flat = b.tensor("float32", [2, 3], mem_obj=1), b.tensor("float32", [6], mem_obj=3)
    out = b.tensor("float32", [6], mem_obj=4)
    b.op("aten.add.Tensor", [x, x, one, first])
    b.op("aten.view_copy.default", [first, b.ints([6]), view])
    b.op("aten.mul.Tensor", [x, x, second])
    b.op("aten.view_copy.default", [second, b.ints([6]), flat])
    b.op("aten.sub.Tensor", [view, flat, one, out])
    b.inputs, b.outputs = [x], [out]
    a = floats(rng, 2, 3)
    return Built(b, [([a], [((a + a) - a * a).reshape(6)])], rtol=1e-5)


@built
def integers_from_an_input(rng):
    """The last of the positions becomes a size, by way of all the arithmetic that integers have."""
    b = Blob()
    x, places = b.tensor("float32", [24]), b.tensor("int32", [3])
    n, twice, more, less, half = (b.symint() for _ in range(5))
    b.op("et_vk.select_as_symint.default", [places, b.integer(0), b.integer(-1), n])
    b.op("mul", [n, b.integer(2), twice])
    b.op("add", [twice, b.integer(3), more])
    b.op("sub", [more, n, less])
    b.op("floordiv", [less, b.integer(2), half])
    shaped, out = b.tensor("float32", [24, 24]), b.tensor("float32", [24, 24])
    b.op("aten.view_copy.default", [x, b.value_list([n, b.integer(-1)]), shaped])
    b.op("aten.add.Tensor", [shaped, shaped, b.integer(1), out])
    b.inputs, b.outputs = [x, places], [out, twice, less, half]
    a = floats(rng, 24)
    calls = [
        ([a, np.array([7, 7, n])], [(a + a).reshape(n, -1), *map(np.array, (2 * n, n + 3, (n + 3) // 2))])
        for n in (4, 24, 1, 6)
    ]
    return Built(b, calls, dynamic=True)


@built
def floor_of_negative_quotients(rng):
    b = Blob()
    places = b.tensor("int32", [2])
    n, d, out = b.symint(), b.symint(), b.symint()
    b.op("et_vk.select_as_symint.default", [places, b.integer(0), b.integer(0), n])
    b.op("et_vk.select_as_symint.default", [places, b.integer(0), b.integer(1), d])
    b.op("floordiv", [n, d, out])
    b.inputs, b.outputs = [places], [out]
    pairs = ((7, 2), (-7, 2), (7, -2), (-7, -2), (6, 3), (-6, 3), (0, 5))
    return Built(b, [([np.array(p)], [np.array(p[0] // p[1])]) for p in pairs])


@built
def doubles_outside(rng):
    """float64 for the caller, float32 on the device."""
    b = Blob()
    x, y, out = b.tensor("float32", [2, 3]), b.tensor("float32", []), b.tensor("float32", [2, 3])
    b.op("aten.mul.Tensor", [x, y, out])
    b.inputs, b.outputs = [x, y], [out]
    a, s = rng.uniform(-2, 2, (2, 3)), np.array(1.5)
    wanted = (a.astype(np.float32) * np.float32(1.5)).astype(np.float64)
    return Built(b, [([a, s], [wanted])], host={x: "float64", y: "float64", out: "float64"})


@built
def halves_outside(rng):
    b = Blob()
    x, out = b.tensor("float32", [3, 3]), b.tensor("float32", [3, 3])
    b.op("aten.add.Tensor", [x, x, b.integer(1), out])
    b.inputs, b.outputs = [x], [out]
    a = rng.uniform(-2, 2, (3, 3)).astype(np.float16)
    return Built(b, [([a], [a + a])], host={x: "float16", out: "float16"})


@built
def truth_values(rng):
    b = Blob()
    x, f, back = b.tensor("bool", [3, 3]), b.tensor("float32", [3, 3]), b.tensor("bool", [3, 3])
    null, no = b.null(), b.boolean(False)
    b.op("aten._to_copy.default", [x, null, null, null, null, no, null, f])
    b.op("aten._to_copy.default", [f, null, null, null, null, no, null, back])
    b.inputs, b.outputs = [x], [f, back]
    a = rng.random((3, 3)) < 0.5
    return Built(b, [([a], [a.astype(np.float32), a])])
