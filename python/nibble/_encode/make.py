"""Makes the program of a model that has a name; in a process of its own, see kept.py.

    python -m nibble._encode.make NAME PRECISION mean|direction FILE.pte

Prints a line for each step, and nothing else.
"""

import contextlib
import logging
import sys
import warnings
from pathlib import Path

import torch

from .._export import Exported, _keep_fusion_patterns
from .models import KNOWN
from .program import export_program


def module_of(name: str, precision: str, normalize: bool) -> torch.nn.Module:
    known, quantized = KNOWN[name], precision == "4-bit"
    if name == "minilm":
        from .minilm import load_model, quantize

        model = load_model((known.folder / known.weights).parent, normalize)
        return quantize(model) if quantized else model
    from safetensors.numpy import load_file

    from .wordllama import WordLlama, WordLlamaQ4

    table = load_file(known.folder / known.weights)["embedding.weight"]
    return (WordLlamaQ4 if quantized else WordLlama)(table, normalize)


def main(name: str, precision: str, result: str, path: str) -> None:
    def tell(step: str) -> None:
        print(step, file=steps, flush=True)

    steps = sys.stdout
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    with contextlib.redirect_stdout(sys.stderr):
        tell("reading the weights" + (" and quantizing them" if precision == "4-bit" else ""))
        module = module_of(name, precision, result == "direction")
        tell("exporting")
        _keep_fusion_patterns()
        Exported(export_program(module, KNOWN[name].max_length), []).save(Path(path))


if __name__ == "__main__":
    main(*sys.argv[1:])
