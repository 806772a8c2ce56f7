"""Whole models through ExecuTorch with Nibble as its backend, against eager torch."""

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import nibble
from conformance.programs import OnExecutorch, OnNibble
from conformance.test_registry import COMMAND
from models.export_models import MODELS, STEPS, TRAINING, export_one, folder_name
from models.measured import ROWS
from support.missing import MISSING


class Exported:
    def __init__(self, name: str, full: bool, models: Path):
        export_one(name, full, models)
        self.folder = models / folder_name(name, full)
        self.facts = json.loads((self.folder / "facts.json").read_text())
        self.path = self.folder / "model.pte"

    def arrays(self, way: str, call: int) -> list[np.ndarray]:
        count = self.facts["inputs" if way == "in" else "outputs"]
        return [np.load(self.folder / f"{way}{call}_{index}.npy") for index in range(count)]

    def open(self):
        """A session, or None where operators are missing, which the error must name."""
        missing = MISSING & {name for ops in self.facts["delegates"] for name in ops}
        alone = not self.facts["operators_outside"] and len(self.facts["delegates"]) == 1
        if not missing:
            return (OnNibble if alone else OnExecutorch)(self.path)
        if alone:
            with pytest.raises(nibble.NibbleError) as error:
                nibble.load(self.path)
            assert all(name in str(error.value) for name in missing)
        return None

    def dispatches(self) -> int | None:
        whole = ("--max-batch-work", str(sys.maxsize))  # as if none were cut into pieces
        told = subprocess.run([COMMAND, "inspect", "--json", *whole, self.path], capture_output=True, text=True).stdout
        return (json.loads(told).get("plan") or {}).get("max_dispatches") if told else None


def best_time(call, tries: int = 3) -> float:
    times = []
    for _ in range(tries):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def time_of_torch(module: torch.nn.Module, inputs: list[torch.Tensor]) -> float:
    with torch.no_grad():
        return best_time(lambda: module(*inputs))


def note(name: str, exported: Exported, error: float, session, module: torch.nn.Module | None) -> None:
    """A row of docs/models.md; the module is what is timed beside it."""
    inputs = exported.arrays("in", 0)
    took = None
    if module is not None:
        took = best_time(lambda: session.run(*inputs)) / time_of_torch(module, [*map(torch.from_numpy, inputs)])
    ROWS.append(
        {
            "model": name,
            "shape": list(inputs[0].shape),
            "error": float(error),
            "dispatches": exported.dispatches(),
            "delegates": len(exported.facts["delegates"]),
            "operators": sum(map(len, exported.facts["delegates"])),
            "outside": exported.facts["operators_outside"],
            "time": took,
        }
    )


@pytest.mark.parametrize("full", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["small", "full"])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_model_gives_what_torch_gives(model, full, models):
    exported = Exported(model.name, full, models)
    session = exported.open()
    if session is None:
        pytest.skip("operators are missing")
    error = 0.0
    for call in range(exported.facts["calls"]):
        wanted = exported.arrays("torch", call)
        got = session.run(*exported.arrays("in", call))
        assert [a.shape for a in got] == [a.shape for a in wanted]
        # Not max(), which may lose a NaN.
        error = np.max([error, *(np.abs(a - b).max() / np.abs(b).max() for a, b in zip(got, wanted, strict=True))])
    note(model.name, exported, error, session, model.build(full))
    assert error <= model.tolerance


def test_training_follows_torch_and_the_loss_falls(models):
    exported = Exported(TRAINING, False, models)
    session = exported.open()
    if session is None:
        pytest.skip("operators are missing")
    batch, state = exported.arrays("in", 0)[:2], exported.arrays("in", 0)[2:]
    losses, errors = [], []
    for step in range(STEPS):
        wanted = exported.arrays("torch", step)
        loss, *state = session.run(*batch, *state)
        losses.append(float(loss))
        errors.append(abs(losses[-1] - float(wanted[0])) / float(wanted[0]))
        np.testing.assert_allclose(losses[-1], wanted[0], rtol=1e-3)
    # What ExecuTorch has for these operators in eager torch is made to compare with, not to be fast.
    note(TRAINING, exported, max(errors), session, None)
    assert losses[-1] < losses[0] / 2
