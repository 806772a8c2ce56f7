"""The table of ops: for each one a generator of arguments, and its eager form in torch.

An eager form gets tensors wide: float64 for floats, int64 for integers, so that it is exact where a device may round.
It gives a tensor, a list of them, or Near, which says how far a device may be off.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from search.graph import Graph, Node, data, dtype_of, refs, resolve

FLOATS = ("float32", "float16")
NUMBERS = (*FLOATS, "int32")
# What elementwise ops compute with, and what is moved.
COMPUTED = (*NUMBERS, "bool")
MOVED = (*COMPUTED, "int8", "uint8")


@dataclass
class Near:
    """A result. Where `scale` is given, errors are relative to it, in place of the result itself."""

    value: torch.Tensor
    scale: torch.Tensor | None = None
    # Elements that torch leaves open, or that float32 cannot say.
    undefined: torch.Tensor | None = None


@dataclass(frozen=True)
class Entry:
    op: str
    # Gives arguments, or (arguments, dtype of the results), or None where nothing fits.
    propose: Callable[[Any], Any]
    eager: Callable
    # The dtype of results: that of the first tensor ("same"), "promote", "float", or a name.
    gives: str = "same"
    # Of float32 results.
    rtol: float = 1e-6
    atol: float = 0.0
    weight: float = 1.0
    # The argument that the op changes.
    changes: int | None = None
    # Whether its bits stay the same where other results of it are left out, or it is joined with another op.
    exact: bool = True
    # Whether the eager form takes the dtype of its results as `to`.
    takes_dtype: bool = False
    # Whether its results are a list even if there is one.
    lists: bool = False


TABLE: dict[str, Entry] = {}


def add(op: str, propose: Callable, eager: Callable, **how) -> None:
    TABLE[op] = Entry(op, propose, eager, **how)


def changed(node: Node) -> list[str]:
    """What a node changes beyond what it writes."""
    place = TABLE[node.op].changes
    return [] if place is None else [node.args[place][1:]]


def promoted(dtypes: list[str]) -> str:
    """As torch does, among tensors that are no scalars."""
    for dtype in COMPUTED:
        if dtype in dtypes:
            return dtype
    raise ValueError(f"no common type of {dtypes}")


def wide(value: Any) -> Any:
    if not isinstance(value, torch.Tensor) or value.dtype == torch.bool:
        return value
    return value.double() if value.is_floating_point() else value.long()


def narrow(value: torch.Tensor, dtype: str) -> torch.Tensor:
    """To the type that it is stored in; integers wrap."""
    return value.to(getattr(torch, dtype)).contiguous()


def result_dtype(entry: Entry, node: Node, values: dict[str, Any]) -> str:
    if node.dtype is not None:
        return node.dtype
    dtypes = [dtype_of(values[name]) for name in refs(node.args) if isinstance(values[name], torch.Tensor)]
    if entry.gives == "same":
        return dtypes[0] if dtypes else "int32"
    if entry.gives == "promote":
        return promoted(dtypes)
    if entry.gives == "float":
        common = promoted(dtypes)
        return common if common in FLOATS else "float32"
    return entry.gives


def compute(node: Node, values: dict[str, Any]) -> tuple[list[int | Near], str]:
    """A node's results from the values before it, and their dtype. What it changes comes after them."""
    entry = TABLE[node.op]
    dtype = result_dtype(entry, node, values)
    arguments = [resolve(argument, lambda name: wide(values[name])) for argument in node.args]
    if entry.changes is not None:
        arguments[entry.changes] = arguments[entry.changes].clone()
    made = entry.eager(*arguments, **({"to": dtype} if entry.takes_dtype else {}))
    results = list(made) if isinstance(made, list | tuple) else [made]
    if entry.changes is not None:
        results.append(arguments[entry.changes])
    return [Near(result) if isinstance(result, torch.Tensor) else result for result in results], dtype


def written(node: Node) -> list[str]:
    return [*node.outs, *changed(node)]


def apply(node: Node, values: dict[str, Any]) -> None:
    """Runs a node on the values."""
    results, dtype = compute(node, values)
    for name, result in zip(written(node), results, strict=True):
        to = dtype_of(values[name]) if name in changed(node) else dtype
        values[name] = narrow(result.value, to) if isinstance(result, Near) else result


def sources(graph: Graph, call: int) -> dict[str, Any]:
    made = {}
    for source in graph.sources:
        value = data(graph, source, call)
        made[source.name] = value if isinstance(value, int) else torch.from_numpy(value)
    return made


def keep_states(graph: Graph, before: dict[str, Any], values: dict[str, Any]) -> None:
    """Constants have the value that the call before left."""
    for source in graph.sources:
        if source.kind in ("constant", "prepacked"):
            values[source.name] = before[source.name]


def evaluate(graph: Graph) -> list[dict[str, Any]]:
    """The values at the end of every call, in eager torch."""
    calls = []
    for call in range(graph.calls):
        values = sources(graph, call)
        if calls:
            keep_states(graph, calls[-1], values)
        for node in graph.nodes:
            apply(node, values)
        calls.append(values)
    return calls
