"""Attention with and without caches, and rotary embedding."""

import executorch.backends.vulkan.custom_ops_lib  # noqa: F401  (registers et_vk)
import numpy as np
import torch
from executorch.extension.llm.custom_ops import custom_ops  # noqa: F401  (registers llama)

from conformance.case import Case
from conformance.reference import attention, cached_attention, rotate_halves, rotate_pairs

Dim = torch.export.Dim
et_vk, llama = torch.ops.et_vk, torch.ops.llama


def floats(rng, *shape) -> np.ndarray:
    return np.asarray(rng.uniform(-2, 2, shape), np.float32)


def in_chunks(inputs, size: int):
    return [inputs[i : i + size] for i in range(0, len(inputs), size)]


# --- rotary embedding: batch, rows, heads of q, heads of k, elements ---

HEADS = [(1, 5, 4, 2, 18), (1, 1, 3, 3, 2), (2, 3, 4, 1, 20), (1, 7, 8, 2, 64), (1, 2, 1, 5, 6)]


def tables(rng, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    angles = rng.uniform(-np.pi, np.pi, (rows, columns))
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def rotary_inputs(rng, width_of, extra_rows=0):
    return tuple(
        array
        for b, s, hq, hk, d in HEADS
        for array in (floats(rng, b, s, hq, d), floats(rng, b, s, hk, d), *tables(rng, s + extra_rows, width_of(d)))
    )


def pairs_torch(m, *inputs):
    return tuple(out for chunk in in_chunks(inputs, 4) for out in et_vk.apply_rotary_emb(*chunk))


def pairs_numpy(m, *inputs):
    return tuple(rotate_pairs(x, c, s) for q, k, c, s in in_chunks(inputs, 4) for x in (q, k))


def halves_torch(m, *inputs):
    return tuple(out for chunk in in_chunks(inputs, 4) for out in et_vk.apply_rotary_emb_hf(*chunk, 2))


def halves_numpy(m, *inputs):
    return tuple(rotate_halves(x, c, s, 2) for q, k, c, s in in_chunks(inputs, 4) for x in (q, k))


def position(start):
    """A position that the program reads from an input, as the exporter's own models do."""
    value = start[-1].item()
    torch._check_is_size(value)
    torch._check(value < 48)
    return value


def interleaved_numpy(m, *inputs):
    return tuple(
        rotate_pairs(x[:, :, None], f.reshape(-1, x.shape[2])[:, 0::2], f.reshape(-1, x.shape[2])[:, 1::2])[:, :, 0]
        for x, f in in_chunks(inputs, 2)
    )


N = Dim("n", max=32)

ROTARY = [
    Case(
        name="rotary_pairs",
        torch=pairs_torch,
        numpy=pairs_numpy,
        calls=lambda rng: [rotary_inputs(rng, lambda d: d // 2) for _ in range(2)],
        rtol=1e-5,
        atol=1e-5,
    ),
    Case(
        name="rotary_pairs_half",
        torch=pairs_torch,
        numpy=pairs_numpy,
        calls=lambda rng: [rotary_inputs(rng, lambda d: d // 2)],
        options={"force_fp16": True},
        rtol=5e-3,
        atol=5e-3,
    ),
    Case(
        name="rotary_halves",
        torch=halves_torch,
        numpy=halves_numpy,
        calls=lambda rng: [rotary_inputs(rng, lambda d: d, extra_rows=4) for _ in range(2)],
        rtol=1e-5,
        atol=1e-5,
    ),
    # Only the first elements of a head turn.
    Case(
        name="rotary_halves_of_a_part",
        torch=halves_torch,
        numpy=halves_numpy,
        calls=lambda rng: [rotary_inputs(rng, lambda d: (d + 1) // 4 * 2, extra_rows=2)],
        rtol=1e-5,
        atol=1e-5,
    ),
    Case(
        name="rotary_dynamic",
        torch=lambda m, q, k, start: et_vk.apply_rotary_emb_hf(q, k, m.cos, m.sin, position(start)),
        numpy=lambda m, q, k, start: tuple(rotate_halves(x, m.cos, m.sin, start[-1]) for x in (q, k)),
        buffers=lambda rng: dict(zip(("cos", "sin"), tables(rng, 80, 20), strict=True)),
        calls=lambda rng: [
            (floats(rng, 1, n, 4, 20), floats(rng, 1, n, 2, 20), np.array([start]))
            for n, start in ((3, 5), (32, 47), (1, 0), (0, 7), (17, 40))
        ],
        dynamic=({1: N}, {1: N}, None),
        rtol=1e-5,
        atol=1e-5,
    ),
    Case(
        name="rotary_interleaved",
        torch=lambda m, *inputs: tuple(et_vk.apply_rotary_emb_interleaved(x, f) for x, f in in_chunks(inputs, 2)),
        numpy=interleaved_numpy,
        calls=lambda rng: [
            (
                floats(rng, 2, 3, 8),
                floats(rng, 3, 8),
                floats(rng, 1, 5, 6),
                floats(rng, 1, 5, 3, 2),
                floats(rng, 1, 1, 2),
                floats(rng, 1, 2),
            )
        ],
        rtol=1e-5,
        atol=1e-5,
    ),
]

# --- attention over whole tensors: batch, heads, rows, keys, elements ---

SIZES = [
    (1, 1, 1, 1, 1),
    (2, 3, 5, 7, 3),
    (1, 2, 9, 4, 4),
    (1, 4, 1, 300, 18),
    (2, 2, 33, 65, 20),
    (1, 3, 10, 130, 64),
    (1, 2, 3, 5, 84),
    (1, 1, 17, 17, 256),
    (1, 2, 6, 11, 255),
]
# What is left of [batch, heads, rows, keys] in a mask.
MASKS = [(1, 1, 1, 1), (0, 1, 1, 1), (1, 0, 1, 1), (1, 1, 0, 1), (0, 0, 1, 1), (0, 0, 0, 1), (1, 1, 1, 0), (0, 0, 0, 0)]


def qkv(rng, b, h, rows, keys, d):
    return floats(rng, b, h, rows, d), floats(rng, b, h, keys, d), floats(rng, b, h, keys, d)


def mask(rng, *shape) -> np.ndarray:
    return np.where(rng.random(shape) < 0.3, -np.inf, rng.uniform(-3, 3, shape)).astype(np.float32)


def masked_inputs(rng):
    inputs = []
    for kept in MASKS:
        sizes = [n if k else 1 for n, k in zip((2, 3, 5, 70), kept, strict=True)]
        inputs += [*qkv(rng, 2, 3, 5, 70, 12), mask(rng, *sizes)]
    # A row that sees nothing.
    inputs[3][1, 2, 3] = -np.inf
    return tuple(inputs)


SDPA = [
    Case(
        name="sdpa_sizes",
        torch=lambda m, *inputs: tuple(et_vk.sdpa(*chunk) for chunk in in_chunks(inputs, 3)),
        numpy=lambda m, *inputs: tuple(attention(*chunk) for chunk in in_chunks(inputs, 3)),
        calls=lambda rng: [tuple(x for size in SIZES for x in qkv(rng, *size)) for _ in range(2)],
        rtol=1e-5,
        atol=2e-5,
    ),
    Case(
        name="sdpa_masks",
        torch=lambda m, *inputs: tuple(et_vk.sdpa(*chunk) for chunk in in_chunks(inputs, 4)),
        numpy=lambda m, *inputs: tuple(attention(*chunk) for chunk in in_chunks(inputs, 4)),
        calls=lambda rng: [masked_inputs(rng)],
        rtol=1e-5,
        atol=2e-5,
    ),
    Case(
        name="sdpa_scales",
        torch=lambda m, q, k, v: (et_vk.sdpa(q, k, v, None, 0.5), et_vk.sdpa(q, k, v, None, -2.0)),
        numpy=lambda m, q, k, v: (attention(q, k, v, scale=0.5), attention(q, k, v, scale=-2.0)),
        calls=lambda rng: [qkv(rng, 1, 2, 5, 9, 8)],
        rtol=1e-5,
        atol=2e-5,
    ),
    Case(
        name="sdpa_large_scores",
        torch=lambda m, q, k, v: et_vk.sdpa(q * 30, k, v),
        numpy=lambda m, q, k, v: attention(q * 30, k, v),
        calls=lambda rng: [qkv(rng, 1, 2, 5, 400, 16)],
        rtol=1e-4,
        atol=1e-4,
    ),
    Case(
        name="sdpa_half",
        torch=lambda m, q, k, v, mask: (et_vk.sdpa(q, k, v), et_vk.sdpa(q, k, v, mask)),
        numpy=lambda m, q, k, v, mask: (attention(q, k, v), attention(q, k, v, mask)),
        calls=lambda rng: [(*qkv(rng, 1, 3, 7, 90, 18), mask(rng, 1, 1, 7, 90)) for _ in range(2)],
        options={"force_fp16": True},
        rtol=1e-2,
        atol=1e-2,
    ),
    Case(
        name="sdpa_dynamic",
        torch=lambda m, q, k, v: et_vk.sdpa(q, k, v),
        numpy=lambda m, q, k, v: attention(q, k, v),
        calls=lambda rng: [
            qkv(rng, 1, 2, n, k, 16) for n, k in ((3, 4), (32, 300), (1, 1), (1, 300), (0, 5), (5, 257))
        ],
        dynamic=({2: N}, {2: Dim("k", max=300)}, {2: Dim("k", max=300)}),
        rtol=1e-5,
        atol=2e-5,
    ),
]

# --- caches: heads of q, heads of k, elements; all caches of a program have one number of positions ---

POSITIONS = 48
GROUPS = [(4, 2, 18), (6, 2, 20), (4, 1, 84), (3, 3, 1), (8, 2, 64), (2, 1, 256), (5, 5, 3)]
# Rows and start of each call: a prompt, steps, a longer one, the very end, then a new prompt.
STEPS = [(5, 0), (1, 5), (1, 6), (13, 7), (1, 20), (26, 21), (1, 47), (48, 0), (2, 0), (1, 2)]


def cache_buffers(rng, groups=GROUPS):
    return {
        f"{kind}{i}": floats(rng, 1, POSITIONS, hk, d) for i, (_, hk, d) in enumerate(groups) for kind in ("k", "v")
    }


def cached_torch(m, start, *inputs):
    at, outs = position(start), []
    for i, (q, k, v) in enumerate(in_chunks(inputs, 3)):
        keys, values = getattr(m, f"k{i}"), getattr(m, f"v{i}")
        torch._check(at + q.size(1) <= POSITIONS)
        llama.update_cache(k, keys, at)
        llama.update_cache(v, values, at)
        outs.append(llama.custom_sdpa(q, keys, values, at, None, 0, True))
    return tuple(outs)


def cached_numpy(m, start, *inputs):
    return tuple(
        cached_attention(q, k, v, getattr(m, f"k{i}"), getattr(m, f"v{i}"), start[-1])
        for i, (q, k, v) in enumerate(in_chunks(inputs, 3))
    )


def cached_call(rng, rows, start, groups=GROUPS):
    return (
        np.array([start]),
        *(x for hq, hk, d in groups for x in (floats(rng, 1, rows, h, d) for h in (hq, hk, hk))),
    )


ROWS = Dim("rows", max=POSITIONS)

CACHED = [
    Case(
        name="cached_attention",
        torch=cached_torch,
        numpy=cached_numpy,
        buffers=cache_buffers,
        calls=lambda rng: [cached_call(rng, *step) for step in STEPS],
        dynamic=(None, *[{1: ROWS}] * 3 * len(GROUPS)),
        rtol=1e-5,
        atol=2e-5,
    ),
    Case(
        name="cached_attention_one_row",
        torch=cached_torch,
        numpy=cached_numpy,
        buffers=cache_buffers,
        calls=lambda rng: [cached_call(rng, 1, start) for start in (3, 4, 5, 47, 0, 1)],
        rtol=1e-5,
        atol=2e-5,
    ),
    Case(
        name="cached_attention_half",
        torch=cached_torch,
        numpy=cached_numpy,
        buffers=cache_buffers,
        calls=lambda rng: [cached_call(rng, *step) for step in STEPS],
        dynamic=(None, *[{1: ROWS}] * 3 * len(GROUPS)),
        options={"force_fp16": True},
        rtol=1e-2,
        atol=1e-2,
    ),
]

ALL = ROTARY + SDPA + CACHED
