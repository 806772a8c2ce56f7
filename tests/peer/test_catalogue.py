"""The op tests of ExecuTorch's in-tree WebGPU backend on Nibble, at their own tolerances.

One case of every third suite is part of the everyday tests; `./test peer` runs all of them.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import nibble
from conformance.programs import OnExecutorch, OnNibble
from peer import results
from peer.export_catalogue import entries, export_entry
from support.missing import MISSING

# How the generator writes what it calls a type.
FILE_TYPES = {"float32": "<f4", "int32": "<i4", "int64": "<i8", "int8": "i1", "bool": "i1"}


def read(folder: Path, facts: dict) -> np.ndarray:
    array = np.fromfile(folder / facts["path"], FILE_TYPES[facts["dtype"]]).reshape(facts["shape"])
    return array.astype(bool) if facts["dtype"] == "bool" else array


def parameters():
    return [
        pytest.param(entry, id=entry.name, marks=[] if entry.everyday else [pytest.mark.slow]) for entry in entries()
    ]


def check(result: np.ndarray, facts: dict, folder: Path, where: str) -> None:
    golden = read(folder, facts["golden"])
    assert result.shape == golden.shape, where
    if golden.dtype != np.float32:
        np.testing.assert_array_equal(result, golden, err_msg=where)
        return
    assert result.dtype == np.float32, where
    with np.errstate(invalid="ignore"):
        error = np.abs(result.astype(np.float64) - golden)
        # The peer's rule: either bound will do.
        good = (error <= facts["atol"]) | (error <= facts["rtol"] * np.abs(golden)) | (result == golden)
    bad = ~(good | (np.isnan(result) & np.isnan(golden)))
    assert not bad.any(), f"{where}: {bad.sum()} of {bad.size} elements, largest error {np.nanmax(error)}"


@pytest.mark.parametrize("entry", parameters())
def test_case_gives_the_golden_result(entry, catalogue):
    results.RAN.append(entry.suite)
    export_entry(entry, catalogue)
    facts = json.loads((catalogue / f"{entry.name}.json").read_text())
    outputs = facts["outputs"]
    path = catalogue / outputs[0]["pte"]
    missing = MISSING.intersection(facts["ops"])
    if missing:
        results.MISSING[entry.suite] |= missing
        with pytest.raises(nibble.NibbleError) as error:
            nibble.load(path)
        assert all(name in str(error.value) for name in missing)
        return
    session = OnExecutorch(path) if facts["outside"] else OnNibble(path)
    got = session.run(*(read(catalogue, made) for made in outputs[0]["inputs"]))
    assert len(got) == len(outputs)
    for output in outputs:
        index = output["golden"]["output_index"]
        check(got[index], output, catalogue, f"{entry.name}, output {index}")
    results.PASSED.append(entry.suite)
