#!/usr/bin/env python3
"""Makes docs/ops.md from the rows of src/ops and from the cases that ran: op_table.py [--check PAGE] > docs/ops.md

`./test python web` leaves the names of the cases that passed in build/ran, and the table of all cases in
build/web/cases, with the ops of their programs. Cases of slow tests do not count, so that the page is the same after
the everyday suite and after the full one.
"""

import argparse
import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
# By the argument's name.
Dtypes = dict[str, set[str]]

NO_CASE = "\N{EN DASH}"
HEAD = f"""\
# Operators

What Nibble runs, by the names that the exporter writes. `scripts/op_table.py` makes this page, from the tables in
`src/ops` and from the cases of the everyday tests that passed, on the desktop (all with wgpu-native, some of them with
Dawn too) and on the web. A column of dtypes says what the tensors of an operator were in those cases; "{NO_CASE}" is an
operator that no case has.

An argument is a tensor where nothing else is said, and may be missing where it has a question mark. A *table* is a
constant that may lie in shards of rows, a *matrix* one in shards of columns, a *state* is changed in place, *indices*
are checked, *host data* is read before a call.
"""
INTERNAL = """\
## Made by passes

No program has these: rewrites of the graph make them, of the operators above.
"""


def command() -> str:
    return os.environ.get("NIBBLE_COMMAND") or str(ROOT / ".venv" / "bin" / "nibble")


def ask_nibble(*arguments: str | Path):
    done = subprocess.run([command(), *arguments], capture_output=True, text=True)
    # A program whose sizes come from data cannot be planned without it; what it is made of is told all the same.
    if not done.stdout:
        sys.exit(f"op_table: nibble {' '.join(map(str, arguments))}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def read_ran(place: str) -> set[str]:
    """The cases that passed, on every adapter where they ran."""
    files = sorted((BUILD / "ran").glob(f"{place}*.json"))
    if not files:
        sys.exit(f"op_table: build/ran has no {place}*.json; run ./test python web")
    return set.intersection(*(set(json.loads(file.read_text())) for file in files))


def ops_of_cases() -> dict[str, list[dict]]:
    """By everyday case that Nibble runs alone: the ops of its program."""
    index = json.loads((BUILD / "web" / "cases" / "index.json").read_text())
    return {case["name"]: case["ops"] for case in index if not case["slow"] and not case["outside"]}


def gather(ops_of: dict[str, list[dict]], ran: set[str]) -> dict[str, Dtypes]:
    """By op: the dtypes of its tensors in the cases that ran. An op of integers has none."""
    seen: dict[str, Dtypes] = defaultdict(lambda: defaultdict(set))
    for name in ran & ops_of.keys():
        for op in ops_of[name]:
            arguments = seen[op["name"]]
            for argument, dtypes in op["dtypes"].items():
                arguments[argument] |= set(dtypes)
    return seen


def describe_dtypes(row: dict, seen: dict[str, Dtypes]) -> str:
    """Arguments of the same dtypes stand together; where all are the same, none is named."""
    if row["name"] not in seen:
        return NO_CASE
    together: dict[str, list[str]] = defaultdict(list)
    for argument in row["arguments"]:
        dtypes = seen[row["name"]].get(argument["name"])
        if dtypes and not argument["ignored"]:
            together[", ".join(sorted(dtypes))].append(argument["name"])
    if not together:
        return "int"
    if len(together) == 1:
        return next(iter(together))
    return "; ".join(f"{', '.join(names)}: {dtypes}" for dtypes, names in together.items())


def describe_arguments(row: dict) -> str:
    def describe(argument: dict) -> str:
        role = "" if argument["role"] == "tensor" else f": {argument['role']}"
        return f"{argument['name']}{'?' if argument['optional'] else ''}{role}"

    return ", ".join(describe(a) for a in row["arguments"] if not a["output"] and not a["ignored"])


def make_table(titles: list[str], rows: list[list[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def make_page(rows: list[dict], native: dict[str, Dtypes], web: dict[str, Dtypes]) -> str:
    ours = [row for row in rows if row["name"].startswith("nibble.")]
    public = make_table(
        ["operator", "arguments", "dtypes on the desktop", "dtypes on the web", "notes"],
        [
            [
                f"`{row['name']}`",
                describe_arguments(row),
                (here := describe_dtypes(row, native)),
                "the same" if (there := describe_dtypes(row, web)) == here != NO_CASE else there,
                row["notes"],
            ]
            for row in rows
            if row not in ours
        ],
    )
    internal = make_table(
        ["operator", "arguments", "notes"],
        [[f"`{row['name']}`", describe_arguments(row), row["notes"]] for row in ours],
    )
    return f"{HEAD}\n{public}\n{INTERNAL}\n{internal}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Prints the page docs/ops.md, or checks that it is current.")
    parser.add_argument("--check", type=Path, metavar="PAGE", help="fail where this page is not what would be printed")
    arguments = parser.parse_args()
    native, web = read_ran("native"), read_ran("web")
    ops_of = ops_of_cases()
    page = make_page(ask_nibble("ops", "--json"), gather(ops_of, native), gather(ops_of, web))
    if arguments.check is None:
        sys.stdout.write(page)
    elif arguments.check.read_text() != page:
        sys.exit(f"op_table: {arguments.check} is stale; make it anew: scripts/op_table.py > docs/ops.md")


if __name__ == "__main__":
    main()
