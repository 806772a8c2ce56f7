"""What tuning is worth: tune.py [PROGRAM...] [--device WHICH] [--rounds N] [--json FILE]

For each program: how long the tuner takes, whole calls with its choices against calls with the table's own, and what it
makes of a table that prefers the slowest variants. What it chose is judged by further tunings, whose times it never
saw.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

os.environ["NIBBLE_TUNE"] = "0"  # nothing that is kept is used

import nibble

SIZES = (1, 16, 128)
POSITIONS = (0, 128, 1024)  # of programs that have a cache
NEAR, NEARLY_ALL, NO_SLOWER = 1.05, 0.95, 1.02  # the goals
JUDGES = (3, 7)  # at least, and at most as long as they do not agree
COMPARING = 20.0  # seconds, of whole calls of one size


def facts_of(program: Path) -> list[dict]:
    """What `nibble inspect` tells of the inputs."""
    command = [Path(sys.executable).with_name("nibble"), "inspect", program, "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["inputs"]


def is_position(about: dict) -> bool:
    """An integer that indexes nothing."""
    return about["kind"] == "int" or (about["dtype"].startswith("int") and "index_rows" not in about)


def inputs_of(facts: list[dict], model: nibble.Model, size: int, position: int) -> list:
    """Inputs with `size` along the dimensions that may be smaller."""
    random = np.random.default_rng(0)
    made = []
    for spec, about in zip(model.inputs, facts, strict=True):
        if about["kind"] == "int":
            made.append(position)
            continue
        shape = [min(n, size) for n in about["shape"]] if about["dynamic"] else about["shape"]
        if is_position(about):
            made.append(np.full(shape, position, spec.dtype))
        elif np.issubdtype(np.dtype(about["dtype"]), np.floating):
            made.append(random.standard_normal(shape).astype(spec.dtype))
        else:
            made.append(random.integers(0, about["index_rows"], shape).astype(spec.dtype))
    return made


def compare(models: list[nibble.Model], inputs: list, rounds: int) -> tuple[float, float]:
    """Seconds of a call of the first model, and how much of that the second takes: the median of what it is turn by
    turn, because others may use the machine. Short calls are made several times at once."""
    sessions = [model.session() for model in models]

    def seconds(session: nibble.Session, times: int) -> float:
        start = time.perf_counter()
        for _ in range(times):
            session.run(*inputs)
        return (time.perf_counter() - start) / times

    once = max(seconds(session, 1) for session in sessions for _ in range(2))
    times = max(1, min(50, int(0.02 / once)))
    taken = [[] for _ in sessions]
    begin = time.perf_counter()
    for turn in range(rounds):
        if turn >= 5 and time.perf_counter() - begin > COMPARING:
            break
        for i in range(len(sessions)) if turn % 2 == 0 else reversed(range(len(sessions))):
            taken[i].append(seconds(sessions[i], times))
    return median(taken[0]), median(tuned / default for default, tuned in zip(*taken, strict=True))


def measured(tuning: dict) -> dict[tuple, dict]:
    """The rows that have times, by what they are for."""
    rows = (row for row in tuning["tunings"][0]["choices"] if "times" in row)
    return {(row["choice"], row["rows"][0], row["width"][0], *row.get("depth", ()), row["traits"]): row for row in rows}


def spoiled(tuning: dict) -> dict:
    """A tuning that prefers the slowest variant at each point."""
    return {
        "choices": [
            {key: row[key] for key in ("choice", "rows", "width", "depth", "traits") if key in row}
            | {"variant": max(row["times"], key=row["times"].get)}
            for row in measured(tuning).values()
        ]
    }


def shares(tuning: dict, judge: dict) -> dict[tuple, float]:
    """For each point of both: how many times as long what the tuning chose takes as the best, by the judge's times."""
    chosen, found = measured(tuning), {}
    for point, row in measured(judge).items():
        if point in chosen and chosen[point]["variant"] in row["times"]:
            found[point] = row["times"][chosen[point]["variant"]] / min(row["times"].values())
    return found


def judge(tuning: dict, measure_again) -> list[tuple[tuple, float]]:
    """For each point, how many times as long what was chosen takes as the best: the median of several tunings that have
    measured anew, in turn from the table's own preference and from a wrong one. They are more if some say that it is
    near and some that it is not."""
    least, most = JUDGES
    said: dict[tuple, list[float]] = {}
    for turn in range(most):
        is_agreed = all(len({share <= NEAR for share in one}) == 1 for one in said.values())
        if turn >= least and is_agreed:
            break
        for point, share in shares(tuning, measure_again(turn)).items():
            said.setdefault(point, []).append(share)
    return [(point, median(one)) for point, one in said.items()]


def measure(program: Path, device: nibble.Device, options: argparse.Namespace) -> list[dict]:
    with tempfile.TemporaryDirectory() as folder:

        def tune(name: str, preferred: dict | None = None) -> dict:
            return nibble.tune(program, device, output=Path(folder) / name, tuning=preferred, tune_ms=options.tune_ms)

        first = tune("first.json")
        wrong = spoiled(first)
        second = tune("second.json", wrong)
        judged = judge(second, lambda turn: tune(f"judge{turn}.json", wrong if turn % 2 else None))
    tuning = first["tunings"][0]
    changed = sum(row["variant"] != row["before"] for row in measured(first).values())
    name = program.parent.name if program.stem == "model" else program.stem
    common = {"program": name, "adapter": device.name}
    records = [
        common | {"figure": "tuning, ms", "value": tuning["milliseconds"], "of": f"{tuning['measured']} cases"},
        common | {"figure": "choices that changed", "value": changed, "of": len(measured(first))},
    ]
    if judged:
        near = sum(share <= NEAR for _, share in judged)
        figure = "of a wrong table, within 5 %"
        records.append(common | {"figure": figure, "value": near / len(judged), "near": near, "of": len(judged)})
    for point, share in judged:
        if share > NEAR:
            row = measured(second)[point]
            print(f"{name}: {point}: {share:.2f}: {row['variant']} of {row['times']}", file=sys.stderr)
    with nibble.load(program, device) as plain, nibble.load(program, device, tuning=first) as tuned:
        seen = []
        facts = facts_of(program)
        positions = POSITIONS if any(map(is_position, facts)) else POSITIONS[:1]
        for size, position in itertools.product(SIZES, positions):
            inputs = inputs_of(facts, plain, size, position)
            call = [np.shape(value) for value in inputs], position
            if call in seen:
                continue
            seen.append(call)
            try:
                default, ratio = compare([plain, tuned], inputs, options.rounds)
            except nibble.NibbleError as error:
                print(f"{name}, size {size}, position {position}: {error}", file=sys.stderr)
                continue
            figure = f"call of {size} at {position}, tuned / default"
            records.append(common | {"figure": figure, "value": ratio, "of": f"{default * 1e3:.2f} ms"})
    return records


def show(records: list[dict]) -> None:
    for record in records:
        print(f"{record['program']:<20}  {record['figure']:<36} {record['value']:>9.3f}  {record['of']}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", nargs="+", type=Path)
    parser.add_argument("--device")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--tune-ms", type=int, default=0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--goals", action="store_true", help="fail if a goal is missed")
    options = parser.parse_args()
    device = nibble.Device(options.device)
    print(device.name)
    records: list[dict] = []
    for program in options.programs:
        found = measure(program, device, options)
        show(found)
        records += found
    slower = [r for r in records if "tuned / default" in r["figure"] and r["value"] > NO_SLOWER]
    share = 1.0
    if any("near" in record for record in records):
        near, of = (sum(record[key] for record in records if "near" in record) for key in ("near", "of"))
        common = {"program": "all", "adapter": device.name, "figure": "of a wrong table, within 5 %"}
        share = near / of
        records.append(common | {"value": share, "near": near, "of": of})
        show(records[-1:])
    if options.json:
        options.json.write_text(json.dumps(records, indent=1))
    if options.goals and (slower or share < NEARLY_ALL):
        sys.exit(f"{len(slower)} calls are slower than {NO_SLOWER}, or less than {NEARLY_ALL} of the choices are near")


if __name__ == "__main__":
    main()
