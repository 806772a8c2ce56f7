"""Many threads that load, run, fork, save, trace, tune, cancel and close many programs, and a process that stays as
large as it was.

    soak.py [--minutes 30] [--seed N] [--threads 4] [--programs build/programs] [--count 24]

Every ten seconds the threads pause with everything closed, and a line is printed. GPU objects and file descriptors are
then as many as at the beginning. The median of resident memory in the last third is at most that of the second third,
2 % and 8 MB; until a device has compiled the 256 pipelines that it keeps, growth between two lines is left out if
pipelines were compiled there. Exit code 1 where this is not so or cannot be told, or where a thread failed.
"""

import argparse
import ctypes
import gc
import itertools
import json
import math
import os
import random
import signal
import statistics
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import nibble

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from support.resident import resident_bytes  # noqa: E402

MOST_BYTES = 1 << 20  # larger programs make rounds slow and show nothing else
SMALL = {"max_device_bytes": 1 << 24, "max_host_bytes": 1 << 24, "max_nodes": 256, "max_dispatches": 1024}
MARGIN, MARGIN_BYTES = 0.02, 8e6
KEPT = 256  # pipelines, see src/gpu/pipelines.hpp
TUNED = 3  # programs
WARM_MS = 5000  # for each of them at the beginning, so that fewer are compiled later
FAR = 0.02  # how many values may differ by more than rounding where variants differ


@dataclass(frozen=True)
class Program:
    """A program with the results that its calls gave when nothing else ran."""

    path: Path
    calls: list[tuple[list[np.ndarray], tuple]]

    @classmethod
    def prepare(cls, folder: Path, device: nibble.Device) -> "Program | None":
        """None for a program that Nibble does not run alone."""
        facts = json.loads((folder / "case.json").read_text())
        inputs = [[np.load(folder / f"in{c}_{i}.npy") for i in range(facts["inputs"])] for c in range(facts["calls"])]
        try:
            with nibble.load(folder / "model.pte", device) as model:
                return cls(folder / "model.pte", [(call, as_tuple(model.run(*call))) for call in inputs])
        except nibble.NibbleError:
            return None

    def check(self, session, begin: int = 0, end: int | None = None) -> None:
        """Some calls of a session that has made those before."""
        for inputs, expected in self.calls[begin:end]:
            self.compare(session.run(*inputs), expected)

    def compare(self, results, expected) -> None:
        for result, wanted in zip(as_tuple(results), expected, strict=True):
            np.testing.assert_array_equal(result, wanted, err_msg=str(self.path))

    def compare_nearly(self, results, expected) -> None:
        """Other variants may add in another order, and a step of a quantized value may go the other way."""
        for result, wanted in zip(as_tuple(results), expected, strict=True):
            result, wanted = (np.asarray(one, np.float64) for one in (result, wanted))
            far = ~np.isclose(result, wanted, rtol=1e-2, atol=1e-2, equal_nan=True)
            if far.mean() > FAR:
                raise AssertionError(f"{self.path}: {far.sum()} of {far.size} values are others when tuned")


def as_tuple(results) -> tuple:
    return results if isinstance(results, tuple) else (results,)


class Worker(threading.Thread):
    """Does one thing after the other, and holds nothing in between."""

    def __init__(self, soak: "Soak", number: int):
        super().__init__(daemon=True)
        self.soak = soak
        self.random = random.Random(soak.seed * 1000 + number)
        self.file = soak.folder / f"hostile{number}.pte"
        self.state = soak.folder / f"state{number}"
        self.things = {
            self.load_and_run: 4,
            self.sessions: 4,
            self.close_amid_calls: 2,
            self.cancel: 2,
            self.hostile: 6,
            self.fork_process: 1,
            self.fork_session: 3,
            self.save_and_restore: 3,
            self.trace: 2,
            self.tune: 0.2,
        }

    def run(self) -> None:
        try:
            while self.soak.go_on():
                thing = self.random.choices(list(self.things), weights=self.things.values())[0]
                thing(self.random.choice(self.soak.programs))
                self.soak.counts[thing.__name__] += 1
        except BaseException:
            self.soak.fail(traceback.format_exc())

    def load(self, program: Program, **options) -> nibble.Model:
        return nibble.load(program.path, self.soak.device, **options)

    def load_and_run(self, program: Program) -> None:
        with self.load(program) as model:
            program.check(model)

    def sessions(self, program: Program) -> None:
        """Several of one model, some of which outlive it."""
        with self.load(program) as model:
            made = [model.session() for _ in range(self.random.randint(1, 4))]
        self.random.shuffle(made)
        for session in made:
            with session:
                program.check(session)

    def close_amid_calls(self, program: Program) -> None:
        self.amid_calls(program, lambda model, session: (model.close(), session.close()), "closed")

    def cancel(self, program: Program) -> None:
        # A batch for each dispatch, so that there is something to cancel.
        self.amid_calls(program, lambda _, session: session.cancel(), "cancelled", max_batch_work=1)

    def amid_calls(self, program: Program, interrupt, sentence: str, **options) -> None:
        """Another thread interrupts a session's calls, which are right or say so."""
        with self.load(program, **options) as model, model.session() as session:
            other = threading.Timer(self.random.uniform(0, 0.02), interrupt, (model, session))
            other.start()
            try:
                program.check(session)
            except nibble.NibbleError as error:
                if sentence not in str(error):
                    raise
                self.soak.counts[f"calls {sentence}"] += 1
            finally:
                other.join()

    def hostile(self, program: Program) -> None:
        """A program with a few other bytes is refused, or runs."""
        content = bytearray(program.path.read_bytes())
        for _ in range(self.random.choice((1, 1, 2, 8))):
            at = self.random.randrange(len(content))
            content[at] = self.random.choice((0, 1, 127, 255, content[at] ^ 1 << self.random.randrange(8)))
        if self.random.random() < 0.1:
            del content[self.random.randrange(len(content)) :]
        self.file.write_bytes(content)
        try:
            with nibble.load(self.file, self.soak.device, **SMALL) as model:
                model.run(*program.calls[0][0])
        except nibble.NibbleError as error:
            if error.code in ("internal", "gpu", "device_lost"):
                find = ROOT / "build" / f"soak-find-{self.soak.seed}.pte"
                find.write_bytes(content)
                raise AssertionError(f"{find}: {error}") from error
            self.soak.counts["refused"] += 1

    def fork_process(self, program: Program) -> None:
        with self.load(program) as model:
            child = os.fork()
            if child == 0:
                signal.alarm(60)  # ends a child that hangs
                os._exit(7 if all(fails(call) for call in self.calls_of(model, program)) else 1)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            if code != 7:
                raise AssertionError(f"a child of a fork ended with {code}")
            program.check(model)

    def fork_session(self, program: Program) -> None:
        """Two sessions that part between two calls go on alike."""
        part = self.random.randint(0, len(program.calls))
        with self.load(program, staged=self.random.random() < 0.5) as model, model.session() as session:
            program.check(session, end=part)
            with session.fork() as forked:
                program.check(session, begin=part)
                program.check(forked, begin=part)

    def save_and_restore(self, program: Program) -> None:
        """What a session was, another one is, and begins again."""
        part = self.random.randint(0, len(program.calls))
        with self.load(program) as model, model.session() as session:
            program.check(model, end=part)
            model.save(self.state)
            session.restore(self.state)
            program.check(session, begin=part)
            session.reset()
            program.check(session)

    def trace(self, program: Program) -> None:
        """One at a time: a device is traced, whoever uses it."""
        if not self.soak.tracing.acquire(blocking=False):
            return
        try:
            path = self.soak.folder / "trace.json"
            with self.soak.device.trace(path):
                self.load_and_run(program)
            if not json.loads(path.read_text())["traceEvents"]:
                raise AssertionError("a trace of a load and of calls is empty")
        finally:
            self.soak.tracing.release()

    def tune(self, program: Program) -> None:
        """Beside what the others do, so its times mean little; but what it chooses is right. Of few programs, so that
        all pipelines of their variants are soon there."""
        program = self.soak.programs[self.random.randrange(len(self.soak.programs)) % TUNED]
        path = self.soak.folder / f"tuning{self.state.name}.json"
        nibble.tune(program.path, self.soak.device, output=path, tune_ms=200)
        with self.load(program, tuning=path) as model:
            for inputs, expected in program.calls:
                program.compare_nearly(model.run(*inputs), expected)
        path.unlink()

    def calls_of(self, model: nibble.Model, program: Program):
        inputs = program.calls[0][0]
        return (
            lambda: model.run(*inputs),
            model.session,
            lambda: self.load(program),
            lambda: self.soak.device.live_objects,
        )


def fails(call) -> bool:
    try:
        call()
    except nibble.NibbleError:
        return True
    return False


@dataclass(frozen=True)
class Sample:
    seconds: float
    resident: int
    files: int
    objects: int
    pipelines: int


class Soak:
    def __init__(self, arguments: argparse.Namespace, folder: Path):
        self.seed, self.folder = arguments.seed, folder
        self.seconds = arguments.minutes * 60
        self.counts: Counter = Counter()
        self.failures: list[str] = []
        self.device = nibble.Device()
        self.programs = self.prepare(arguments.programs, arguments.count)
        self.samples = []
        self.is_over = False
        self.paused = threading.Event()
        self.tracing = threading.Lock()
        self.turn = threading.Condition()
        self.at_rest = 0
        self.workers = [Worker(self, number) for number in range(arguments.threads)]

    def prepare(self, folder: Path, count: int) -> list[Program]:
        folders = sorted(path.parent for path in folder.glob("*/model.pte") if path.stat().st_size <= MOST_BYTES)
        random.Random(self.seed).shuffle(folders)
        programs = []
        for one in folders:
            if len(programs) == count:
                break
            if program := Program.prepare(one, self.device):
                programs.append(program)
        if not programs:
            sys.exit(f"soak: there are no programs in {folder}; ./test python makes them")
        for program in programs[:TUNED]:
            nibble.tune(program.path, self.device, output=self.folder / "warm.json", tune_ms=WARM_MS)
        return programs

    def fail(self, what: str) -> None:
        with self.turn:
            self.failures.append(what)
            self.is_over = True
            self.turn.notify_all()

    def go_on(self) -> bool:
        """For workers between two things: waits while a sample is taken."""
        with self.turn:
            self.at_rest += 1
            self.turn.notify_all()
            self.turn.wait_for(lambda: self.is_over or not self.paused.is_set())
            self.at_rest -= 1
            return not self.is_over

    def sample(self, start: float) -> None:
        """While nothing is open and nobody works. What is kept for later is no leak: Dawn frees what was released
        when it works next, and the allocator when it is asked."""
        self.paused.set()
        with self.turn:
            if not self.turn.wait_for(lambda: self.is_over or self.at_rest == len(self.workers), timeout=300):
                self.failures.append("a thread has done one thing for five minutes")
                self.is_over = True
            if self.is_over:
                return
            with nibble.load(self.programs[0].path, self.device) as model:
                self.programs[0].check(model)
            gc.collect()
            ctypes.CDLL(None).malloc_trim(0)
            files = len(os.listdir("/proc/self/fd"))
            objects, pipelines = self.device.live_objects, self.device.compiled_pipelines
            self.samples.append(Sample(time.monotonic() - start, resident_bytes(), files, objects, pipelines))
            self.paused.clear()
            self.turn.notify_all()
        now = self.samples[-1]
        counts = ", ".join(f"{name} {count}" for name, count in sorted(self.counts.items()))
        print(
            f"{now.seconds:5.0f} s: {now.resident / 1e6:.1f} MB, {now.files} files, {now.objects} objects, "
            f"{now.pipelines} pipelines; {counts}",
            flush=True,
        )

    def run(self) -> int:
        for worker in self.workers:
            worker.start()
        start = time.monotonic()
        self.sample(start)
        while not self.is_over and time.monotonic() - start < self.seconds:
            time.sleep(min(10, self.seconds / 12))
            self.sample(start)
        with self.turn:
            self.is_over = True
            self.turn.notify_all()
        for worker in self.workers:
            worker.join(60)
        self.failures += self.growth() if not self.failures else []
        if self.counts["cancel"] > 50 and not self.counts["calls cancelled"]:
            self.failures.append("none of the calls that were to be cancelled was")
        for failure in self.failures:
            print(failure)
        things = sum(self.counts.values()) - self.counts["refused"]
        print(f"{things} things, {len(self.failures)} failures")
        return 1 if self.failures else 0

    def growth(self) -> list[str]:
        found = []
        for what in ("files", "objects"):
            numbers = [getattr(sample, what) for sample in self.samples]
            if len(set(numbers)) != 1:
                found.append(f"{what} with everything closed, from the first sample on: {numbers}")
        return found + growth_of(self.samples, self.seconds)


def growth_of(samples: list[Sample], seconds: float) -> list[str]:
    """What is wrong with the memory of samples: see the top of this file."""
    memory = [samples[0].resident]
    counted = []
    for before, now in itertools.pairwise(samples):
        counts = before.pipelines == now.pipelines or before.pipelines >= KEPT
        memory.append(memory[-1] + (now.resident - before.resident if counts else 0))
        if now.seconds >= seconds / 3:
            counted.append(counts)
    if sum(counted) < max(2, len(counted) / 3):
        return [f"pipelines were compiled before all but {sum(counted)} of {len(counted)} samples: soak for longer"]
    second, last = (
        statistics.median(m for m, s in zip(memory, samples, strict=True) if begin <= s.seconds < end)
        for begin, end in ((seconds / 3, 2 * seconds / 3), (2 * seconds / 3, math.inf))
    )
    grown = last - second
    if grown <= second * MARGIN + MARGIN_BYTES:
        return []
    return [f"resident memory grew by {grown / 1e6:.1f} MB from the second third to the last, without new pipelines"]


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Loads, runs, forks, saves, traces, tunes, cancels and closes programs from many threads."
    )
    parser.add_argument("--minutes", type=float, default=30, help="how long (default: 30)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of all that is random (default: the time)")
    parser.add_argument("--threads", type=int, default=4, help="how many work at once (default: 4)")
    parser.add_argument("--programs", type=Path, default=ROOT / "build" / "programs", help="exported programs")
    parser.add_argument("--count", type=int, default=24, help="how many of them (default: 24)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(arguments, Path(folder))
        print(f"seed {arguments.seed} on {soak.device.name}, {len(soak.programs)} programs", flush=True)
        return soak.run()


if __name__ == "__main__":
    sys.exit(main())
