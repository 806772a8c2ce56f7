"""4-bit linears with an offset for each group (GGUF's Q4_1): a linear, and a product with the sums of x."""

from dataclasses import dataclass
from pathlib import Path

import executorch.backends.vulkan.custom_ops_lib  # noqa: F401  (defines torch.ops.et_vk)
import numpy as np
import torch

from conformance.case import Case, Function, as_tensor

Dim = torch.export.Dim
ROWS = Dim("rows", max=40)
WEIGHTS = ("a", "b", "c")


def floats(rng, *shape) -> np.ndarray:
    return np.asarray(rng.uniform(-1, 1, shape), np.float32)


def unpacked(packed, xp):
    """Nibbles [columns, depth], the low one of a byte first, as numbers from -8 on."""
    return xp.stack([packed & 15, packed >> 4], -1).reshape(packed.shape[0], -1) - 8.0


@dataclass(frozen=True)
class OffsetCase(Case):
    by_nibble = True

    def write(self, folder: Path):
        """By nibble.export: the stock partitioner delegates 4-bit linears that it makes itself, but not this call."""
        import nibble

        buffers, calls = self.make_buffers(), self.make_calls()
        example = tuple(map(as_tensor, calls[0]))
        shapes = (self.dynamic,) if self.dynamic else None
        module = Function(self.torch, **buffers)
        nibble.export(module, example, shapes, folder / "model.pte", compile_options=self.options)
        return calls, {"torch": self.run_torch(buffers, calls), "numpy": self.run_numpy(buffers, calls)}


def offset_case(name, widths, depth, group, shapes, *, is_gated=False, **more) -> Case:
    """Linears of one x that share its sums; or silu of the first, times the second."""
    names = WEIGHTS[: len(widths)]

    def results(outs, silu):
        return silu(outs[0]) * outs[1] if is_gated else tuple(outs)

    def on_torch(m, x):
        sums = x.reshape(*x.shape[:-1], depth // group, group).sum(-1)
        return results(
            [
                torch.ops.et_vk.linear_q4gsw(x, getattr(m, n), getattr(m, f"{n}_scales"), group, None)
                + sums @ getattr(m, f"{n}_offsets")
                for n in names
            ],
            torch.nn.functional.silu,
        )

    def eager(m, x):
        outs = []
        for n in names:
            scales, offsets = (getattr(m, f"{n}_{of}").repeat_interleave(group, 0).T for of in ("scales", "offsets"))
            weight = unpacked(getattr(m, n).to(torch.float32).to(torch.int64), torch) * scales + offsets
            outs.append(torch.nn.functional.linear(x, weight))
        return results(outs, torch.nn.functional.silu)

    def on_numpy(m, x):
        outs = []
        for n in names:
            scales, offsets = (np.repeat(getattr(m, f"{n}_{of}"), group, 0).T for of in ("scales", "offsets"))
            weight = unpacked(getattr(m, n).astype(np.float64).astype(np.int64), np) * scales + offsets
            outs.append((x.astype(np.float64) @ weight.astype(np.float64).T).astype(np.float32))
        return results(outs, lambda v: v / (1 + np.exp(-v)))

    def buffers(rng):
        made = {}
        for n, width in zip(names, widths, strict=True):
            made[n] = rng.integers(0, 256, (width, depth // 2), np.uint8)
            made[f"{n}_scales"] = floats(rng, depth // group, width)
            made[f"{n}_offsets"] = floats(rng, depth // group, width) * np.float32(8)
        return made

    return OffsetCase(
        name=name,
        torch=on_torch,
        eager=eager,
        numpy=on_numpy,
        calls=lambda rng: [(floats(rng, *shape),) for shape in shapes],
        buffers=buffers,
        **{"rtol": 2e-5, "atol": 2e-4} | more,
    )


HALF = {"options": {"force_fp16": True}, "rtol": 1e-2, "atol": 1.0}
ALL = [
    offset_case("offsets_one_row", [48], 64, 32, [(1, 64), (1, 64)]),
    offset_case("offsets_many_rows", [36], 96, 32, [(33, 96)]),
    offset_case("offsets_one_group", [20], 32, 32, [(2, 32)]),
    offset_case("offsets_small_groups", [20], 48, 16, [(1, 5, 48)]),
    offset_case("offsets_odd_width", [37], 128, 64, [(2, 128)]),
    offset_case("offsets_parts", [64, 32, 32], 128, 32, [(1, 5, 128)]),
    offset_case("offsets_parts_of_small_groups", [64, 32, 32], 96, 16, [(2, 96)]),
    offset_case("offsets_gated", [72, 72], 128, 64, [(1, 2, 128)], is_gated=True, atol=1e-2, rtol=1e-4),
    offset_case("offsets_dynamic", [36, 8], 64, 32, [(1, n, 64) for n in (5, 33, 1, 0, 2, 40)], dynamic=({1: ROWS},)),
    offset_case("offsets_sharded", [512], 64, 32, [(4, 64)], shard_bytes=8192),
    offset_case("offsets_in_shards", [512], 64, 32, [(4, 64)], shard_bytes=2048),
    offset_case("offsets_half", [36, 8], 64, 32, [(3, 64)], **HALF),
    offset_case("offsets_half_odd", [22], 64, 32, [(5, 64)], **HALF),
]
