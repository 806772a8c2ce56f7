"""Elements picked by indices, of all types: more than the exporter emits."""

import numpy as np

from conformance.blob_cases import Built
from conformance.move_blob_cases import TYPES, elements, of_all_types
from support.vk00 import Blob

BUILDERS = {}


def indexed(rng, shape: list[int], where: list[list[int] | None]) -> Built:
    """A tensor of each type, indexed with tensors of the given shapes, or none."""
    b = Blob()
    picks = [None if w is None else rng.integers(-n, n, w) for w, n in zip(where, shape)]  # noqa: B905
    ids = [b.null() if p is None else b.tensor("int32", p.shape) for p in picks]
    given, wanted = [p for p in picks if p is not None], []
    b.inputs.extend(i for i, p in zip(ids, picks, strict=True) if p is not None)
    key = tuple(slice(None) if p is None else p for p in picks)
    for dtype in TYPES:
        x = elements(rng, dtype, *shape)
        out = b.tensor(dtype, x[key].shape)
        b.inputs.append(b.tensor(dtype, shape))
        b.op("aten.index.Tensor", [b.inputs[-1], b.value_list(ids), out])
        b.outputs.append(out)
        given.append(x)
        wanted.append(x[key])
    return Built(b, [(given, wanted)])


for name, shape, where in (
    ("index_rows", [5, 8], [[3]]),
    ("index_long_rows", [5, 48], [[7]]),
    ("index_odd_rows", [5, 3], [[2, 3]]),
    ("index_columns", [4, 5, 8], [None, [3]]),
    ("index_by_scalar", [5, 3], [[]]),
    ("index_two", [5, 4, 3], [[2, 1], [3]]),
    ("index_all", [3, 4, 2], [[5], [5], [1]]),
    ("index_with_gap", [3, 4, 5], [[2, 3], None, [3]]),
    ("index_after_gap", [2, 3, 4, 5], [None, [2], [2]]),
    ("index_two_gaps", [2, 3, 4, 5, 2], [None, [2], None, [3, 1]]),
    ("index_six", [2, 3, 2, 2, 3, 2, 3], [[4]] * 6),
    ("index_by_nothing", [5, 3], [[0]]),
):
    BUILDERS[name] = lambda rng, shape=shape, where=where: indexed(rng, shape, where)

for shape, dim, n in (([], 0, 1), ([7], 0, 3), ([3, 5], 1, 6), ([3, 4, 8], -2, 9), ([2, 3, 2, 2, 1, 2, 2, 4], 6, 3)):

    def selected(rng, shape=shape, dim=dim, n=n):
        picks = rng.integers(-(shape[dim] if shape else 1), shape[dim] if shape else 1, n).astype(np.int32)
        return of_all_types(
            rng,
            "aten.index_select.default",
            shape,
            lambda b, dtype: [b.integer(dim), b.constant(picks)],
            lambda x: np.take(x, picks, dim) if shape else x,
        )

    BUILDERS[f"index_select_{'x'.join(map(str, shape))}_along_{dim}"] = selected

for shape, dim, picked in (([], 0, []), ([5], 0, [7]), ([4, 5], 0, [6, 3]), ([2, 5, 3], -2, [2, 4, 2])):

    def gathered(rng, shape=shape, dim=dim, picked=picked):
        size = shape[dim] if shape else 1
        picks = np.asarray(rng.integers(-size, size, picked), np.int32)
        part = tuple(slice(None) if i == dim % len(shape) else slice(n) for i, n in enumerate(picked))
        return of_all_types(
            rng,
            "aten.gather.default",
            shape,
            lambda b, dtype: [b.integer(dim), b.constant(picks), b.boolean(False)],
            lambda x: np.take_along_axis(x[part], picks, dim) if shape else x,
        )

    BUILDERS[f"gather_{'x'.join(map(str, shape))}_along_{dim}"] = gathered
