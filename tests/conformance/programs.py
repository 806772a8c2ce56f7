"""Exported programs, and the ways to run them."""

import itertools
import json
import os
from dataclasses import dataclass
from pathlib import Path

import executorch.runtime
import numpy as np
import pytest

import nibble
from conformance.blob_cases import Built
from conformance.case import Case, as_arrays, as_tensor
from conformance.cases import CASES, SLOW
from conformance.export_programs import export_case


class OnExecutorch:
    """A method in stock ExecuTorch, which reaches Nibble as a backend."""

    def __init__(self, path: Path):
        self._program = executorch.runtime.Runtime.get().load_program(path)
        self._method = self._program.load_method("forward")

    def run(self, *inputs: np.ndarray) -> tuple[np.ndarray, ...]:
        return as_arrays(self._method.execute([as_tensor(array) for array in inputs]))


class OnNibble:
    """The same in Nibble alone."""

    def __init__(self, path: Path, max_shard_bytes: int = 0, **options):
        self.model = nibble.load(path, max_shard_bytes=max_shard_bytes, **options)

    def run(self, *inputs: np.ndarray) -> tuple[np.ndarray, ...]:
        return as_arrays(self.model.run(*inputs))


# The names of cases whose calls gave what they should. docs/ops.md is made from them.
PASSED: set[str] = set()

OPENERS = {"executorch": OnExecutorch, "nibble": OnNibble}
# They differ in what the host does, not on the device. So every day the slower adapter runs cases on one of them, and
# the other one every third exported program on both.
IS_QUICK = bool(os.environ.get("NIBBLE_TEST_QUICK"))
IS_FULL = bool(os.environ.get("NIBBLE_TEST_FULL"))
ROUTES = ("nibble",) if IS_QUICK else tuple(OPENERS)


# What the other adapters speak for.
LEFT_OUT: set[str] = set()


def everyday(cases) -> list:
    """Every eighth one, on the slower adapter: Node runs more of them, on the same adapter and engine."""
    every = list(cases)
    if not IS_QUICK:
        return every
    LEFT_OUT.update(getattr(case, "name", case) for i, case in enumerate(every) if i % 8)
    return every[::8]


def check_results(results, expected, rtol: float, atol: float, what: str) -> None:
    """Compares the results of one call: number, dtypes, shapes and values."""
    assert len(results) == len(expected), what
    for index, (result, wanted) in enumerate(zip(results, expected, strict=True)):
        where = f"{what}, output {index}"
        assert result.dtype == wanted.dtype, where
        assert result.shape == wanted.shape, where
        np.testing.assert_allclose(result, wanted, rtol, atol, err_msg=where)


def check_built(session, program: Built) -> None:
    for number, (inputs, expected) in enumerate(program.calls):
        check_results(session.run(*inputs), expected, *program.tolerances, f"call {number}")
    if program.name:
        PASSED.add(program.name)


def open_built(program: Built, folder: Path, route: str = "nibble"):
    path = folder / "model.pte"
    path.write_bytes(program.pte())
    return OPENERS[route](path)


@dataclass(frozen=True)
class ExportedProgram:
    case: Case
    folder: Path

    @classmethod
    def get(cls, name: str, programs: Path) -> "ExportedProgram":
        case = CASES.get(name) or SLOW[name]
        export_case(case, programs)
        return cls(case, programs / name)

    @property
    def name(self) -> str:
        return self.case.name

    @property
    def path(self) -> Path:
        return self.folder / "model.pte"

    def open(self, route: str):
        if route == "executorch":
            return OnExecutorch(self.path)
        return OnNibble(self.path, self.case.shard_bytes if route == "sharded" else 0)

    def calls(self, way: str = "torch") -> list[tuple[list[np.ndarray], list[np.ndarray]]]:
        """Inputs and results of every call."""
        facts = json.loads((self.folder / "case.json").read_text())
        return [
            (
                [np.load(self.folder / f"in{call}_{i}.npy") for i in range(facts["inputs"])],
                [np.load(self.folder / f"{way}{call}_{i}.npy") for i in range(facts["outputs"])],
            )
            for call in range(facts["calls"])
        ]

    def check(self, results, expected, what: str = "") -> None:
        check_results(results, expected, self.case.rtol, self.case.atol, self.case.name + what)

    def check_calls(self, session) -> None:
        for number, (inputs, expected) in enumerate(self.calls()):
            self.check(session.run(*inputs), expected, f", call {number}")
        PASSED.add(self.case.name)


def needs_executorch(case: Case) -> bool:
    return bool(case.outside)


def every_route(cases: list[Case]) -> pytest.MarkDecorator:
    """Parametrizes a test with (name, route): ExecuTorch, Nibble alone, and with shards where the case says so."""

    def routes(place: int, case: Case) -> list[str]:
        by_both = ROUTES if IS_FULL or place % 3 == 0 else ["nibble"]
        return [*(["executorch"] if case.outside else by_both), *(["sharded"] if case.shard_bytes else [])]

    ordered = (*filter(needs_executorch, cases), *everyday(itertools.filterfalse(needs_executorch, cases)))
    return pytest.mark.parametrize(
        ("name", "route"),
        [
            pytest.param(case.name, route, id=f"{case.name}-{route}")
            for place, case in enumerate(ordered)
            for route in routes(place, case)
        ],
    )
