"""Exports the programs of the case table with the stock exporter: model.pte, and inputs and results of every call.

    export_programs.py [--only PART] [OUT]        OUT is build/programs by default

What is there already, from the same source and the same packages, is left alone.
"""

import argparse
import contextlib
import functools
import gc
import hashlib
import importlib.metadata
import inspect
import json
import logging
import os
import shutil
import sys
import time
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parent))
warnings.filterwarnings("ignore")

import numpy as np  # noqa: E402

from support.exporting import keep_overriding_kernels  # noqa: E402

DEFAULT_OUT = HERE.parents[1] / "build" / "programs"


@functools.cache
def packages() -> str:
    """What makes every program."""
    names = ("torch", "executorch", "numpy", "torchao")
    return "\n".join(f"{name} {importlib.metadata.version(name)}" for name in names)


@functools.cache
def function_sources() -> str:
    """What the program of a function depends on, beyond its own file."""
    sources = [(HERE / name).read_text() for name in ("case.py", "reference.py")]
    return "\n".join([*sources, inspect.getsource(exporter), inspect.getsource(write_function)])


def key_of(case) -> str:
    made_from = [case.name, case.source, packages(), inspect.getsource(export_case)]
    if not hasattr(case, "write"):
        made_from.append(function_sources())
    return hashlib.sha256("\n".join(made_from).encode()).hexdigest()


class CallableType(type):
    """Stands for collections.abc.Callable where that is only asked for the type of some function."""

    def __instancecheck__(cls, value) -> bool:
        return callable(value)

    def __getitem__(cls, _):
        return cls


@functools.cache
def prepare_once() -> None:
    """Keeps the exporter from doing for every program what it needs to do once: it takes seconds, half of all."""
    import executorch.backends.vulkan.patterns  # noqa: F401  (registers the patterns)
    import torch._export.utils
    from executorch.backends.vulkan.patterns.pattern_registry import fusable_patterns

    for entry in fusable_patterns.values():
        if entry.get_graphs_fn:
            entry.get_graphs_fn = functools.cache(entry.get_graphs_fn)
    # Registers a dozen functions for each of hundreds of operators, three times a program, and works out every time
    # what the types in two signatures mean.
    torch._ops.Callable = CallableType("Callable", (), {})
    # Looks up all operators there are, dozens of times a program. All are registered by the first export's imports.
    exporter()
    for name in ("_materialize_cpp_cia_ops", "_collect_all_valid_cia_ops_for_namespace"):
        setattr(torch._export.utils, name, functools.cache(getattr(torch._export.utils, name)))
    keep_overriding_kernels()
    # Graphs are many small objects: looking for garbage among all modules, again and again, is a quarter of the time.
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


@functools.cache
def exporter():
    """The exporter's parts, imported late: it takes seconds."""
    import torch
    from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner
    from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower

    def export(module, inputs, dynamic, options, settings):
        # The inputs are one tuple to a forward(*inputs), and so are their dynamic dimensions.
        shapes = (dynamic,) if dynamic else None
        exported = torch.export.export(module, inputs, dynamic_shapes=shapes, strict=False)
        edge = to_edge_transform_and_lower(exported, partitioner=[VulkanPartitioner(options)])
        return edge.to_executorch(ExecutorchBackendConfig(**settings))

    return export


def write_function(case, folder: Path):
    """Writes a function's program; gives the calls, and their results by the way they were worked out."""
    from conformance.case import Function, as_tensor

    buffers, calls = case.make_buffers(), case.make_calls()
    example = tuple(map(as_tensor, calls[0]))
    program = exporter()(Function(case.torch, **buffers), example, case.dynamic, case.options, case.settings)
    plan = program.executorch_program.execution_plan[0]
    outside = tuple(operator.name for operator in plan.operators)
    if outside != case.outside or not plan.delegates:
        raise RuntimeError(f"{case.name}: outside the delegate are {outside}, but it should be {case.outside}")
    with open(folder / "model.pte", "wb") as file:
        program.write_to_file(file)
    return calls, {"torch": case.run_torch(buffers, calls), "numpy": case.run_numpy(buffers, calls)}


def export_case(case, out: Path) -> bool:
    """Makes the program's folder, unless it is up to date; tells whether it did."""
    folder, key = out / case.name, key_of(case)
    with contextlib.suppress(OSError, ValueError):
        if json.loads((folder / "case.json").read_text())["key"] == key:
            return False

    prepare_once()
    new = out / f".{case.name}.{os.getpid()}"
    new.mkdir(parents=True, exist_ok=True)
    try:
        # A whole model has its own way to be exported.
        calls, results = case.write(new) if hasattr(case, "write") else write_function(case, new)
        for way, made in (("in", calls), *results.items()):
            for call, arrays in enumerate(made):
                for index, array in enumerate(arrays):
                    np.save(new / f"{way}{call}_{index}.npy", np.asarray(array, order="C"))
        facts = {"key": key, "calls": len(calls), "inputs": len(calls[0]), "outputs": len(results["torch"][0])}
        (new / "case.json").write_text(json.dumps(facts, indent=1))
        shutil.rmtree(folder, ignore_errors=True)
        new.rename(folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description="Exports the programs of the conformance tests.")
    parser.add_argument("out", nargs="?", type=Path, default=DEFAULT_OUT, help="where to (default: build/programs)")
    parser.add_argument("--only", default="", metavar="PART", help="only programs with PART in their names")
    parser.add_argument("--slow", action="store_true", help="also the programs of tests that are marked slow")
    parser.add_argument(
        "--by", choices=("stock", "nibble"), help="only those that this exporter makes; nibble's needs Nibble"
    )
    arguments = parser.parse_args()

    logging.disable(logging.WARNING)
    from conformance.cases import CASES, SLOW

    every = CASES | SLOW if arguments.slow else CASES
    chosen = [case for name, case in every.items() if arguments.only in name]
    if arguments.by:
        chosen = [case for case in chosen if getattr(case, "by_nibble", False) == (arguments.by == "nibble")]
    made, failed, start = 0, [], time.monotonic()
    for number, case in enumerate(chosen, 1):
        began = time.monotonic()
        try:
            if not export_case(case, arguments.out):
                continue
            made += 1
            print(f"[{number}/{len(chosen)}] {case.name}: {time.monotonic() - began:.1f} s", flush=True)
        except Exception as error:
            failed.append(case.name)
            print(f"[{number}/{len(chosen)}] {case.name}: {type(error).__name__}: {error}", flush=True)
    print(f"{len(chosen)} programs, {made} exported now, {len(failed)} failed, in {time.monotonic() - start:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
