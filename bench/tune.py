"""What tuning is worth: tune.py [PROGRAM...] [--device WHICH] [--rounds N] [--json FILE]

For each program: how long the tuner takes, whole calls with its choices against calls with the table's own, and what it
makes of a table that prefers the slowest variants.
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


def inputs_of(program: Path, model: nibble.Model, size: int) -> list:
    """Inputs with `size` along the dimensions that may be smaller."""
    command = [Path(sys.executable).with_name("nibble"), "inspect", program, "--json"]
    facts = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    random = np.random.default_rng(0)
    made = []
    for spec, about in zip(model.inputs, facts["inputs"], strict=True):
        if about["kind"] == "int":
            made.append(0)
            continue
        shape = [min(n, size) for n in about["shape"]] if about["dynamic"] else about["shape"]
        if np.issubdtype(np.dtype(about["dtype"]), np.floating):
            made.append(random.standard_normal(shape).astype(spec.dtype))
        else:
            made.append(random.integers(0, about.get("index_rows", 1), shape).astype(spec.dtype))
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
    for turn in range(rounds):
        for i in range(len(sessions)) if turn % 2 == 0 else reversed(range(len(sessions))):
            taken[i].append(seconds(sessions[i], times))
    return median(taken[0]), median(tuned / default for default, tuned in zip(*taken, strict=True))


def measured(tuning: dict) -> dict[tuple, dict]:
    """The rows that have times, by what they are for."""
    rows = (row for row in tuning["tunings"][0]["choices"] if "times" in row)
    return {(row["choice"], row["rows"][0], row["width"][0], row["traits"]): row for row in rows}


def spoiled(tuning: dict) -> dict:
    """A tuning that prefers the slowest variant at each point."""
    return {
        "choices": [
            {"choice": choice, "variant": max(row["times"], key=row["times"].get)}
            | {"rows": [rows, rows], "width": [width, width], "traits": traits}
            for (choice, rows, width, traits), row in measured(tuning).items()
        ]
    }


def near_best(first: dict, second: dict) -> list[bool]:
    """For each point of both: whether what the second chose takes at most 5 % more than the best, by both times."""
    before, after = measured(first), measured(second)
    near = []
    for point in before.keys() & after.keys():
        a, b = before[point]["times"], after[point]["times"]
        times = {variant: (a[variant] + b[variant]) / 2 for variant in a.keys() & b.keys()}
        near.append(times[after[point]["variant"]] <= 1.05 * min(times.values()))
    return near


def measure(program: Path, device: nibble.Device, options: argparse.Namespace) -> list[dict]:
    with tempfile.TemporaryDirectory() as folder:
        first = nibble.tune(program, device, output=Path(folder) / "first.json", tune_ms=options.tune_ms)
        wrong = spoiled(first)
        second = nibble.tune(
            program, device, output=Path(folder) / "second.json", tuning=wrong, tune_ms=options.tune_ms
        )
    tuning = first["tunings"][0]
    changed = sum(row["variant"] != row["before"] for row in measured(first).values())
    name = program.parent.name if program.stem == "model" else program.stem
    common = {"program": name, "adapter": device.name}
    records = [
        common | {"figure": "tuning, ms", "value": tuning["milliseconds"], "of": f"{tuning['measured']} cases"},
        common | {"figure": "choices that changed", "value": changed, "of": len(measured(first))},
    ]
    near = near_best(first, second)
    if near:
        records.append(
            common | {"figure": "of a wrong table, within 5 %", "value": sum(near) / len(near), "of": len(near)}
        )
    with nibble.load(program, device) as plain, nibble.load(program, device, tuning=first) as tuned:
        seen = []
        for size in SIZES:
            inputs = inputs_of(program, plain, size)
            shapes = [np.shape(value) for value in inputs]
            if shapes in seen:
                continue
            seen.append(shapes)
            try:
                default, ratio = compare([plain, tuned], inputs, options.rounds)
            except nibble.NibbleError as error:
                print(f"{name}, size {size}: {error}", file=sys.stderr)
                continue
            figure = f"call of size {size}, tuned / default"
            records.append(common | {"figure": figure, "value": ratio, "of": f"{default * 1e3:.2f} ms"})
    return records


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", nargs="+", type=Path)
    parser.add_argument("--device")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--tune-ms", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    device = nibble.Device(options.device)
    records = list(itertools.chain.from_iterable(measure(program, device, options) for program in options.programs))
    width = max(len(record["program"]) for record in records)
    print(device.name)
    for record in records:
        print(f"{record['program']:<{width}}  {record['figure']:<36} {record['value']:>9.3f}  {record['of']}")
    if options.json:
        options.json.write_text(json.dumps(records, indent=1))


if __name__ == "__main__":
    main()
