"""What generators of arguments draw from: the values of a graph so far, new sources, sizes and numbers."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from search.graph import Graph, Node, Shape, Source, dtype_of
from search.table import COMPUTED, FLOATS, apply, sources

SIZES = [0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 8, 11, 12, 13, 16, 17, 31, 32, 33, 64]
LONG = [100, 257, 1000, 1025, 2053]
MOST_ELEMENTS = 6000
MAX_RANK = 8


def count(shape: Shape) -> int:
    return int(np.prod(shape, dtype=np.int64))


class Draw:
    def __init__(self, rng: np.random.Generator, seed: int):
        self.rng = rng
        is_dynamic = self.chance(0.4)
        self.graph = Graph(seed=seed, calls=4 if is_dynamic else int(rng.integers(1, 4)), plain=self.chance(0.5))
        self.values: list[dict[str, Any]] = [{} for _ in range(self.graph.calls)]
        # Sizes, per call, that tensors are made of: so they often fit each other.
        self.axes = [self._axis(is_dynamic and self.chance(0.5)) for _ in range(int(rng.integers(2, 5)))]
        self.names = 0
        # Those that new tensors have, where nothing else decides.
        self.ranks = [0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 5, 6, 7, 8]

    def _axis(self, is_dynamic: bool) -> list[int]:
        most = self.pick(SIZES if self.chance(0.97) else LONG)
        if not is_dynamic:
            return [most] * self.graph.calls
        return [most, *(int(self.rng.integers(0, most + 1)) for _ in range(self.graph.calls - 1))]

    # Numbers.

    def chance(self, part: float) -> bool:
        return bool(self.rng.random() < part)

    def pick(self, items: Sequence) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def integer(self, low: int, high: int) -> int:
        """Both ends count."""
        return int(self.rng.integers(low, high + 1))

    def number(self) -> float:
        return self.pick([0.0, 1.0, -1.0, 0.5, 2.0, 3.0, -2.5, 1e-3, 100.0, float(np.float32(self.rng.normal()))])

    def dim(self, rank: int) -> int:
        """A dimension, perhaps counted from the end."""
        most = max(rank, 1)
        return self.integer(-most, most - 1)

    def dims(self, rank: int, least: int = 0) -> list[int]:
        """Different ones."""
        most = max(rank, 1)
        chosen = self.rng.permutation(most)[: self.integer(min(least, most), most)]
        return [int(d) - (most if self.chance(0.3) else 0) for d in chosen]

    # Tensors.

    def shapes(self, name: str) -> list[Shape]:
        return [list(values[name].shape) for values in self.values]

    def rank(self, name: str) -> int:
        return self.values[0][name].dim()

    def dtype(self, name: str) -> str:
        return dtype_of(self.values[0][name])

    def shape(self, rank: int | None = None) -> list[Shape]:
        """A shape per call, made of the axes."""
        if rank is None:
            rank = self.pick(self.ranks)
        ones = [1] * self.graph.calls
        axes = [ones if rank > 4 and self.chance(0.4) else self.pick(self.axes) for _ in range(rank)]
        while max(count([axis[call] for axis in axes]) for call in range(self.graph.calls)) > MOST_ELEMENTS:
            axes[max(range(rank), key=lambda i: axes[i][0])] = self.pick([ones, [2] * self.graph.calls])
        return [[axis[call] for axis in axes] for call in range(self.graph.calls)]

    def source(
        self, dtype: str, shapes: list[Shape], span: list[list[int]] | None = None, constant: bool | None = None
    ) -> str:
        """A new input or constant; gives its name."""
        is_static = all(shape == shapes[0] for shape in shapes) and (span is None or all(s == span[0] for s in span))
        if constant is None:
            constant = self.chance(0.3)
        kind = "input"
        if constant and is_static:
            kind = "prepacked" if self.chance(0.3) else "constant"
        return self.add_source(Source(self.name("abc"[0] if kind == "input" else "c"), kind, dtype, shapes, span))

    def add_source(self, source: Source) -> str:
        self.graph.sources.append(source)
        only = Graph(self.graph.seed, self.graph.calls, [source], plain=self.graph.plain)
        for call, values in enumerate(self.values):
            values.update(sources(only, call))
        return source.name

    def name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def tensors(self, dtypes: Sequence[str], fits: Callable[[str], bool]) -> list[str]:
        return [
            name
            for name, value in self.values[0].items()
            if isinstance(value, torch.Tensor) and dtype_of(value) in dtypes and fits(name)
        ]

    def tensor(
        self,
        dtypes: Sequence[str] = COMPUTED,
        fits: Callable[[str], bool] = lambda name: True,
        rank: int | None = None,
        fresh: float = 0.2,
    ) -> str:
        """The name of a tensor that is there, rather a late one, or of a new one. `fits` says of those that are."""
        found = self.tensors(dtypes, lambda name: fits(name) and rank in (None, self.rank(name)))
        if found and not self.chance(fresh):
            return found[-1 - min(int(self.rng.geometric(0.4)) - 1, len(found) - 1)]
        return self.source(self.pick(dtypes), self.shape(rank))

    def tensor_with(self, dtypes: Sequence[str], shapes: list[Shape], constant: bool | None = None) -> str:
        """A tensor of these shapes: one that is there, or a new one."""
        found = self.tensors(dtypes, lambda name: self.shapes(name) == shapes)
        if found and constant is None and self.chance(0.6):
            return self.pick(found)
        return self.source(self.pick(dtypes), shapes, constant=constant)

    def partner(self, name: str, dtypes: Sequence[str]) -> str:
        """A tensor that broadcasts with another, most likely."""
        if self.chance(0.4):
            return self.tensor(dtypes, fits=lambda other: self._broadcasts(name, other), fresh=0)
        shapes = self.shapes(name)
        first = self.integer(0, len(shapes[0])) if self.chance(0.3) else 0
        keeps = [not self.chance(0.25) for _ in shapes[0]]
        made = [[s if k else 1 for s, k in zip(shape, keeps, strict=True)][first:] for shape in shapes]
        return self.tensor_with(dtypes, made)

    def _broadcasts(self, a: str, b: str) -> bool:
        pairs = zip(self.shapes(a), self.shapes(b), strict=True)
        return all(
            x == y or 1 in (x, y) for one, two in pairs for x, y in zip(reversed(one), reversed(two), strict=False)
        )

    # Integers that a call knows.

    def node(self, op: str, args: list) -> str:
        """Adds a node with one result, whose name it gives."""
        node = Node(op, args, [self.name("s")])
        for values in self.values:
            apply(node, values)
        self.graph.nodes.append(node)
        return node.outs[0]

    def size(self, name: str, dim: int) -> int | str:
        """The size of a dimension: a number where all calls agree (most likely), else a SymInt."""
        sizes = [shape[dim] for shape in self.shapes(name)]
        if len(set(sizes)) == 1 and not self.chance(0.1):
            return sizes[0]
        for other, value in self.values[0].items():
            if isinstance(value, int) and [values[other] for values in self.values] == sizes:
                return f"%{other}"
        return f"%{self.node('sym_size.int', [f'%{name}', dim])}"

    def symint(self) -> str | None:
        """Any SymInt that there is."""
        found = [name for name, value in self.values[0].items() if isinstance(value, int)]
        return f"%{self.pick(found)}" if found else None

    def place(self, low: int, high: int) -> int | str:
        """A number of this range, or any SymInt."""
        symint = self.symint() if self.chance(0.3) else None
        return symint if symint is not None else self.integer(low, high)


def is_float(dtype: str) -> bool:
    return dtype in FLOATS
