"""Runs a graph and looks for a difference.

First with every result as an output: each is compared with the op's eager form on the values that the device itself
had before it. So errors do not add up, and a tolerance is that of one op. Then as it is, with all passes and with none:
its outputs must be the same, bit for bit (but for norms, which passes join or relieve of results).
"""

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

import nibble
from search.generate import NO_FIT
from search.graph import Graph, Node, build, build_watched, data, refs
from search.table import TABLE, Near, changed, compute, evaluate, keep_states, sources, written

TINY = {"float32": 1.2e-38, "float16": 2.0**-24}


@dataclass(frozen=True)
class Find:
    op: str
    what: str

    def __str__(self) -> str:
        return f"{self.op}: {self.what}"


@cache
def passes() -> list[str]:
    command = [Path(sys.executable).parent / "nibble", "ops", "--passes"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return [line.split()[0] for line in lines]


def disagreement(actual: np.ndarray, wanted: Near, rtol: float, atol: float) -> str | None:
    """Where the two differ most plainly, or None."""
    value = wanted.value.numpy()
    if actual.shape != value.shape:
        return f"has shape {list(actual.shape)}, not {list(value.shape)}"
    defined = np.ones(value.shape, bool)
    if wanted.undefined is not None:
        defined &= ~np.broadcast_to(wanted.undefined.numpy(), value.shape)
    dtype = actual.dtype.name
    with np.errstate(all="ignore"):
        if dtype in TINY:
            value = value.astype(np.float64)
            scale = np.abs(value)
            if wanted.scale is not None:
                scale = np.broadcast_to(wanted.scale.double().numpy(), value.shape)
                # Somewhere on the way float32 may have overflowed.
                defined &= ~((scale > 1e37) & np.isfinite(scale))
            error = np.where(np.isfinite(scale), rtol * scale, 0) + atol + TINY[dtype]
            if dtype == "float16":
                error = error + np.where(np.isfinite(value), np.abs(value), 0) * 2.0**-11
            low, high = (value - error).astype(dtype), (value + error).astype(dtype)
            right = ((low <= actual) & (actual <= high)) | (np.isnan(value) & np.isnan(actual))
        else:
            right = value.astype(dtype) == actual
    wrong = np.argwhere(~right & defined)
    if not len(wrong):
        return None
    place = tuple(int(i) for i in wrong[0])
    return f"{list(place)} of {list(value.shape)} {dtype} is {actual[place]}, not {value[place]} ({len(wrong)} wrong)"


def same(a: Any, b: Any) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    return a.shape == b.shape and bool(np.all((a == b) | ((a != a) & (b != b))))


def has_subnormals(value: Any) -> bool:
    """A device may take those for zero."""
    if not isinstance(value, torch.Tensor) or value.dtype != torch.float32:
        return False
    return bool(((value != 0) & (value.abs() < 1.18e-38)).any())


class Checker:
    """Checks graphs on one device."""

    def __init__(self, device: nibble.Device | None = None):
        self.device = device or nibble.Device()
        self.folder = tempfile.TemporaryDirectory(prefix="nibble-search-")

    def run(self, pte: bytes, graph: Graph, **options) -> list[list]:
        """The outputs of every call."""
        path = Path(self.folder.name) / "model.pte"
        path.write_bytes(pte)
        with nibble.load(path, device=self.device, **options) as model:
            compiled = self.device.compiled_pipelines
            calls = []
            for call in range(graph.calls):
                inputs = [data(graph, s, call) for s in graph.sources if s.kind in ("input", "integer")]
                results = model.run(*inputs)
                calls.append(list(results) if isinstance(results, tuple) else [results])
            if self.device.compiled_pipelines != compiled:
                raise nibble.NibbleError("a call compiled a pipeline")
        return calls

    def check(self, graph: Graph) -> Find | None:
        eager = evaluate(graph)
        watched, program = build_watched(graph, eager, changed), build(graph, eager)
        try:
            seen = self.run(watched.pte, graph, without_passes=passes())
        except nibble.NibbleError as error:
            return Find(str(error).split(":")[0], f"{error.code}: {error}")
        finals = []
        for call, results in enumerate(seen):
            values = sources(graph, call)
            if finals:
                keep_states(graph, finals[-1], values)
            by_name = dict(zip(watched.outputs, results, strict=True))
            for number, node in enumerate(graph.nodes):
                if found := self.check_node(node, number, call, values, by_name):
                    return found
            finals.append(values)
        inexact = self.inexact(graph)
        for options in ({}, {"without_passes": passes()}):
            how = "without passes" if options else "with passes"
            try:
                calls = self.run(program.pte, graph, **options)
            except nibble.NibbleError as error:
                return Find(str(error).split(":")[0], f"{how}, {error.code}: {error}")
            for call, results in enumerate(calls):
                for place, (name, result) in enumerate(zip(graph.outputs, results, strict=True)):
                    if name not in inexact and not same(result, finals[call][name]):
                        maker = next((n.op for n in reversed(graph.nodes) if name in written(n)), "output")
                        return Find(maker, f"{how}, call {call}, output {place} ({name}) is not what the node gave")
        return None

    @staticmethod
    def inexact(graph: Graph) -> set[str]:
        """What may differ in its last bits, or in all where those decide: results of some ops, and what needs them."""
        names = set()
        for _ in range(2):  # states bring it into the next call
            for node in graph.nodes:
                if not TABLE[node.op].exact or not names.isdisjoint(refs(node.args)):
                    names.update(written(node))
        return names

    @staticmethod
    def check_node(node: Node, number: int, call: int, values: dict[str, Any], seen: dict) -> Find | None:
        """Compares a node's results, and goes on with them."""
        entry = TABLE[node.op]
        comparable = not any(has_subnormals(values[name]) for name in refs(node.args))
        try:
            wanted = compute(node, values)[0]
        except NO_FIT:
            comparable = False
        for place, name in enumerate(dict.fromkeys(written(node))):
            actual = seen[number, name]
            if comparable:
                near = wanted[place]
                if not isinstance(near, Near):
                    problem = None if near == actual else f"is {actual}, not {near}"
                else:
                    problem = disagreement(actual, near, entry.rtol, entry.atol)
                if problem:
                    return Find(node.op, f"node {number}, call {call}, {name}: {problem}")
            values[name] = actual if isinstance(actual, int) else torch.from_numpy(np.array(actual))
        return None
