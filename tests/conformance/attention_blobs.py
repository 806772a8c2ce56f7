"""Attention and caches in forms that the exporter will not emit, built by hand, with what they give in NumPy."""

import numpy as np

from conformance.attention_cases import floats, mask, tables
from conformance.blob_cases import Built
from conformance.reference import attention, cached_attention, rotate_halves, rotate_pairs
from support.vk00 import Blob

SDPA_CACHE = "sdpa_with_kv_cache.default"
BUILDERS = {}


def built(builder):
    BUILDERS[builder.__name__] = builder
    return builder


def start_of(b: Blob, position: int) -> int:
    start = b.symint()
    b.op("et_vk.select_as_symint.default", [position, b.integer(0), b.integer(0), start])
    return start


def cast(array: np.ndarray, dtype: str) -> np.ndarray:
    """Rounded to what a cache of this dtype holds."""
    return array.astype(dtype).astype(np.float32)


def by_head(x: np.ndarray) -> np.ndarray:
    return np.swapaxes(x, 1, 2)


def updated_cache(rng, batch, heads, size, dtype) -> Built:
    """New rows go into a cache, and the operator's output is all of it."""
    b = Blob()
    cache = floats(rng, batch, 7, heads, size).astype(dtype)
    cache_id = b.constant(cache, mem_obj=1)
    position, value = b.tensor("int32", [1]), b.tensor("float32", [batch, 3, heads, size])
    shown, out = b.tensor(dtype, cache.shape), b.tensor("float32", cache.shape)
    b.op("update_cache.default", [value, cache_id, start_of(b, position), shown])
    b.op("aten.add.Tensor", [shown, shown, b.integer(1), out])
    b.inputs, b.outputs = [position, value], [out]
    now, calls = cache.astype(np.float32), []
    for rows, start in ((3, 0), (1, 6), (2, 3), (3, 4), (0, 7)):
        new = floats(rng, batch, rows, heads, size)
        now = now.copy()
        now[:, start : start + rows] = cast(new, dtype)
        calls.append(([np.array([start]), new], [now + now]))
    return Built(b, calls, dynamic=True, rtol=2e-3 if dtype == "float16" else 0.0)


for batch, heads, size in ((1, 2, 4), (1, 1, 3), (2, 3, 5), (3, 1, 1)):
    for dtype in ("float32", "float16"):
        BUILDERS[f"updated_cache_{batch}x{heads}x{size}_{dtype}"] = lambda rng, a=(batch, heads, size, dtype): (
            updated_cache(rng, *a)
        )


def step_by_step(rng, batch, hq, hk, size, positions, dtype, steps, scale=None) -> Built:
    b = Blob()
    caches = [floats(rng, batch, positions, hk, size).astype(dtype) for _ in range(2)]
    cache_ids = [b.constant(c, mem_obj=i) for i, c in enumerate(caches)]
    most = max(rows for rows, _ in steps)
    position = b.tensor("int32", [1])
    q, k, v, out = (b.tensor("float32", [batch, most, h, size]) for h in (hq, hk, hk, hq))
    start = start_of(b, position)
    args = [start, b.integer(1), b.null(), b.integer(0), b.null(), b.null() if scale is None else b.number(scale), out]
    b.op(SDPA_CACHE, [q, k, v, *cache_ids, *args])
    b.inputs, b.outputs = [position, q, k, v], [out]
    state, calls = [c.astype(np.float32) for c in caches], []
    for rows, at in steps:
        new = [floats(rng, batch, rows, h, size) for h in (hq, hk, hk)]
        wanted = cached_attention(new[0], *(cast(x, dtype) for x in new[1:]), *state, at, scale)
        calls.append(([np.array([at]), *new], [wanted]))
    return Built(b, calls, dynamic=True, rtol=2e-3 if dtype == "float16" else 3e-5)


LONG = [(300, 0), (1, 300), (2, 301), (5, 303), (33, 308), (1, 699), (1, 0), (128, 500)]
BUILDERS["cache_long"] = lambda rng: step_by_step(rng, 1, 8, 2, 64, 700, "float32", LONG)
BUILDERS["cache_long_odd"] = lambda rng: step_by_step(rng, 1, 3, 1, 18, 700, "float32", LONG)
BUILDERS["cache_half"] = lambda rng: step_by_step(rng, 1, 4, 2, 20, 90, "float16", [(30, 0), (1, 30), (59, 31)])
BUILDERS["cache_half_odd"] = lambda rng: step_by_step(rng, 1, 3, 3, 5, 90, "float16", [(30, 0), (1, 30), (59, 31)])
BUILDERS["cache_batch"] = lambda rng: step_by_step(rng, 2, 4, 2, 16, 90, "float32", [(7, 0), (1, 7), (80, 8)])
BUILDERS["cache_batch_odd"] = lambda rng: step_by_step(rng, 3, 2, 1, 7, 90, "float32", [(7, 0), (1, 7), (80, 8)], 0.7)


def custom(rng, causal, with_mask, dtype="float32") -> Built:
    """Attention over caches that nothing writes."""
    b = Blob()
    k, v = (floats(rng, 1, 50, 2, 12).astype(dtype) for _ in range(2))
    position, q, out = b.tensor("int32", [1]), b.tensor("float32", [1, 9, 6, 12]), b.tensor("float32", [1, 9, 6, 12])
    bias = b.tensor("float32", [9, 50]) if with_mask else b.null()
    is_causal = b.null() if causal is None else b.boolean(causal)
    b.op(
        "llama.custom_sdpa.default",
        [q, b.constant(k), b.constant(v), start_of(b, position), bias, b.integer(0), is_causal, b.null(), out],
    )
    b.inputs, b.outputs = [position, q, *([bias] if with_mask else [])], [out]
    calls = []
    for rows, start in ((9, 0), (1, 49), (4, 20)):
        given, keys = floats(rng, 1, rows, 6, 12), 50 if with_mask else start + rows
        bias_given = mask(rng, rows, 50)
        over = np.where(np.arange(keys) <= start + np.arange(rows)[:, None], 0, -np.inf) if causal is not False else 0
        seen = [x[:, :keys].astype(np.float32) for x in (k, v)]
        wanted = by_head(attention(*map(by_head, (given, *seen)), bias_given if with_mask else over))
        calls.append(([np.array([start]), given, *([bias_given] if with_mask else [])], [wanted]))
    return Built(b, calls, dynamic=True, rtol=3e-5)


BUILDERS["custom_causal"] = lambda rng: custom(rng, True, False)
BUILDERS["custom_causal_by_default"] = lambda rng: custom(rng, None, False, "float16")
BUILDERS["custom_not_causal"] = lambda rng: custom(rng, False, False)
BUILDERS["custom_masked"] = lambda rng: custom(rng, False, True)


@built
def grouped_heads_without_a_cache(rng):
    b = Blob()
    q, k, v, out = (b.tensor("float32", s) for s in ([2, 6, 5, 8], [2, 2, 70, 8], [2, 2, 70, 8], [2, 6, 5, 8]))
    b.op("et_vk.sdpa.default", [q, k, v, b.null(), b.null(), out])
    b.inputs, b.outputs = [q, k, v], [out]
    given = [floats(rng, *s) for s in ((2, 6, 5, 8), (2, 2, 70, 8), (2, 2, 70, 8))]
    return Built(b, [(given, [attention(*given)])], rtol=3e-5)


@built
def no_keys_give_zeros(rng):
    b = Blob()
    q, k, v, out = (b.tensor("float32", s) for s in ([1, 2, 3, 8], [1, 2, 0, 8], [1, 2, 0, 8], [1, 2, 3, 8]))
    b.op("et_vk.sdpa.default", [q, k, v, b.null(), b.null(), out])
    b.inputs, b.outputs = [q, k, v], [out]
    empty = np.zeros((1, 2, 0, 8), np.float32)
    return Built(b, [([floats(rng, 1, 2, 3, 8), empty, empty], [np.zeros((1, 2, 3, 8), np.float32)])])


def rotated_into_caches(rng, hq, hk, size, form, dtype="float32") -> Built:
    """Rotary embedding, the write to both caches, and attention over them."""
    b = Blob()
    caches = [floats(rng, 1, 40, hk, size).astype(dtype) for _ in range(2)]
    cache_ids = [b.constant(c, mem_obj=i) for i, c in enumerate(caches)]
    cos, sin = tables(rng, 50, size if form == 1 else size // 2)
    position = b.tensor("int32", [2])
    q, k, v, turned, out = (b.tensor("float32", [1, 11, h, size]) for h in (hq, hk, hk, hq, hq))
    start, row = start_of(b, position), b.symint()
    b.op("et_vk.select_as_symint.default", [position, b.integer(0), b.integer(1), row])
    tables_ids = [b.constant(cos), b.constant(sin)]
    b.op("nibble.rope_update_cache", [q, k, v, *tables_ids, *cache_ids, start, row, b.integer(form), turned])
    null = b.null()
    b.op("llama.custom_sdpa.default", [turned, *cache_ids, start, null, b.integer(0), null, null, out])
    b.inputs, b.outputs = [position, q, k, v], [turned, out]
    state, calls = [c.astype(np.float32) for c in caches], []
    for rows, at, table_row in ((11, 0, 0), (1, 11, 11), (3, 12, 2), (1, 39, 49), (2, 5, 40)):
        new = [floats(rng, 1, rows, h, size) for h in (hq, hk, hk)]
        turn = [
            rotate_halves(x, cos, sin, table_row) if form == 1 else rotate_pairs(x, cos[table_row:], sin[table_row:])
            for x in new[:2]
        ]
        wanted = cached_attention(turn[0], cast(turn[1], dtype), cast(new[2], dtype), *state, at)
        calls.append(([np.array([at, table_row]), *new], [turn[0], wanted]))
    return Built(b, calls, dynamic=True, rtol=2e-3 if dtype == "float16" else 3e-5)


for form in (0, 1):
    for hq, hk, size, dtype in (
        (4, 2, 16, "float32"),
        (3, 1, 6, "float32"),
        (4, 2, 20, "float16"),
        (2, 1, 2, "float16"),
    ):
        BUILDERS[f"rotated_into_caches_{form}_{size}_{dtype}"] = lambda rng, a=(hq, hk, size, form, dtype): (
            rotated_into_caches(rng, *a)
        )
