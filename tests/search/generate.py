"""Random graphs: the same for the same seed and number."""

import itertools
import math

import numpy as np
import torch

from search.draw import MAX_RANK, MOST_ELEMENTS, Draw
from search.graph import Graph, Node, refs
from search.ops import TABLE
from search.table import Entry, apply, changed, compute, evaluate

ENTRIES = list(TABLE.values())
WEIGHTS = np.array([entry.weight for entry in ENTRIES])

# What generators and eager forms raise where their arguments do not fit; the next attempt may.
NO_FIT = (RuntimeError, ValueError, LookupError, TypeError, ZeroDivisionError, OverflowError, NotImplementedError)


def _accepts(values: list[dict], names: list[str]) -> bool:
    """Whether the results have a place in a program: one rank in all calls, and not too many elements."""
    for name in names:
        results = [of_call[name] for of_call in values]
        if isinstance(results[0], int):
            if any(abs(r) > 10**5 for r in results):
                return False
            continue
        if len({r.dim() for r in results}) > 1 or results[0].dim() > MAX_RANK:
            return False
        if math.prod(max(sizes) for sizes in zip(*(r.shape for r in results), strict=True)) > 4 * MOST_ELEMENTS:
            return False
    return True


def _overwritten(d: Draw, result: torch.Tensor, shapes: list) -> str | None:
    """A tensor that a result like this may replace: one that is there, or a state."""
    dtype = str(result.dtype).removeprefix("torch.")
    spans = {source.name for source in d.graph.sources if source.span is not None}
    found = d.tensors([dtype], lambda name: d.shapes(name) == shapes and name not in spans)
    if found and d.chance(0.7):
        return d.pick(found)
    if all(shape == shapes[0] for shape in shapes):
        return d.source(dtype, shapes, constant=True)
    return None


def _add_node(d: Draw, entry: Entry | None = None) -> None:
    entry = entry or ENTRIES[int(d.rng.choice(len(ENTRIES), p=WEIGHTS / WEIGHTS.sum()))]
    proposal = entry.propose(d)
    if proposal is None:
        return
    args, dtype = proposal if isinstance(proposal, tuple) else (proposal, None)
    node = Node(entry.op, args, [], dtype)
    results, _ = compute(node, d.values[0])
    made = len(results) - len(changed(node))
    node.outs = [d.name("v") for _ in range(made)]
    node.listed = made > 1 or entry.lists
    trial = [dict(values) for values in d.values]
    for values in trial:
        apply(node, values)
    if not _accepts(trial, node.outs):
        return
    first = trial[0][node.outs[0]]
    if d.chance(0.15) and made == 1 and entry.changes is None and isinstance(first, torch.Tensor):
        target = _overwritten(d, first, [list(values[node.outs[0]].shape) for values in trial])
        if target is not None:
            node.outs = [target]
            for values in d.values:
                apply(node, values)
            d.graph.nodes.append(node)
            return
    d.values = trial
    d.graph.nodes.append(node)


def _choose_outputs(d: Draw) -> None:
    graph = d.graph
    read = {name for node in graph.nodes for name in refs(node.args)}
    made = list(dict.fromkeys(name for node in graph.nodes for name in (*node.outs, *changed(node))))
    ends = [name for name in made if name not in read]
    outputs = [name for name in ends if d.chance(0.9)] + [name for name in made if d.chance(0.15)]
    if d.chance(0.05):
        outputs.append(d.pick(graph.sources).name)
    graph.outputs = outputs or [made[-1]]
    d.rng.shuffle(graph.outputs)
    used = {*read, *graph.outputs, *made}
    graph.sources = [source for source in graph.sources if source.name in used or d.chance(0.02)]


def generate(seed: int, number: int) -> Graph:
    for attempt in itertools.count():
        rng = np.random.default_rng([seed, number, attempt])
        d = Draw(rng, int(rng.integers(2**31)))
        wanted = d.integer(2, 12)
        for _ in range(8 * wanted):
            if len(d.graph.nodes) >= wanted:
                break
            try:
                _add_node(d)
            except NO_FIT:
                continue
        if not d.graph.nodes or not d.graph.sources:
            continue
        _choose_outputs(d)
        try:
            # States go on from call to call, which the values until now do not.
            evaluate(d.graph)
        except NO_FIT:
            continue
        return d.graph
    raise AssertionError


def alone(op: str, rank: int, number: int, attempts: int = 40) -> Graph | None:
    """A graph of one op whose first tensor has this rank, if the op takes such tensors: another one for each number."""
    for attempt in range(attempts):
        rng = np.random.default_rng([number, rank, attempt, *op.encode()])
        d = Draw(rng, int(rng.integers(2**31)))
        d.ranks = [rank]
        try:
            _add_node(d, TABLE[op])
            if not d.graph.nodes or d.graph.nodes[-1].op != op:
                continue
            first = next((name for name in refs(d.graph.nodes[-1].args) if name in d.values[0]), None)
            if not isinstance(d.values[0].get(first), torch.Tensor) or d.rank(first) != rank:
                continue
            d.graph.outputs = list(dict.fromkeys((*d.graph.nodes[-1].outs, *changed(d.graph.nodes[-1]))))
            evaluate(d.graph)
        except NO_FIT:
            continue
        return d.graph
    return None
