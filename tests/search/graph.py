"""What the random search runs: a graph as plain data, its JSON, the numbers in its tensors, and the program it makes.

A value is known by name. An argument "%x" stands for the value x; any other text is text. A node that writes to a
name which is there already changes that value in place. Sources have a shape per call: where the calls differ, the
program is dynamic, and made for the largest sizes.
"""

import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch

from support.vk00 import Blob

Shape = list[int]


@dataclass
class Source:
    """A value that no node makes: an input, an integer input, a constant, or a constant that is prepacked."""

    name: str
    kind: str
    dtype: str
    shapes: list[Shape]
    # Per call: the integers that it may hold, from the first to before the second.
    span: list[list[int]] | None = None


@dataclass
class Node:
    op: str
    args: list[Any]
    outs: list[str]
    # Of the results, where the arguments do not settle it.
    dtype: str | None = None
    # Whether the results are a list.
    listed: bool = False


@dataclass
class Graph:
    seed: int
    calls: int
    sources: list[Source] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    # Without infinities, NaN and numbers at the edge of their types.
    plain: bool = False

    def text(self) -> str:
        parts = asdict(self)
        lines = [f' "{key}": {json.dumps(parts[key])}' for key in ("seed", "calls", "plain", "outputs")]
        for key in ("sources", "nodes"):
            rows = ",\n".join(
                "  " + json.dumps({k: v for k, v in row.items() if v not in (None, False) or k == "args"})
                for row in parts[key]
            )
            lines.append(f' "{key}": [\n{rows}\n ]')
        return "{\n" + ",\n".join(lines) + "\n}\n"

    @classmethod
    def parse(cls, text: str) -> "Graph":
        parts = json.loads(text)
        parts["sources"] = [Source(**source) for source in parts["sources"]]
        parts["nodes"] = [Node(**node) for node in parts["nodes"]]
        return cls(**parts)

    def copy(self) -> "Graph":
        return Graph.parse(self.text())


def is_ref(argument: Any) -> bool:
    return isinstance(argument, str) and argument.startswith("%")


def refs(arguments: list) -> Iterator[str]:
    """The names of the values that arguments stand for."""
    for argument in arguments:
        if isinstance(argument, list):
            yield from refs(argument)
        elif is_ref(argument):
            yield argument[1:]


def resolve(argument: Any, look_up: Callable[[str], Any]) -> Any:
    if isinstance(argument, list):
        return [resolve(item, look_up) for item in argument]
    return look_up(argument[1:]) if is_ref(argument) else argument


# The numbers in tensors.

_FLOATS = [np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.0, 0.5, 2.5, 1e30, -1e30, 65504.0, 1e-8]
_HALVES = [np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.0, 0.5, 2.5, 65504.0, -65504.0, 6e-5]
_INTS = [-(2**31), 2**31 - 1, -1, 0, 1, 2**24 + 1, 65536, -32769]


def _floats(rng: np.random.Generator, style: float, shape: Shape, dtype: str, plain: bool) -> np.ndarray:
    if style < 0.15:
        # Ties, and quotients without a rest.
        made = np.asarray(rng.integers(-3, 4, shape), np.float64)
    elif style < 0.25:
        # Constants with the same bytes.
        made = np.full(shape, round(style * 20) % 2, np.float64)
    else:
        made = np.asarray(rng.normal(0, 2, shape))
    if not plain and style > 0.7 and made.size:
        special = rng.choice(_HALVES if dtype == "float16" else _FLOATS, shape)
        made = np.where(rng.random(shape) < (0.02 if style < 0.9 else 0.2), special, made)
    return np.asarray(made, dtype)


def data(graph: Graph, source: Source, call: int) -> np.ndarray | int:
    """The same for the same seed and name."""
    own = zlib.crc32(source.name.encode())
    style = np.random.default_rng([graph.seed, own]).random()
    is_constant = source.kind in ("constant", "prepacked")
    rng = np.random.default_rng([graph.seed, own, 0 if is_constant else call + 1])
    shape, dtype = source.shapes[call], source.dtype
    if source.span is not None:
        low, high = source.span[call]
        made = np.asarray(rng.integers(low, max(high, low + 1), shape), dtype)
        return int(made) if source.kind == "integer" else made
    if dtype.startswith("float"):
        return _floats(rng, style, shape, dtype, graph.plain)
    if dtype == "bool":
        return np.asarray(rng.random(shape) < 0.5)
    if dtype != "int32":
        info = np.iinfo(dtype)
        return np.asarray(rng.integers(info.min, info.max + 1, shape), dtype)
    reach = 4 if style < 0.5 else 1000
    made = np.asarray(rng.integers(-reach, reach + 1, shape), dtype)
    if graph.plain or style < 0.8:
        return made
    return np.where(rng.random(shape) < 0.1, rng.choice(_INTS, shape), made).astype(dtype)


# The program.


def largest(shapes: list[Shape]) -> Shape:
    return [max(sizes) for sizes in zip(*shapes, strict=True)]


def dtype_of(value: Any) -> str:
    return str(value.dtype).removeprefix("torch.")


@dataclass
class Program:
    pte: bytes
    # The names of the outputs; for one that watches, (node, position) of each result, and of what a node changes.
    outputs: list


class _Builder:
    """`calls` are the values of all calls, by name, as evaluate() gives them."""

    def __init__(self, graph: Graph, calls: list[dict[str, Any]]):
        self.graph, self.calls, self.blob = graph, calls, Blob()
        self.ids: dict[str, int] = {}
        self.dynamic: set[int] = set()
        for source in graph.sources:
            self._add_source(source)

    def _add_source(self, source: Source) -> None:
        b, most = self.blob, largest(source.shapes)
        if source.kind == "integer":
            made = b.symint()
            b.inputs.append(made)
        elif source.kind == "input":
            made = b.tensor(source.dtype, most)
            b.inputs.append(made)
            if any(shape != most for shape in source.shapes):
                self.dynamic.add(made)
        else:
            made = b.constant(data(self.graph, source, 0))
            if source.kind == "prepacked":
                packed = b.tensor(source.dtype, most)
                b.op("et_vk.prepack.default", [made, packed])
                made = packed
        self.ids[source.name] = made

    def value(self, name: str) -> int:
        """The id of a result; the name's own where it is there already."""
        if name not in self.ids:
            of_calls = [values[name] for values in self.calls]
            if isinstance(of_calls[0], int):
                self.ids[name] = self.blob.symint()
            else:
                shapes = [list(value.shape) for value in of_calls]
                self.ids[name] = self.blob.tensor(dtype_of(of_calls[0]), largest(shapes))
        return self.ids[name]

    def argument(self, value: Any) -> int:
        b = self.blob
        if is_ref(value):
            return self.ids[value[1:]]
        if isinstance(value, list):
            if any(is_ref(item) or item is None for item in value):
                return b.value_list([self.argument(item) for item in value])
            return b.ints(value)
        if value is None:
            return b.null()
        if isinstance(value, bool):
            return b.boolean(value)
        if isinstance(value, str):
            return b.text(value)
        return b.integer(value) if isinstance(value, int) else b.number(value)

    def node(self, node: Node) -> None:
        outs = [self.value(name) for name in node.outs]
        self.blob.op(node.op, [*map(self.argument, node.args), self.blob.value_list(outs) if node.listed else outs[0]])

    def clone(self, name: str) -> int:
        """A copy of a value as it is now."""
        b, tensor = self.blob, self.blob.values[self.ids[name]]
        copy = b.tensor(next(dtype_of(values[name]) for values in self.calls), tensor.dims)
        b.op("aten.clone.default", [self.ids[name], b.null(), copy])
        return copy

    def done(self, outputs: list) -> Program:
        # Shapes of outputs count as the caller's room, which is for the largest.
        every = {*self.dynamic, *self.blob.outputs} if self.dynamic else set()
        return Program(self.blob.pte(dynamic=every, wide_ints=False), outputs)


def build(graph: Graph, calls: list[dict[str, Any]]) -> Program:
    builder = _Builder(graph, calls)
    for node in graph.nodes:
        builder.node(node)
    builder.blob.outputs = [builder.ids[name] for name in graph.outputs]
    return builder.done(list(graph.outputs))


def build_watched(graph: Graph, calls: list[dict[str, Any]], changed: Callable[[Node], list[str]]) -> Program:
    """The same nodes, but every result is an output, and a copy of every value that a node changes is."""
    builder = _Builder(graph, calls)
    watched = []
    for number, node in enumerate(graph.nodes):
        builder.node(node)
        later = [name for other in graph.nodes[number + 1 :] for name in (*other.outs, *changed(other))]
        sources = {source.name for source in graph.sources}
        for name in dict.fromkeys([*node.outs, *changed(node)]):
            rewritten = name in later or name in sources
            builder.blob.outputs.append(builder.clone(name) if rewritten else builder.ids[name])
            watched.append((number, name))
    return builder.done(watched)


def as_tensor(value: Any) -> Any:
    return torch.from_numpy(np.array(value)) if isinstance(value, np.ndarray) else value
