"""Runs the cases with every variant, compares the results with NumPy's, and makes the report of it."""

import contextlib
import os
import re
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from .. import Device, NibbleError, __version__, load, tune
from .cases import Case

CALLS = 5


def error_of(made: np.ndarray, wanted: np.ndarray) -> float:
    """The largest difference: of floats as a part of the number or of what is usual, of integers as it is. Infinity
    where the results have another form or are no numbers."""
    if made.shape != wanted.shape:
        return float("inf")
    difference = np.abs(made.astype(np.float64) - wanted.astype(np.float64))
    if wanted.dtype.kind == "f":
        usual = float(np.sqrt(np.mean(np.square(wanted, dtype=np.float64)))) if wanted.size else 0.0
        difference /= np.maximum(np.maximum(np.abs(wanted), usual), np.finfo(np.float32).tiny)
    worst = float(difference.max(initial=0))
    return worst if worst == worst else float("inf")


def _is_right(error: float, wanted: np.ndarray, tolerance: float) -> bool:
    return error <= (tolerance if wanted.dtype.kind == "f" else 1)


class Check:
    """What was found on one device so far: rows of cases and variants."""

    def __init__(self, device: Device, time_ms: int = 0):
        self.device = device
        self.rows: list[dict] = []
        self.notes: list[str] = []
        self.is_complete = False
        self._time_ms = time_ms

    @property
    def wrong(self) -> list[dict]:
        return [row for row in self.rows if not row["right"]]

    def run(self, cases: Iterable[Case], on_row: Callable[[dict], None] = lambda row: None) -> None:
        with tempfile.TemporaryDirectory() as folder, _nothing_kept():
            for case in cases:
                path = Path(folder) / "program.pte"
                path.write_bytes(case.program.pte())
                for row in self._rows(case, path):
                    self.rows.append(row)
                    on_row(row)
        self.is_complete = True

    def _rows(self, case: Case, path: Path) -> Iterator[dict]:
        yield self._row(case, path, "", "", None)
        try:
            variants, unmeasured = self._variants(case, path)
        except NibbleError as error:
            variants, unmeasured = [], [str(error)]
        for sentence in unmeasured:
            message = f"its variants cannot be measured: {_without(path, sentence)}"
            yield _new_row(case, "", "", None) | {"message": message}
        for choice, variant, microseconds in variants:
            yield self._row(case, path, choice, variant, microseconds)

    def _variants(self, case: Case, path: Path) -> tuple[list[tuple[str, str, float | None]], list[str]]:
        """All that are right here, with microseconds, and those that the tuner refused; and what it says of no variant
        alone."""
        output = path.with_suffix(".json")
        output.unlink(missing_ok=True)
        options = {"output": output, "tune_ms": self._time_ms, **case.program.options}
        (tuning,) = tune(path, self.device, **options)["tunings"]
        found: dict[tuple[str, str], float | None] = {}
        for row in tuning["choices"]:
            # The last is that of the largest sizes, if there are several: the case's own.
            found |= {(row["choice"], variant): us for variant, us in row.get("times", {}).items()}
        unmeasured = []
        for sentence in tuning["refused"]:
            if named := re.search(r": (\w+)=(\w+): ", sentence):
                self._note(case, path, sentence)
                found[named[1], named[2]] = None
            else:
                unmeasured.append(sentence)
        if tuning["ended"] != "complete":
            self._note(case, path, "some variants were left out for want of time; --time-ms gives more")
        return [(*names, us) for names, us in found.items()], unmeasured

    def _note(self, case: Case, path: Path, sentence: str) -> None:
        self.notes.append(f"{case.name}: {_without(path, sentence)}")

    def _row(self, case: Case, path: Path, choice: str, variant: str, kernel_us: float | None) -> dict:
        row = _new_row(case, choice, variant, kernel_us)
        try:
            forced = {choice: variant} if choice else {}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = load(path, self.device, variants=forced, **case.program.options)
            with model:
                self._compare(model, case, row)
        except NibbleError as error:
            row["message"] = _without(path, str(error))
        return row

    @staticmethod
    def _compare(model, case: Case, row: dict) -> None:
        inputs, wanted = case.program.inputs, [*case.program.wanted, *case.program.added]
        made = model(*inputs)
        made = made if isinstance(made, tuple | list) else [made]
        errors = [error_of(np.asarray(a), b) for a, b in zip(made, wanted, strict=True)]
        row["right"] = all(_is_right(e, b, case.tolerance) for e, b in zip(errors, wanted, strict=True))
        row["error"] = max(errors) if np.isfinite(max(errors)) else None
        if not row["right"]:
            row["message"] = "its results differ from NumPy's"
        times = []
        for _ in range(CALLS):
            begin = time.perf_counter()
            model(*inputs)
            times.append((time.perf_counter() - begin) * 1e6)
        row["call_us"] = round(statistics.median(times), 1)

    def report(self) -> dict:
        """Nothing in it is about the user or the machine's name."""
        info = self.device.info
        return {
            "nibble": __version__,
            "device": info.name,
            "driver": info.driver,
            "engine": info.engine,
            "profile": info.profile,
            "complete": self.is_complete,
            "checked": len(self.rows),
            "wrong": len(self.wrong),
            "rows": self.rows,
            "notes": self.notes,
        }


def _new_row(case: Case, choice: str, variant: str, kernel_us: float | None) -> dict:
    row = {"case": case.name, "choice": choice, "variant": variant, "right": False, "error": None}
    return row | {"kernel_us": kernel_us, "call_us": None}


@contextlib.contextmanager
def _nothing_kept() -> Iterator[None]:
    """Loads use no tuning that is kept, and keep none."""
    before = os.environ.get("NIBBLE_TUNE")
    os.environ["NIBBLE_TUNE"] = "0"
    try:
        yield
    finally:
        del os.environ["NIBBLE_TUNE"]
        if before is not None:
            os.environ["NIBBLE_TUNE"] = before


def _without(path: Path, sentence: str) -> str:
    """A path may tell the user's name."""
    return sentence.replace(str(path), "program.pte").replace(str(path.parent), "")
