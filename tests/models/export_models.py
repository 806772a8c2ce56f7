"""Exports the whole models with the stock exporter: model.pte, and inputs and results of every call.

    export_models.py [--full] [--only PART] [OUT]        OUT is build/models by default

What is there already, from the same source and the same packages, is left alone.
"""

import argparse
import contextlib
import hashlib
import json
import logging
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
import torch  # noqa: E402

import nibble  # noqa: E402
from conformance.export_programs import packages, prepare_once  # noqa: E402
from models.zoo import MODELS, Model, Training  # noqa: E402
from support.exporting import note_export  # noqa: E402

DEFAULT_OUT = HERE.parents[1] / "build" / "models"
TRAINING = "training"
STEPS = 20


def inputs_of(model: Model, full: bool) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(shape, generator=generator) for shape in model.calls(full)]


def quantize(exported: torch.export.ExportedProgram, inputs: list[torch.Tensor]) -> torch.nn.Module:
    """int8 by the quantizer that the Vulkan backend's own tests take: its own knows linear layers only."""
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))
    observed = prepare_pt2e(exported.module(), quantizer)
    for x in inputs:
        observed(x)
    return convert_pt2e(observed)


def export_model(model: Model, full: bool):
    """The program before it is lowered, its calls, and their results by eager torch."""
    module, inputs = model.build(full), inputs_of(model, full)
    shapes = None
    if model.dynamic:
        bounds = {i: max(x.shape[i] for x in inputs) for i in model.dynamic}
        shapes = ({i: torch.export.Dim(f"d{i}", min=model.smallest(full), max=most) for i, most in bounds.items()},)
    exported = torch.export.export(module, (inputs[0],), dynamic_shapes=shapes)
    if model.int8:
        module = quantize(exported, inputs)
        exported = torch.export.export(module, (inputs[0],), dynamic_shapes=shapes)
    with torch.no_grad():
        results = [torch.utils._pytree.tree_leaves(module(x)) for x in inputs]
    return exported, [[x] for x in inputs], results


def export_training():
    """One batch, again and again, each step from what the last one left: the loss must fall."""
    torch.manual_seed(0)
    module = Training()
    batch = [torch.randn(16, 20), torch.randint(0, 7, (16,), dtype=torch.int32)]
    state = module.start()
    exported = torch.export.export(module, (*batch, *state))
    calls, results = [], []
    for _ in range(STEPS):
        calls.append([*batch, *state])
        results.append([tensor.clone() for tensor in module(*calls[-1])])
        state = results[-1][1:]
    return exported, calls, results


def write_model(name: str, made, split: bool, out: Path, key: str) -> dict:
    from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner
    from executorch.exir import to_edge_transform_and_lower

    exported, calls, results = made
    with note_export() as notes:
        partitioner = nibble.Partitioner() if split else VulkanPartitioner()
        program = to_edge_transform_and_lower(exported, partitioner=[partitioner]).to_executorch()
    new = out / f".{name}"
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    with open(new / "model.pte", "wb") as file:
        program.write_to_file(file)
    for way, lists in (("in", calls), ("torch", results)):
        for call, tensors in enumerate(lists):
            for index, tensor in enumerate(tensors):
                np.save(new / f"{way}{call}_{index}.npy", tensor.detach().numpy())
    facts = {
        "key": key,
        "calls": len(calls),
        "inputs": len(calls[0]),
        "outputs": len(results[0]),
        "delegates": notes.delegates,
        "operators_outside": [op.name for op in program.executorch_program.execution_plan[0].operators],
    }
    (new / "facts.json").write_text(json.dumps(facts, indent=1))
    shutil.rmtree(out / name, ignore_errors=True)
    new.rename(out / name)
    return facts


def folder_name(name: str, full: bool) -> str:
    return f"{name}-full" if full else name


def export_one(name: str, full: bool, out: Path) -> dict | None:
    """Makes a model's folder, unless it is up to date; gives what it noted if it did."""
    sources = [(HERE / file).read_text() for file in ("zoo.py", "export_models.py", "requirements.txt")]
    folder = folder_name(name, full)
    key = hashlib.sha256("\n".join([folder, packages(), *sources]).encode()).hexdigest()
    with contextlib.suppress(OSError, ValueError):
        if json.loads((out / folder / "facts.json").read_text())["key"] == key:
            return None
    prepare_once()
    model = next((model for model in MODELS if model.name == name), None)
    made = export_training() if model is None else export_model(model, full)
    return write_model(folder, made, model is not None and model.split, out, key)


def main() -> int:
    parser = argparse.ArgumentParser(description="Exports the whole models of the tests.")
    parser.add_argument("out", nargs="?", type=Path, default=DEFAULT_OUT, help="where to (default: build/models)")
    parser.add_argument("--only", default="", metavar="PART", help="only models with PART in their names")
    parser.add_argument("--full", action="store_true", help="also with their full shapes")
    arguments = parser.parse_args()

    logging.disable(logging.WARNING)
    chosen = [(name, False) for name in (*(model.name for model in MODELS), TRAINING) if arguments.only in name]
    if arguments.full:
        chosen += [(name, True) for name, _ in chosen if name != TRAINING]
    failed = 0
    for name, full in chosen:
        began, title = time.monotonic(), folder_name(name, full)
        try:
            facts = export_one(name, full, arguments.out)
        except Exception as error:
            failed += 1
            print(f"{title}: {type(error).__name__}: {error}", flush=True)
            continue
        if facts:
            counts, outside = list(map(len, facts["delegates"])), facts["operators_outside"]
            print(f"{title}: {counts} operators, outside {outside}, {time.monotonic() - began:.0f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
