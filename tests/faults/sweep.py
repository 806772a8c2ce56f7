"""Fails calls of the GPU's driver, one at a time: see sweep.py --help.

A process for each fault opens a device, loads a program and runs it, and does one thing more with it (see STAGES),
while one call of the driver fails. Nothing may end the process, hang, give a wrong number or leak; an error is one
sentence, the objects of a device that failed answer every call with one, and the next device works. The driver is that
of $VK_ICD_FILENAMES, the engine that of $NIBBLE_ENGINE. wgpu-native may abort in the functions of WGPU_MAY_ABORT, which
are those that SECURITY.md names. It is spared devices that are lost in a function that cannot say so, because it aborts
on a lost device in the next.
"""

import argparse
import collections
import json
import os
import re
import select
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__":
    # Not this folder, which Python puts first: its modules are those of the package `faults`.
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from faults.trial import RESULTS, STAGES, Fault, Trial, WrongError, make_program, names, use_driver

WGPU_MAY_ABORT = (
    "vkAllocateCommandBuffers",
    "vkBeginCommandBuffer",
    "vkCreateCommandPool",
    "vkCreateSemaphore",
    "vkEndCommandBuffer",
    "vkGetSemaphoreCounterValue",
    "vkQueueSubmit",
    "vkWaitSemaphores",
)
# Where it lives on, it may not free the device that failed.
WGPU_MAY_LEAK = (*WGPU_MAY_ABORT, "vkCreateDescriptorSetLayout")
# A fault that takes longer hangs; it takes a second on an idle machine.
SECONDS = 300


@dataclass
class Child:
    """A process that tries one fault, or stages without one."""

    fault: Fault | None
    pid: int
    pipe: int
    stderr: int
    since: float
    text: bytes = b""


def start(trial: Trial, stages: Sequence[str], fault: Fault | None) -> Child:
    reader, writer = os.pipe()
    stderr = os.memfd_create("stderr")
    sys.stdout.flush()
    if pid := os.fork():
        os.close(writer)
        return Child(fault, pid, reader, stderr, time.monotonic())
    os.dup2(stderr, 2)
    try:
        answer = trial.run_all(stages, fault)
    except WrongError as error:
        answer = {"outcome": f"WRONG: {error}"}
    except BaseException:
        answer = {"outcome": f"WRONG: {traceback.format_exc()}"}
    with os.fdopen(writer, "w") as out:
        json.dump(answer, out)
    sys.exit(0)  # not _exit(): what engines do at the end is tried too


def finish(child: Child, is_late: bool) -> dict:
    """What came of it, as Trial.run_all() says it, or how the process ended."""
    if is_late:
        os.kill(child.pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])
    os.close(child.pipe)
    said = os.pread(child.stderr, 1 << 20, 0).decode(errors="replace").strip()
    os.close(child.stderr)
    if is_late:
        return {"outcome": f"WRONG: no end in {SECONDS} s"}
    if code == -signal.SIGABRT and (panic := re.search(r"panicked at .*\n.*", said)):
        return {"outcome": "abort", "said": panic[0]}
    if code != 0:
        return {"outcome": f"WRONG: ended with {code}: {said[-500:]}"}
    return json.loads(child.text)


def run_clean(trial: Trial, stages: Sequence[str]) -> dict:
    """What comes of no fault, with the calls of each stage."""
    child = start(trial, stages, None)
    while data := os.read(child.pipe, 1 << 16):
        child.text += data
    return finish(child, False)


def run_children(trial: Trial, faults: Sequence[Fault], jobs: int):
    """Yields each fault with what came of it."""
    waiting, running = collections.deque(faults), []
    while waiting or running:
        while waiting and len(running) < jobs:
            fault = waiting.popleft()
            running.append(start(trial, [fault.stage], fault))
        ready = select.select([child.pipe for child in running], [], [], 1)[0]
        for child in list(running):
            is_late = time.monotonic() - child.since > SECONDS
            if child.pipe in ready:
                data = os.read(child.pipe, 1 << 16)
                child.text += data
            if is_late or (child.pipe in ready and not data):
                running.remove(child)
                yield child.fault, finish(child, is_late)


def some(count: int, most: int) -> list[int]:
    """Numbers from 1 to count: all, or at most that many, evenly."""
    most = min(count, most)
    return [1 + (count - 1) * i // max(1, most - 1) for i in range(most)]


def verdict(fault: Fault, answer: dict, clean: dict, engine: str) -> str:
    """The outcome, or WRONG and why. `clean` is what comes of no fault."""
    may_abort, may_leak = (WGPU_MAY_ABORT, WGPU_MAY_LEAK) if engine == "wgpu" else ((), ())
    if answer["outcome"] == "abort":
        return "abort" if fault.function in may_abort else f"WRONG: aborted: {answer['said']}"
    left = [
        f"{key}: {answer[key]} instead of {clean[key]}"
        for key in ("live_objects", "devices", "memories")
        if answer.get(key, clean[key]) != clean[key]
    ]
    if left and fault.function in may_leak:
        return f"{answer['outcome']}, left behind"
    return f"WRONG: left behind {', '.join(left)} after {answer['errors']}" if left else answer["outcome"]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sample", type=int, metavar="N", help="some N faults of all")
    parser.add_argument("--only", action="append", metavar="FUNCTION", help="this function alone")
    parser.add_argument(
        "--fault", action="append", nargs=3, metavar=("FUNCTION", "CALL", "RESULT"), help="this one alone"
    )
    parser.add_argument("--stage", action="append", choices=STAGES, help="while this is done alone")
    parser.add_argument(
        "--calls",
        type=int,
        default=8,
        metavar="N",
        help="of a function that is called more often in a stage, at most so many; of a later stage, half of them",
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", help="all that came of all faults, into this file")
    options = parser.parse_args()
    engine = os.environ["NIBBLE_ENGINE"]
    driver = use_driver(os.environ["VK_ICD_FILENAMES"])
    trial = Trial(driver, make_program())

    stages = options.stage or (["calls"] if options.fault else STAGES)
    clean = run_clean(trial, stages)
    if clean["outcome"] != "not reached":
        print(f"without a fault: {clean}")
        return 1
    faults = [
        Fault(function, call, result, stage)
        for stage in stages
        for function in options.only or names(driver)
        for call in some(clean["calls"][stage][function], options.calls if stage == "calls" else options.calls // 2)
        for result in RESULTS
        if engine == "dawn" or result != "device lost" or driver.nibble_faults_can_lose(function.encode())
    ]
    if options.fault:
        faults = [Fault(function, int(call), result, stages[0]) for function, call, result in options.fault]
    elif options.sample:
        faults = faults[:: -(-len(faults) // options.sample)]
    table, wrong, all_of_it = collections.defaultdict(collections.Counter), [], []
    for fault, answer in run_children(trial, faults, options.jobs):
        what = verdict(fault, answer, clean, engine)
        if what.startswith("WRONG"):
            wrong.append(f"{fault}: {what}")
        table[fault.function, fault.result][what.split(":")[0]] += 1
        all_of_it.append({"fault": vars(fault), **answer})
    for function in names(driver):
        if not any(calls[function] for calls in clean["calls"].values()):
            print(f"{function:32}never called")
        for result in RESULTS:
            if counts := table.get((function, result)):
                print(f"{function:32}{result:22}" + ", ".join(f"{n} {what}" for what, n in sorted(counts.items())))
    print(*wrong, sep="\n")
    print("by stage: " + ", ".join(f"{n} {stage}" for stage, n in collections.Counter(f.stage for f in faults).items()))
    total = sum(table.values(), collections.Counter())
    print(f"{total.total()} faults on {engine}: " + ", ".join(f"{n} {what}" for what, n in sorted(total.items())))
    if options.json:
        Path(options.json).write_text(json.dumps(all_of_it, indent=1))
    reached = total.total() - total["not reached"]
    if not reached:
        print("No fault was reached: the driver does not fail.")
    return 1 if wrong or not reached else 0


if __name__ == "__main__":
    sys.exit(main())
