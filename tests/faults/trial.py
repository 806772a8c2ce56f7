"""The driver that fails on purpose, and what a process does with one of its faults."""

import ctypes
import json
import os
import subprocess
import sys
from ctypes import c_bool, c_char_p, c_int32, c_int64, c_size_t, c_uint64
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import nibble

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "build" / "release" / "tests" / "libnibble_faults.so"
FOLDER = ROOT / "build" / "faults"
RESULTS = {"out of host memory": -1, "out of device memory": -2, "device lost": -4}

_FUNCTIONS = {
    "nibble_faults_name": (c_char_p, [c_size_t]),
    "nibble_faults_can_lose": (c_bool, [c_char_p]),
    "nibble_faults_set": (c_bool, [c_char_p, c_uint64, c_int32]),
    "nibble_faults_calls": (c_uint64, [c_char_p]),
    "nibble_faults_failed": (c_uint64, []),
    "nibble_faults_devices": (c_uint64, []),
    "nibble_faults_memories": (c_int64, []),
}


def use_driver(icd: str) -> ctypes.CDLL:
    """Puts the failing driver before the one that an ICD file names. Call it before anything uses the GPU."""
    described = json.loads(Path(icd).read_text())
    real = described["ICD"]["library_path"]
    # A path is relative to the file; a bare name is the loader's to find.
    os.environ["NIBBLE_FAULTS_DRIVER"] = str(Path(icd).parent / real) if "/" in real else real
    described["ICD"]["library_path"] = str(LIBRARY)
    FOLDER.mkdir(parents=True, exist_ok=True)
    ours = FOLDER / Path(icd).name
    ours.write_text(json.dumps(described))
    os.environ["VK_ICD_FILENAMES"] = str(ours)
    driver = ctypes.CDLL(str(LIBRARY))
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(driver, name)
        function.restype, function.argtypes = result, arguments
    return driver


def names(driver: ctypes.CDLL) -> list[str]:
    found = []
    while name := driver.nibble_faults_name(len(found)):
        found.append(name.decode())
    return found


def make_program() -> Path:
    """The program of program.py, which needs the exporter's packages; they are not loaded into this process."""
    path, source = FOLDER / "program.pte", Path(__file__).with_name("program.py")
    made = path.with_suffix(".npz")
    if not made.exists() or made.stat().st_mtime < source.stat().st_mtime:
        FOLDER.mkdir(parents=True, exist_ok=True)
        # Others may make it at the same time.
        part = FOLDER / f"program-{os.getpid()}.pte"
        subprocess.run([sys.executable, str(source), str(part)], check=True, capture_output=True)
        part.replace(path)
        part.with_suffix(".npz").replace(made)
    return path


@dataclass(frozen=True)
class Fault:
    """The call-th call of a function, counted from before the device is opened, has this result."""

    function: str
    call: int
    result: str

    def __str__(self) -> str:
        return f"{self.function} {self.call}, {self.result}"


class WrongError(Exception):
    """What must not happen."""


class Trial:
    """Opens a device, loads and runs while something fails; then again when nothing does."""

    def __init__(self, driver: ctypes.CDLL, path: Path):
        self.driver, self.path = driver, path
        stored = np.load(path.with_suffix(".npz"))
        self.calls = [tuple(stored[f"{key}{i}"] for key in ("place", "ids", "wanted")) for i in range(3)]
        self.errors: list[nibble.NibbleError] = []

    def answer(self, call):
        """What a call gives, or its error."""
        try:
            return call()
        except nibble.NibbleError as error:
            text = str(error)
            if len(text) < 20 or "\n" in text:
                raise WrongError(f"an error that is no sentence: {text!r}") from error
            self.errors.append(error.with_traceback(None))  # a traceback would keep what the call had made
            return error

    def twice(self, call):
        """As answer(), once more if it fails: after a fault that passed, the second answer is right."""
        answer = self.answer(call)
        return self.answer(call) if isinstance(answer, nibble.NibbleError) else answer

    def run(self, session, index: int):
        """One of the program's calls, or its error."""
        place, ids, wanted = self.calls[index]
        answer = self.twice(lambda: session.run(place, ids))
        if not isinstance(answer, nibble.NibbleError) and not np.allclose(answer, wanted, rtol=1e-5, atol=1e-5):
            raise WrongError(f"wrong numbers in call {index}: {answer.ravel()[:5]} for {wanted.ravel()[:5]}")
        return answer

    def use(self) -> tuple[list, nibble.NibbleError | None]:
        """The objects that could be made, device first, and the error that ended it, if one came twice."""
        made = []
        steps = [
            nibble.Device,
            lambda: nibble.load(self.path, device=made[0]),
            lambda: made[1].session(),
        ]
        for step in steps:
            answer = self.twice(step)
            if isinstance(answer, nibble.NibbleError):
                return made, answer
            made.append(answer)
        for index in range(len(self.calls)):
            for session in made[1:]:
                if isinstance(answer := self.run(session, index), nibble.NibbleError):
                    return made, answer
        for _ in range(2):
            bad = self.answer(lambda: made[1].run(self.calls[0][0], np.full((1, 1, 1), 15)))
            if not isinstance(bad, nibble.NibbleError):
                raise WrongError("an id outside the table was taken")
            if bad.code == "out_of_range":
                self.errors.remove(bad)
                return made, None
        return made, bad

    def check_dead(self, made: list, first: nibble.NibbleError) -> None:
        """Every call on what belongs to a device that failed gives an error."""
        place, ids, _ = self.calls[0]
        uses = [lambda: nibble.load(self.path, device=made[0])]
        uses += [one.session for one in made if isinstance(one, nibble.Model)]
        uses += [lambda one=one: one.run(place, ids) for one in made if not isinstance(one, nibble.Device)]
        for use in uses:
            answer = self.answer(use)
            if not isinstance(answer, nibble.NibbleError):
                raise WrongError(f"a call succeeded on a device that failed: {first}")
            if first.code == "device_lost" and answer.code != "device_lost":
                raise WrongError(f"a lost device says: {answer.code}: {answer}")

    def run_all(self, fault: Fault | None) -> dict:
        """What came of a fault, as values for JSON; raises WrongError."""
        if fault:
            self.driver.nibble_faults_set(fault.function.encode(), fault.call, RESULTS[fault.result])
        else:
            self.driver.nibble_faults_set(None, 0, 0)
        old, failed = self.use()
        answer = {
            "failed": self.driver.nibble_faults_failed(),
            "calls": {name: self.driver.nibble_faults_calls(name.encode()) for name in names(self.driver)},
        }
        self.driver.nibble_faults_set(None, 0, 0)
        # A fault in the last call of all may show in the next use of the device alone.
        if old and not failed and fault:
            more, failed = self.use()
            old += more
        answer["outcome"] = outcome(answer["failed"], self.errors, old, failed)
        answer["errors"] = [f"{error.code}: {error}" for error in self.errors]
        new, failed_again = self.use()
        if failed_again:
            raise WrongError(f"no device works after the fault: {failed_again}")
        if new[0].info.backend != "vulkan":
            raise WrongError(f"after the fault, the device is one of {new[0].info.backend}")
        if old and failed:
            self.check_dead(old, failed)
        for one in [*reversed(old), *reversed(new[1:])]:
            one.close()
        answer["live_objects"] = new[0].live_objects
        new[0].close()
        answer["devices"], answer["memories"] = (
            self.driver.nibble_faults_devices(),
            self.driver.nibble_faults_memories(),
        )
        return answer


def outcome(failed_calls: int, errors: list, made: list, failed: nibble.NibbleError | None) -> str:
    if not failed_calls:
        return "not reached"
    if failed:
        return "device failed" if made else "not opened"
    return "error, then right" if errors else "right"
