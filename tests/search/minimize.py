"""Makes a graph that shows a difference as small as it can, while it still shows one."""

import time
from collections.abc import Callable, Iterator

import torch

from search.generate import NO_FIT
from search.graph import Graph, Source, is_ref, refs
from search.table import changed, dtype_of, evaluate


def clean(graph: Graph) -> Graph:
    """Without nodes and sources that no output depends on."""
    needed, kept = set(graph.outputs), []
    for node in reversed(graph.nodes):
        if needed.isdisjoint([*node.outs, *changed(node)]):
            continue
        kept.append(node)
        needed.update(refs(node.args))
    graph.nodes = kept[::-1]
    used = {*graph.outputs, *(name for node in graph.nodes for name in (*refs(node.args), *node.outs))}
    graph.sources = [source for source in graph.sources if source.name in used]
    return graph


def _fewer_calls(graph: Graph) -> Iterator[Graph]:
    for keep in [[call] for call in range(graph.calls)] + [list(range(n)) for n in range(2, graph.calls)]:
        if len(keep) == graph.calls:
            continue
        made = graph.copy()
        made.calls = len(keep)
        for source in made.sources:
            source.shapes = [source.shapes[call] for call in keep]
            source.span = source.span and [source.span[call] for call in keep]
        yield made


def _fewer_outputs(graph: Graph) -> Iterator[Graph]:
    for index in range(len(graph.outputs)):
        for keep in ([graph.outputs[index]], graph.outputs[:index] + graph.outputs[index + 1 :]):
            if 0 < len(keep) < len(graph.outputs):
                made = graph.copy()
                made.outputs = list(keep)
                yield clean(made)


def _replaced(graph: Graph, old: str, new: str) -> None:
    def swap(argument):
        if isinstance(argument, list):
            return [swap(item) for item in argument]
        return f"%{new}" if argument == f"%{old}" else argument

    for node in graph.nodes:
        node.args = swap(node.args)
    graph.outputs = [new if name == old else name for name in graph.outputs]


def _fewer_nodes(graph: Graph) -> Iterator[Graph]:
    calls = evaluate(graph)
    # An output in the middle leaves all that comes after it.
    for node in graph.nodes:
        made = graph.copy()
        made.outputs = list(node.outs)
        yield clean(made)
    for index in range(len(graph.nodes)):
        node = graph.nodes[index]
        without = graph.copy()
        del without.nodes[index]
        names = [name for name in node.outs if not any(s.name == name for s in graph.sources)]
        if not names or any(name in other.outs for other in without.nodes for name in names):
            yield clean(without)
            continue
        # In place of its results: an argument like it, or a new input.
        for argument in refs(node.args):
            if len(names) == 1 and all(
                isinstance(values[argument], torch.Tensor)
                and isinstance(values[names[0]], torch.Tensor)
                and values[argument].shape == values[names[0]].shape
                and values[argument].dtype == values[names[0]].dtype
                for values in calls
            ):
                made = without.copy()
                _replaced(made, names[0], argument)
                yield clean(made)
        made = without.copy()
        for name in names:
            made.sources.append(_stand_in(name, [values[name] for values in calls]))
        yield clean(made)


def _stand_in(name: str, values: list) -> Source:
    if isinstance(values[0], int):
        return Source(name, "integer", "int32", [[]] * len(values), [[v, v + 1] for v in values])
    dtype = dtype_of(values[0])
    span = None
    if dtype == "int32":
        span = [[int(v.min()), int(v.max()) + 1] if v.numel() else [0, 1] for v in values]
    return Source(name, "input", dtype, [list(v.shape) for v in values], span)


def _smaller_sizes(graph: Graph) -> Iterator[Graph]:
    sizes = {size for source in graph.sources for shape in source.shapes for size in shape if size > 1}
    for size in sorted(sizes, reverse=True):
        for less in dict.fromkeys((1, 2, size // 2, size - 1)):
            if less >= size:
                continue

            def swap(argument, size=size, less=less):
                if isinstance(argument, list):
                    return [swap(item) for item in argument]
                return less if argument == size and not is_ref(argument) and argument is not True else argument

            for with_arguments in (True, False):
                made = graph.copy()
                for source in made.sources:
                    source.shapes = swap(source.shapes)
                if with_arguments:
                    for node in made.nodes:
                        node.args = swap(node.args)
                yield made


def _plainer(graph: Graph) -> Iterator[Graph]:
    if not graph.plain:
        made = graph.copy()
        made.plain = True
        yield made
    for index, source in enumerate(graph.sources):
        if source.kind != "prepacked":
            continue
        made = graph.copy()
        made.sources[index].kind = "constant"
        yield made


STEPS = (_fewer_calls, _fewer_outputs, _fewer_nodes, _plainer, _smaller_sizes)


def minimize(graph: Graph, fails: Callable[[Graph], bool], seconds: float = 60) -> Graph:
    end = time.monotonic() + seconds

    def still_fails(candidate: Graph) -> bool:
        try:
            return bool(candidate.nodes) and fails(candidate)
        except NO_FIT:
            return False

    best = graph
    progress = True
    while progress and time.monotonic() < end:
        progress = False
        for step in STEPS:
            # A step begins anew after each success, on what is left.
            while time.monotonic() < end:
                text = best.text()
                smaller = next((c for c in step(best) if c.text() != text and still_fails(c)), None)
                if smaller is None:
                    break
                best, progress = smaller, True
    return best
