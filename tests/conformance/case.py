"""What a case is: a module for the stock exporter, calls to make, and what they give, worked out twice."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

Arrays = tuple[np.ndarray, ...]


class Function(torch.nn.Module):
    """A module made of a function `forward(module, *inputs)` and buffers."""

    def __init__(self, function: Callable, **buffers: np.ndarray):
        super().__init__()
        self.function = function
        for name, array in buffers.items():
            self.register_buffer(name, as_tensor(array))

    def forward(self, *inputs):
        return self.function(self, *inputs)


@dataclass(frozen=True)
class Case:
    """A program and its calls, which are made one after the other on one loaded method.

    Both functions take the buffers as attributes of their first argument, and then the inputs of a call. Where they
    assign to a buffer, the next call sees it.
    """

    name: str
    torch: Callable[..., Any]
    numpy: Callable[..., Any]
    # The first call is also the exporter's example: its dynamic dimensions must be at least 2.
    calls: Callable[[np.random.Generator], list[Arrays]]
    buffers: Callable[[np.random.Generator], dict[str, np.ndarray]] = lambda rng: {}
    dynamic: tuple | None = None
    options: dict = field(default_factory=dict)
    # Arguments of ExecuTorch's ExecutorchBackendConfig.
    settings: dict = field(default_factory=dict)
    rtol: float = 0.0
    atol: float = 0.0
    # Where given, a third run splits constants larger than this many bytes.
    shard_bytes: int = 0
    # Operators that the exporter leaves outside the delegate.
    outside: tuple[str, ...] = ()
    # Eager torch in place of `torch`, where that would need too much memory.
    eager: Callable[..., Any] | None = None

    @property
    def source(self) -> str:
        """What the program is made from, beyond this file."""
        return Path(self.torch.__code__.co_filename).read_text()

    def make_buffers(self) -> dict[str, np.ndarray]:
        return self.buffers(np.random.default_rng([zlib.crc32(self.name.encode()), 0]))

    def make_calls(self) -> list[Arrays]:
        return self.calls(np.random.default_rng([zlib.crc32(self.name.encode()), 1]))

    def run_torch(self, buffers: dict[str, np.ndarray], calls: list[Arrays]) -> list[Arrays]:
        module = Function(self.eager or self.torch, **buffers)
        return [as_arrays(module(*map(as_tensor, inputs))) for inputs in calls]

    def run_numpy(self, buffers: dict[str, np.ndarray], calls: list[Arrays]) -> list[Arrays]:
        state = SimpleNamespace(**{name: array.copy() for name, array in buffers.items()})
        with np.errstate(all="ignore"):
            return [as_arrays(self.numpy(state, *inputs)) for inputs in calls]


def as_tensor(array: np.ndarray) -> torch.Tensor:
    """A copy with torch's own strides: NumPy's are all 0 where there are no elements, which ExecuTorch aborts at."""
    shared = torch.from_numpy(array)
    return torch.empty(shared.shape, dtype=shared.dtype).copy_(shared)


def as_arrays(results) -> Arrays:
    """What a program returns, as a tuple of arrays; plain integers become int64."""
    if not isinstance(results, tuple | list):
        results = (results,)
    return tuple(np.array(r.detach().numpy() if isinstance(r, torch.Tensor) else r) for r in results)
