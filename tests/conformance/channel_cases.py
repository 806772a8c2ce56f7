"""Channels brought to unit size."""

import numpy as np
import torch
from torch.nn.functional import group_norm

from conformance.case import Case
from conformance.rows_cases import floats
from conformance.sample_cases import DYNAMIC, images


def numpy_batch_norm(x, mean, variance, weight=None, bias=None, eps=1e-5):
    mean, variance, weight, bias = (
        v if v is None else v.reshape(-1, *[1] * (x.ndim - 2)).astype(np.float64)
        for v in (mean, variance, weight, bias)
    )
    scaled = (x - mean) / np.sqrt(variance + eps)
    return (scaled * (1 if weight is None else weight) + (0 if bias is None else bias)).astype(x.dtype)


def numpy_group_norm(x, groups, weight=None, bias=None, eps=1e-5):
    lines = x.reshape(x.shape[0], groups, int(np.prod(x.shape[1:])) // groups).astype(np.float64)
    mean, variance = lines.mean(-1, keepdims=True), lines.var(-1, keepdims=True)
    rstd = 1 / np.sqrt(variance + eps)
    channel = (-1, *[1] * (x.ndim - 2))
    out = ((lines - mean) * rstd).reshape(x.shape)
    out = out * (1 if weight is None else weight.reshape(channel)) + (0 if bias is None else bias.reshape(channel))
    return out.astype(x.dtype), mean[..., 0].astype(x.dtype), rstd[..., 0].astype(x.dtype)


def statistics(channels: int):
    def buffers(rng):
        return {
            "mean": floats(rng, channels),
            "variance": floats(rng, channels) ** 2,
            "w": floats(rng, channels),
            "b": floats(rng, channels),
        }

    return buffers


def batch_norms(name: str, calls, **more) -> Case:
    def on_torch(m, *inputs):
        norm = torch.nn.functional.batch_norm
        return tuple(f for x in inputs for f in (norm(x, m.mean, m.variance, m.w, m.b), norm(x, m.mean, m.variance)))

    def on_numpy(m, *inputs):
        norm = numpy_batch_norm
        return tuple(f for x in inputs for f in (norm(x, m.mean, m.variance, m.w, m.b), norm(x, m.mean, m.variance)))

    return Case(name, on_torch, on_numpy, calls, buffers=statistics(6), **{"rtol": 1e-5, "atol": 2e-5} | more)


def group_norms(name: str, calls, groups=(1, 2, 6), **more) -> Case:
    def on_torch(m, *inputs):
        return tuple(
            f for x in inputs for g in groups for f in (group_norm(x, g, m.w, m.b), group_norm(x, g, None, None))
        )

    def on_numpy(m, *inputs):
        return tuple(
            f for x in inputs for g in groups for f in (numpy_group_norm(x, g, m.w, m.b)[0], numpy_group_norm(x, g)[0])
        )

    return Case(name, on_torch, on_numpy, calls, buffers=statistics(6), **{"rtol": 1e-5, "atol": 2e-5} | more)


def torch_group_statistics(m, x):
    return torch.native_group_norm(x, m.w, m.b, x.shape[0], 6, x.shape[2] * x.shape[3], 3, 1e-5)


HALF = {"options": {"force_fp16": True}, "rtol": 5e-3, "atol": 5e-3}
ALL = [
    batch_norms("batch_norm", lambda rng: [(floats(rng, 2, 6, 3, 5), floats(rng, 1, 6, 4, 8))]),
    batch_norms("batch_norm_dynamic", lambda rng: images(rng, 6), dynamic=DYNAMIC),
    batch_norms("batch_norm_half", lambda rng: [(floats(rng, 1, 6, 3, 5),)], **HALF),
    group_norms("group_norm", lambda rng: [(floats(rng, 2, 6, 3, 5) + 100, floats(rng, 1, 6, 4, 8))], atol=1e-4),
    group_norms("group_norm_half", lambda rng: [(floats(rng, 2, 6, 3, 3),)], (2,), **HALF),
    Case(
        "group_norm_statistics",
        torch_group_statistics,
        lambda m, x: numpy_group_norm(x, 3, m.w, m.b),
        lambda rng: images(rng, 6),
        buffers=statistics(6),
        dynamic=DYNAMIC,
        rtol=1e-5,
        atol=2e-5,
    ),
    # Groups of more elements than a thread may take rounds.
    group_norms("group_norm_long", lambda rng: [(floats(rng, 1, 6, 211, 211),)], (1,), atol=1e-4),
]
