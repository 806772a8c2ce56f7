"""Matrix products: 4-bit linears as torchao quantizes them, and plain ones."""

import numpy as np
import torch
import torchao.quantization  # noqa: F401  (defines torch.ops.torchao)

from conformance.case import Case

Dim = torch.export.Dim
ROWS = Dim("rows", max=40)
DEPTH, WIDTH = Dim("depth", max=64), Dim("width", max=64)


def floats(rng, *shape) -> np.ndarray:
    return np.asarray(rng.uniform(-1, 1, shape), np.float32)


def product(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """x times the transpose of the weight, in float64 and rounded once."""
    return (x.astype(np.float64) @ weight.astype(np.float64).T).astype(np.float32)


def q4_case(name, columns, depth, group, shapes, *, bias=False, dynamic=None, atol=1e-4, **more) -> Case:
    """What torchao's 4-bit weight-only quantization makes of an nn.Linear; the exporter fuses and packs it."""

    def on_torch(m, x):
        weight = torch.ops.torchao.dequantize_affine(m.values, [1, group], m.scales, m.zeros, torch.int8, -8, 7)
        return torch.nn.functional.linear(x, weight, m.bias if bias else None)

    def on_numpy(m, x):
        weight = m.values.astype(np.float32) * np.repeat(m.scales, group, axis=-1)
        return product(x, weight) + (m.bias if bias else np.float32(0))

    return Case(
        name=name,
        torch=on_torch,
        numpy=on_numpy,
        calls=lambda rng: [(floats(rng, *shape),) for shape in shapes],
        buffers=lambda rng: {
            "values": rng.integers(-8, 8, (columns, depth), np.int8),
            "scales": floats(rng, columns, depth // group),
            "zeros": np.zeros((columns, depth // group), np.int8),
            **({"bias": floats(rng, columns)} if bias else {}),
        },
        dynamic=dynamic,
        rtol=1e-5,
        atol=atol,
        **more,
    )


Q4 = [
    q4_case("linear_q4_one_row", 48, 64, 32, [(1, 64), (1, 64)], bias=True),
    q4_case("linear_q4_many_rows", 36, 96, 32, [(3, 5, 96), (3, 5, 96)]),
    q4_case("linear_q4_small_groups", 20, 48, 4, [(7, 48)], bias=True),
    q4_case("linear_q4_odd_group", 8, 36, 9, [(2, 36)]),
    q4_case(
        "linear_q4_dynamic",
        100,
        64,
        32,
        [(1, n, 64) for n in (5, 40, 1, 0, 2, 39, 4, 1, 17)],
        dynamic=({1: ROWS},),
        bias=True,
    ),
    # The exporter has no widths that are no multiple of four: those are in tests/device.
    q4_case("linear_q4_sharded", 512, 64, 64, [(4, 64)], shard_bytes=8192),
    q4_case("linear_q4_forced_half", 36, 64, 32, [(3, 64)], options={"force_fp16": True}, atol=3e-2, bias=True),
]


def linear_case(name, shape, columns, *, bias=True, **more) -> Case:
    depth = shape[-1]
    return Case(
        name=name,
        torch=lambda m, x: torch.nn.functional.linear(x, m.weight, m.bias if bias else None),
        numpy=lambda m, x: product(x, m.weight) + (m.bias if bias else np.float32(0)),
        calls=lambda rng: [(floats(rng, *shape),) for _ in range(2)],
        buffers=lambda rng: {"weight": floats(rng, columns, depth), **({"bias": floats(rng, columns)} if bias else {})},
        **{"rtol": 1e-5, "atol": 2e-5, **more},
    )


PLAIN = [
    linear_case("linear_plain", (5, 24), 12),
    linear_case("linear_plain_odd", (2, 3, 7), 5, bias=False),
    linear_case("linear_plain_one_row", (1, 64), 33),
    linear_case("linear_plain_sharded", (3, 16), 40, shard_bytes=512),
    linear_case("linear_forced_half", (3, 16), 6, options={"force_fp16": True}, rtol=5e-3, atol=2e-2),
    Case(
        name="products_of_matrices",
        torch=lambda m, a, b, c, d, bias: (
            torch.mm(a, b),
            torch.bmm(c, d),
            torch.addmm(bias, a, b),
            torch.addmm(bias, a, b, beta=2.0, alpha=0.5),
        ),
        numpy=lambda m, a, b, c, d, bias: (
            product(a, b.T),
            np.stack([product(i, j.T) for i, j in zip(c, d, strict=True)]),
            product(a, b.T) + bias,
            np.float32(0.5) * product(a, b.T) + 2 * bias,
        ),
        calls=lambda rng: [
            (floats(rng, 9, 13), floats(rng, 13, 6), floats(rng, 3, 5, 8), floats(rng, 3, 8, 12), floats(rng, 6))
        ],
        rtol=1e-5,
        atol=2e-5,
    ),
    Case(
        name="products_with_sharded_constants",
        torch=lambda m, x: (torch.mm(x, m.w), torch.addmm(m.bias, x, m.w), torch.bmm(x[None], m.v[None])),
        numpy=lambda m, x: (product(x, m.w.T), product(x, m.w.T) + m.bias, product(x, m.v.T)[None]),
        calls=lambda rng: [(floats(rng, 9, 13),), (floats(rng, 9, 13),)],
        buffers=lambda rng: {"w": floats(rng, 13, 37), "v": floats(rng, 13, 24), "bias": floats(rng, 37)},
        rtol=1e-5,
        atol=2e-5,
        shard_bytes=600,
    ),
    # The exporter leaves the widened weight to the method, which passes it to the delegate.
    Case(
        name="linear_of_a_constant_of_the_method",
        torch=lambda m, x: torch.nn.functional.linear(x, m.weight.to(x.dtype)) * m.scales,
        numpy=lambda m, x: product(x, m.weight.astype(np.float32)) * m.scales,
        calls=lambda rng: [(floats(rng, 2, 8),), (floats(rng, 2, 8),)],
        buffers=lambda rng: {"weight": rng.integers(-127, 128, (5, 8), dtype=np.int8), "scales": floats(rng, 5)},
        settings={"do_quant_fusion_and_const_prop": True},
        rtol=1e-5,
        atol=1e-3,
    ),
    Case(
        name="bmm_dynamic",
        torch=lambda m, a, b: torch.bmm(a, b),
        numpy=lambda m, a, b: np.stack([product(i, j.T) for i, j in zip(a, b, strict=True)]),
        calls=lambda rng: [(floats(rng, 2, n, 8), floats(rng, 2, 8, 10)) for n in (3, 40, 1, 0, 5)],
        dynamic=({1: ROWS}, None),
        rtol=1e-5,
        atol=2e-5,
    ),
    Case(
        # Whether rows are whole vec4s is known at the call.
        name="bmm_dynamic_sizes",
        torch=lambda m, a, b: torch.bmm(a, b),
        numpy=lambda m, a, b: np.stack([product(i, j.T) for i, j in zip(a, b, strict=True)]),
        calls=lambda rng: [
            (floats(rng, 2, 5, n), floats(rng, 2, n, m)) for n, m in ((16, 12), (5, 12), (16, 7), (1, 1), (3, 0))
        ],
        dynamic=({2: DEPTH}, {1: DEPTH, 2: WIDTH}),
        rtol=1e-5,
        atol=2e-5,
    ),
]

ALL = Q4 + PLAIN
