"""Exports the token embeddings of the package `wordllama` as a 4-bit program: ids [1, n] to their mean [1, 1, 256].

python examples/export_wordllama.py wordllama-q4.pte
"""

import importlib.util
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

import nibble

GROUP_SIZE = 32
MAX_LENGTH = 512


def wordllama_folder() -> Path:
    """Where the package's files lie; importing it would do more than is needed."""
    spec = importlib.util.find_spec("wordllama")
    if spec is None:
        raise SystemExit("The package 'wordllama' is not installed; its table is what this example runs on.")
    return Path(spec.submodule_search_locations[0])


def read_table() -> np.ndarray:
    """The table as it is published: float16 [32000, 256]."""
    return load_file(wordllama_folder() / "weights" / "l2_supercat_256.safetensors")["embedding.weight"]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    nibble.export_embedding(read_table(), GROUP_SIZE, sys.argv[1], reduce="mean", max_length=MAX_LENGTH)
