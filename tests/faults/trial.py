"""The driver that fails on purpose, and what a process does with one of its faults."""

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from ctypes import c_bool, c_char_p, c_int32, c_int64, c_size_t, c_uint64
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import nibble
from nibble._native import Tensor, check, lib
from nibble._tensors import fill_input

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "build" / "release" / "tests" / "libnibble_faults.so"
FOLDER = ROOT / "build" / "faults"
RESULTS = {"out of host memory": -1, "out of device memory": -2, "device lost": -4}
TUNE_MS = 100

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


# What a process does while something fails: see the methods of Trial with these names.
STAGES = ("calls", "staged", "state", "halves", "trace", "tune")


@dataclass(frozen=True)
class Fault:
    """The call-th call of a function has this result, counted from the beginning of a stage."""

    function: str
    call: int
    result: str
    stage: str = "calls"

    def __str__(self) -> str:
        return f"{self.function} {self.call} of {self.stage}, {self.result}"


class WrongError(Exception):
    """What must not happen."""


class TwiceError(Exception):
    """A call failed with an error, and failed again."""

    def __init__(self, error: nibble.NibbleError):
        super().__init__(str(error))
        self.error = error


class Trial:
    """Opens a device, loads and runs while something fails; then again when nothing does."""

    def __init__(self, driver: ctypes.CDLL, path: Path):
        self.driver, self.path = driver, path
        stored = np.load(path.with_suffix(".npz"))
        self.calls_of_program = [tuple(stored[f"{key}{i}"] for key in ("place", "ids", "wanted")) for i in range(3)]
        self.errors: list[nibble.NibbleError] = []
        self.counted: dict[str, dict[str, int]] = {}  # calls of the driver in each stage

    def arm(self, fault: Fault | None) -> None:
        """Counts calls from now on; one of them fails."""
        if fault:
            self.driver.nibble_faults_set(fault.function.encode(), fault.call, RESULTS[fault.result])
        else:
            self.driver.nibble_faults_set(None, 0, 0)

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
        """What a call gives, at the second time if the first one fails: after a fault that passed, that is right."""
        answer = self.answer(call)
        if isinstance(answer, nibble.NibbleError):
            answer = self.answer(call)
        if isinstance(answer, nibble.NibbleError):
            raise TwiceError(answer)
        return answer

    def compare(self, results: np.ndarray, index: int) -> None:
        wanted = self.calls_of_program[index][2]
        if not np.allclose(results, wanted, rtol=1e-5, atol=1e-5):
            raise WrongError(f"wrong numbers in call {index}: {results.ravel()[:5]} for {wanted.ravel()[:5]}")

    def run(self, session, index: int) -> None:
        """One of the program's calls, which is right. Made again where it was the last one, it changes nothing."""
        place, ids, _ = self.calls_of_program[index]
        self.compare(self.twice(lambda: session.run(place, ids)), index)

    def run_bad(self, session) -> None:
        """A call with an id that a kernel refuses; then the last call again, which writes over it."""
        place = self.calls_of_program[2][0]
        for _ in range(2):
            bad = self.answer(lambda: session.run(place, np.full((1, 1, 1), 15)))
            if not isinstance(bad, nibble.NibbleError):
                raise WrongError("an id outside the table was taken")
            if bad.code == "out_of_range":
                self.errors.remove(bad)
                return self.run(session, 2)
        raise TwiceError(bad)

    def use(self, stages: Sequence[str], fault: Fault | None = None) -> tuple[list, nibble.NibbleError | None]:
        """The objects that could be made, device first, and the error that ended it, if one came twice. All stages
        need the first one, which comes before them."""
        made = []
        try:
            for stage in STAGES:
                if stage != "calls" and stage not in stages:
                    continue
                if not fault or fault.stage == stage:
                    self.arm(fault)
                getattr(self, stage)(made)
                self.counted[stage] = self.counts()
        except TwiceError as error:
            return made, error.error
        return made, None

    def counts(self) -> dict[str, int]:
        return {name: self.driver.nibble_faults_calls(name.encode()) for name in names(self.driver)}

    def calls(self, made: list) -> None:
        """Opens a device, loads the program and runs it in the model's session and in another one."""
        made.append(self.twice(nibble.Device))
        made.append(self.twice(lambda: nibble.load(self.path, device=made[0])))
        made.append(self.twice(made[1].session))
        for index in range(len(self.calls_of_program)):
            for session in made[1:]:
                self.run(session, index)
        self.run_bad(made[1])

    def staged(self, made: list) -> None:
        """Outputs and faults are read by a copy, as from a GPU with memory of its own."""
        model = self.twice(lambda: nibble.load(self.path, device=made[0], staged=True))
        made.append(model)
        for index in range(len(self.calls_of_program)):
            self.run(model, index)
        self.run_bad(model)

    def state(self, made: list) -> None:
        """What a session keeps is copied, saved, set back and restored."""
        session = made[2]
        forked = self.twice(session.fork)
        made.append(forked)
        self.run(forked, 2)
        self.twice(lambda: forked.save(self.own("state")))
        self.twice(session.reset)
        self.run(session, 0)
        self.twice(lambda: session.restore(self.own("state")))
        self.run(session, 2)
        self.twice(lambda: forked.rewind(0))
        self.run(forked, 0)

    def halves(self, made: list) -> None:
        """Calls of two sessions are in flight at once."""
        place, ids, _ = self.calls_of_program[2]
        calls = [(session, HalfCall(session, place, ids)) for session in (made[1]._own, made[2])]
        answers = [self.answer(call.submit) for _, call in calls]
        # All that were submitted are waited for, whatever came of the others.
        for i, (_, call) in enumerate(calls):
            if not isinstance(answers[i], nibble.NibbleError):
                answers[i] = self.answer(call.wait)
        for (session, _), answer in zip(calls, answers, strict=True):
            if isinstance(answer, nibble.NibbleError):
                self.run(session, 2)
            else:
                self.compare(answer, 2)

    def trace(self, made: list) -> None:
        """A call whose dispatches are timed."""
        place, ids, _ = self.calls_of_program[2]

        def traced():
            with made[0].trace(self.own("trace")):
                return made[2].run(place, ids)

        self.compare(self.twice(traced), 2)

    def tune(self, made: list) -> None:
        """Kernel variants are measured, for a moment, and used."""
        self.twice(lambda: nibble.tune(self.path, device=made[0], tune_ms=TUNE_MS, output=self.own("tuning")))
        made.append(self.twice(lambda: nibble.load(self.path, device=made[0], tuning=str(self.own("tuning")))))
        self.run(made[-1], 0)

    def own(self, what: str) -> Path:
        """A file of this process."""
        return FOLDER / f"{what}-{os.getpid()}"

    def check_dead(self, made: list, first: nibble.NibbleError) -> None:
        """Every call on what belongs to a device that failed gives an error."""
        place, ids, _ = self.calls_of_program[0]
        uses = [
            lambda: nibble.load(self.path, device=made[0]),
            lambda: nibble.tune(self.path, device=made[0], tune_ms=TUNE_MS, output=self.own("tuning")),
        ]
        uses += [one.session for one in made if isinstance(one, nibble.Model)]
        uses += [lambda one=one: one.run(place, ids) for one in made if not isinstance(one, nibble.Device)]
        for session in (one for one in made if isinstance(one, nibble.Session)):
            uses += [session.fork, session.reset, lambda one=session: one.rewind(0)]
            uses += [lambda one=session: one.save(self.own("saved"))]
            if self.own("state").exists():
                uses += [lambda one=session: one.restore(self.own("state"))]
        for use in uses:
            answer = self.answer(use)
            if not isinstance(answer, nibble.NibbleError):
                raise WrongError(f"a call succeeded on a device that failed: {first}")
            if first.code == "device_lost" and answer.code != "device_lost":
                raise WrongError(f"a lost device says: {answer.code}: {answer}")
        if self.own("saved").exists():
            raise WrongError("a state that could not be saved left a file")

    def run_all(self, stages: Sequence[str], fault: Fault | None = None) -> dict:
        """What came of a fault, as values for JSON; raises WrongError."""
        try:
            return self.run_with_files(stages, fault)
        finally:
            for path in FOLDER.glob(f"*-{os.getpid()}"):
                path.unlink()

    def run_with_files(self, stages: Sequence[str], fault: Fault | None) -> dict:
        self.arm(None)
        old, failed = self.use(stages, fault)
        answer = {"failed": self.driver.nibble_faults_failed(), "calls": dict(self.counted)}
        if self.errors and not answer["failed"]:
            raise WrongError(f"without a fault: {self.errors[0]}")
        self.arm(None)
        # A fault in the last call of all may show in the next use of the device alone.
        if old and not failed and fault:
            more, failed = self.use(stages)
            old += more
        answer["outcome"] = outcome(answer["failed"], self.errors, old, failed)
        answer["errors"] = [f"{error.code}: {error}" for error in self.errors]
        new, failed_again = self.use(stages)
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


class HalfCall:
    """A call whose halves the caller makes, which Python's sessions do not offer."""

    def __init__(self, session: nibble.Session, *inputs: np.ndarray):
        self.session = session
        self.inputs, self.outputs = (Tensor * len(inputs))(), (Tensor * 1)()
        self.kept: list = []  # memory that the call reads
        for native, value, spec in zip(self.inputs, inputs, session._inputs, strict=True):
            fill_input(native, value, spec, self.kept)

    def submit(self) -> None:
        with self.session._turn() as native:
            check(lib.nibble_session_set_inputs(native, self.inputs, len(self.inputs)))
            (output,) = self.outputs
            check(lib.nibble_session_output(native, 0, output))
            self.array = np.empty(tuple(output.shape[: output.rank]), np.float32)
            output.data, output.bytes = self.array.ctypes.data, self.array.nbytes
            check(lib.nibble_session_submit(native, self.outputs, 1))

    def wait(self) -> np.ndarray:
        with self.session._turn() as native:
            check(lib.nibble_session_wait(native))
        return self.array


def outcome(failed_calls: int, errors: list, made: list, failed: nibble.NibbleError | None) -> str:
    if not failed_calls:
        return "not reached"
    if failed:
        return "device failed" if made else "not opened"
    return "error, then right" if errors else "right"
