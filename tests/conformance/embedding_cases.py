"""4-bit and plain embeddings."""

import math

import executorch.backends.vulkan.custom_ops_lib  # noqa: F401  (defines torch.ops.et_vk)
import numpy as np
import torch
import torchao.quantization  # noqa: F401  (defines torch.ops.torchao)

from conformance.case import Case
from conformance.reference import dequantize_rows, random_ids, reduce

q4 = torch.ops.et_vk.embedding_q4gsw.default
Dim = torch.export.Dim


def table(rng, rows: int, width: int, group: int, dtype=np.float32) -> tuple[np.ndarray, np.ndarray]:
    """Random nibbles and scales."""
    weight = rng.integers(0, 256, (rows, width // 2), np.uint8)
    scales = (rng.random((rows, width // group), np.float32) - np.float32(0.5)).astype(dtype)
    return weight, scales


def one_table(rows: int, width: int, group: int, dtype=np.float32):
    return lambda rng: dict(zip(("weight", "scales"), table(rng, rows, width, group, dtype), strict=True))


def output_bytes(*shape: int) -> int:
    """The smallest limit that shards may get: inputs and outputs are not split. Tables here are much larger."""
    return -(-4 * math.prod(shape) // 16) * 16


# Both nibble orders with both types of scales.
VARIANTS = [(is_linear, dtype) for is_linear in (True, False) for dtype in (np.float32, np.float16)]


def width_case(width: int, groups: tuple[int, ...], ids_shape: tuple[int, ...], ids_dtype=np.int64) -> Case:
    """One program with a table, and an output, for every group size, nibble order and type of scales."""
    rows = 200
    tables = [(group, is_linear, dtype) for group in groups for is_linear, dtype in VARIANTS]

    def buffers(rng):
        result = {}
        for i, (group, _, dtype) in enumerate(tables):
            result[f"weight{i}"], result[f"scales{i}"] = table(rng, rows, width, group, dtype)
        return result

    def run(m, ids, rows_of):
        return tuple(
            rows_of(getattr(m, f"weight{i}"), getattr(m, f"scales{i}"), group, ids, is_linear)
            for i, (group, is_linear, _) in enumerate(tables)
        )

    return Case(
        name=f"q4_width_{width}",
        torch=lambda m, ids: run(m, ids, q4),
        numpy=lambda m, ids: run(m, ids, lambda w, s, g, i, linear: dequantize_rows(w, s, g, linear, i)),
        calls=lambda rng: [(random_ids(rng, rows, ids_shape, ids_dtype),) for _ in range(2)],
        buffers=buffers,
        shard_bytes=output_bytes(*ids_shape, width),
    )


def q4_case(name, rows, width, group, calls, *, is_linear=True, dtype=np.float32, dynamic=None, **more) -> Case:
    """ids → rows."""
    return Case(
        name=name,
        torch=lambda m, ids: q4(m.weight, m.scales, group, ids, is_linear),
        numpy=lambda m, ids: dequantize_rows(m.weight, m.scales, group, is_linear, ids),
        calls=calls,
        buffers=one_table(rows, width, group, dtype),
        dynamic=dynamic,
        **more,
    )


def lengths(rows: int, *shapes: tuple[int, ...], dtype=np.int64):
    return lambda rng: [(random_ids(rng, rows, shape, dtype),) for shape in shapes]


WIDTHS = [
    width_case(2, (1, 2), (7,)),
    width_case(6, (1, 3), (2, 3)),
    width_case(10, (5, 10), (2, 1, 3)),
    width_case(30, (3, 15), ()),
    width_case(32, (1, 32), (1,)),
    width_case(36, (9, 12), (5,), np.int32),
    width_case(64, (32,), (3, 2, 2), np.int32),
    width_case(96, (3, 32), (1, 1)),
    width_case(250, (5, 125, 250), (2, 2)),
    width_case(256, (8, 64), (3,)),
    width_case(2048, (32, 64, 2048), (1, 4)),
]

LENGTH = Dim("length", min=0, max=64)
ROWS = Dim("rows", max=5)

DYNAMIC = [
    q4_case(
        "q4_dynamic_length",
        1700,
        96,
        8,
        lengths(1700, *((1, n) for n in (5, 64, 0, 1, 17, 2, 64, 3, 0, 33, 63, 4))),
        dynamic=({1: LENGTH},),
        shard_bytes=output_bytes(64, 96),
    ),
    q4_case(
        "q4_dynamic_odd",
        2000,
        30,
        5,
        lengths(2000, *((n,) for n in (9, 1, 0, 64, 2, 31, 3)), dtype=np.int32),
        is_linear=False,
        dtype=np.float16,
        dynamic=({0: LENGTH},),
        shard_bytes=output_bytes(64, 30),
    ),
    q4_case(
        "q4_dynamic_two",
        61,
        64,
        16,
        lengths(61, (2, 3), (5, 64), (1, 1), (4, 0), (3, 7), (5, 1)),
        dynamic=({0: ROWS, 1: LENGTH},),
    ),
    q4_case("q4_no_ids", 61, 64, 16, lengths(61, (0,))),
    # float16 scales and results on the device, float32 for the caller.
    q4_case(
        "q4_forced_half", 61, 64, 16, lengths(61, (2, 3)), options={"force_fp16": True}, rtol=2e-3, shard_bytes=1600
    ),
]


def mean_case(name: str, rows: int, width: int, group: int, most: int) -> Case:
    """The shape of a bag-of-words sentence encoder: the mean over a dynamic number of rows; over none it is NaN."""
    return Case(
        name=name,
        torch=lambda m, ids: q4(m.weight, m.scales, group, ids, True).mean(1, keepdim=True),
        numpy=lambda m, ids: reduce(dequantize_rows(m.weight, m.scales, group, True, ids), (1,), True, is_mean=True),
        calls=lengths(rows, *((1, n) for n in (7, most, 0, 1, 30, 2, most - 1, 0, 5))),
        buffers=one_table(rows, width, group),
        dynamic=({1: Dim("length", min=0, max=most)},),
        rtol=1e-5,
        atol=1e-6,
        shard_bytes=rows * width // 5,
    )


def torchao_embedding(m, ids):
    """What torchao's 4-bit weight-only quantization makes of an nn.Embedding; the exporter fuses and packs it."""
    weight = torch.ops.torchao.dequantize_affine(m.values, [1, 32], m.scales, m.zeros, torch.int8, -8, 7)
    return torch.nn.functional.embedding(ids, weight)


COMPUTED = [
    Case(
        name="q4_torchao",
        torch=torchao_embedding,
        numpy=lambda m, ids: m.values[ids].astype(np.float32) * np.repeat(m.scales[ids], 32, axis=-1),
        calls=lengths(200, (2, 3), (2, 3)),
        buffers=lambda rng: {
            "values": rng.integers(-8, 8, (200, 64), np.int8),
            "scales": rng.random((200, 2), np.float32),
            "zeros": np.zeros((200, 2), np.int8),
        },
        shard_bytes=output_bytes(2, 3, 64),
    ),
    mean_case("q4_mean", 6000, 256, 32, 128),
    Case(
        name="q4_computed_ids",
        torch=lambda m, ids: q4(m.weight, m.scales, 32, ids + 1, True),
        numpy=lambda m, ids: dequantize_rows(m.weight, m.scales, 32, True, ids + 1),
        calls=lambda rng: [(rng.integers(-1, 199, (1, n)),) for n in (5, 8, 0, 1, 3)],
        buffers=one_table(200, 64, 32),
        dynamic=({1: Dim("length", min=0, max=8)},),
        shard_bytes=output_bytes(8, 64),
    ),
    Case(
        name="q4_computed_ids_odd",
        torch=lambda m, ids, more: q4(m.weight, m.scales, 3, ids - more, False),
        numpy=lambda m, ids, more: dequantize_rows(m.weight, m.scales, 3, False, ids - more),
        calls=lambda rng: [(rng.integers(100, 200, (2, 3), np.int32), rng.integers(0, 101, (3,), np.int32))],
        buffers=one_table(200, 6, 3),
        shard_bytes=output_bytes(2, 3, 6),
    ),
    Case(
        name="q4_table_twice",
        torch=lambda m, ids: q4(m.weight, m.scales, 16, ids, True) + q4(m.weight, m.scales, 16, ids + 1, False),
        numpy=lambda m, ids: (
            dequantize_rows(m.weight, m.scales, 16, True, ids) + dequantize_rows(m.weight, m.scales, 16, False, ids + 1)
        ),
        calls=lambda rng: [(rng.integers(0, 199, (2, 4)),) for _ in range(2)],
        buffers=one_table(200, 32, 16),
        shard_bytes=output_bytes(2, 4, 32),
    ),
]


def plain_case(name, rows, width, calls, *, dtype=np.float32, **more) -> Case:
    return Case(
        name=name,
        torch=lambda m, ids: torch.nn.functional.embedding(ids, m.weight),
        numpy=lambda m, ids: m.weight[ids],
        calls=calls,
        buffers=lambda rng: {"weight": rng.standard_normal((rows, width)).astype(dtype)},
        **more,
    )


PLAIN = [
    plain_case("embedding_odd", 23, 7, lengths(23, (2, 3), (2, 3)), shard_bytes=output_bytes(2, 3, 7)),
    plain_case("embedding_one_wide", 23, 1, lengths(23, (5,))),
    plain_case("embedding_half", 23, 7, lengths(23, (2, 3), dtype=np.int32), dtype=np.float16, shard_bytes=100),
    plain_case(
        "embedding_dynamic",
        300,
        8,
        lengths(300, *((n,) for n in (5, 0, 64, 1, 2))),
        dynamic=({0: LENGTH},),
        shard_bytes=output_bytes(64, 8),
    ),
    # The exporter stores the table as float16 and gives float32.
    plain_case(
        "embedding_forced_half", 23, 10, lengths(23, (2, 3)), options={"force_fp16": True}, rtol=1e-3, atol=1e-5
    ),
    Case(
        name="embedding_table_is_input",
        torch=lambda m, ids, weight: torch.nn.functional.embedding(ids, weight),
        numpy=lambda m, ids, weight: weight[ids],
        calls=lambda rng: [(random_ids(rng, 9, (4,)), rng.random((9, 6), np.float32)) for _ in range(2)],
    ),
    Case(
        name="embedding_computed_ids",
        torch=lambda m, ids: torch.nn.functional.embedding(ids * 2, m.weight),
        numpy=lambda m, ids: m.weight[ids * 2],
        calls=lambda rng: [(rng.integers(0, 12, (2, 3)),) for _ in range(2)],
        buffers=lambda rng: {"weight": rng.random((23, 5), np.float32)},
        shard_bytes=output_bytes(2, 3, 5),
    ),
]


def large_case(name, rows, width, group, *, dtype=np.float32, is_linear=True) -> Case:
    def eager(m, ids):
        # The operator in eager torch unpacks the whole table; these rows alone give the same.
        rows, places = torch.unique(ids, return_inverse=True)
        return q4(m.weight[rows], m.scales[rows], group, places, is_linear)

    return q4_case(
        name,
        rows,
        width,
        group,
        lengths(rows, (1, 7), (1, 512), (1, 1)),
        is_linear=is_linear,
        dtype=dtype,
        dynamic=({1: Dim("length", max=512)},),
        eager=eager,
    )


LARGE = [
    # The token embedding of Llama 3.2 1B.
    large_case("q4_llama_group_32", 128256, 2048, 32),
    large_case("q4_llama_group_64", 128256, 2048, 64),
    # 143 MB of nibbles: more than lavapipe binds.
    large_case("q4_over_128_mib", 140000, 2048, 2048, dtype=np.float16, is_linear=False),
]

SMALL = WIDTHS + DYNAMIC + COMPUTED + PLAIN
