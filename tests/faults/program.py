"""Writes the program that the sweep runs: program.py PATH.

Rows of a 4-bit table, whose ids a kernel computes and therefore checks, go into a state; a product of all of the state
is the output. What it gives in NumPy is written beside it, as PATH with the suffix .npz.
"""

import sys
from pathlib import Path

import numpy as np

if __name__ == "__main__":
    # Not this folder, which Python puts first.
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from conformance.reference import dequantize_rows
from support.vk00 import Blob

ROWS, PLACES, WIDTH, GROUP, COLUMNS = 20, 7, 8, 4, 5
# The place in the state where a call begins to write, and its ids, which the program doubles.
CALLS = ((0, [1, 9, 0]), (3, [4]), (5, [9, 2]))


def main() -> None:
    path = Path(sys.argv[1])
    rng = np.random.default_rng(1)
    packed = rng.integers(0, 256, (ROWS, WIDTH // 2), np.uint8)
    scales = rng.random((ROWS, WIDTH // GROUP), np.float32) - np.float32(0.5)
    state = rng.random((1, PLACES, 1, WIDTH), np.float32)
    weight = rng.random((COLUMNS, WIDTH), np.float32) - np.float32(0.5)

    b = Blob()
    place, ids = b.tensor("int32", [1]), b.tensor("int32", [1, 3, 1])
    doubled, rows = b.tensor("int32", [1, 3, 1]), b.tensor("float32", [1, 3, 1, WIDTH])
    shown, out = b.tensor("float32", state.shape), b.tensor("float32", [1, PLACES, 1, COLUMNS])
    start = b.symint()
    b.op("et_vk.select_as_symint.default", [place, b.integer(0), b.integer(0), start])
    b.op("aten.add.Tensor", [ids, ids, b.integer(1), doubled])
    table = [b.constant(packed), b.constant(scales), b.integer(GROUP)]
    b.op("et_vk.embedding_q4gsw.default", [*table, doubled, b.boolean(True), rows])
    b.op("update_cache.default", [rows, b.constant(state, mem_obj=1), start, shown])
    b.op("aten.linear.default", [shown, b.constant(weight), b.null(), out])
    b.inputs, b.outputs = [place, ids], [out]
    path.write_bytes(b.pte(dynamic=True))

    calls = {}
    for number, (at, given) in enumerate(CALLS):
        new = dequantize_rows(packed, scales, GROUP, True, 2 * np.array(given))
        state[0, at : at + len(given), 0] = new
        calls[f"place{number}"] = np.array([at])
        calls[f"ids{number}"] = np.array(given).reshape(1, -1, 1)
        calls[f"wanted{number}"] = state @ weight.T
    np.savez(path.with_suffix(".npz"), **calls)


if __name__ == "__main__":
    main()
