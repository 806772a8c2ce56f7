#!/usr/bin/env python3
"""Prints what an op costs: op_cost.py NIBBLE_COMMAND

Lines of C++ in src/ops for each row of its tables, the longest files, and who is a friend of whom. It fails where ops
cost more than they may, a file is too long, or a class has a friend that is no comparison.
"""

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OPS = ROOT / "src" / "ops"
MOST_PER_OP = 30
MOST_PER_OTHER_OP = 42
MOST_LINES_OF_A_FILE = 400
# All rows of this folder are one kernel and an expression each: they make the average look good.
CHEAP = "elementwise"
# What people write: no lock files, no data.
FOLDERS = ("src", "include", "python", "web", "tests", "scripts", "bench", "examples", "docs", "cmake")
SUFFIXES = {".cpp", ".hpp", ".h", ".wgsl", ".py", ".ts", ".js", ".mjs", ".html", ".css", ".md", ".cmake", ".sh"}
NOT_OURS = {"node_modules", "dist"}

FAMILY = re.compile(r'^const Family k\w+\{"(\w+)"', re.MULTILINE)
COMPARISON = re.compile(r"\bfriend\b.*\boperator(==|!=|<=>|<=?|>=?)\(")


def count_lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def measure_folders(command: str) -> tuple[Counter, Counter]:
    """Lines and rows by the folder of src/ops; what all folders share is "shared"."""
    listed = subprocess.run([command, "ops", "--json"], capture_output=True, text=True, check=True).stdout
    rows_of = Counter(row["family"] for row in json.loads(listed))
    lines, rows = Counter(), Counter()
    for path in (path for path in OPS.rglob("*") if path.suffix in (".cpp", ".hpp")):
        folder = path.parent.name if path.parent != OPS else "shared"
        lines[folder] += count_lines(path)
        rows[folder] += sum(rows_of.pop(family, 0) for family in FAMILY.findall(path.read_text()))
    if rows_of:
        sys.exit(f"op_cost: no file of src/ops has the families {', '.join(rows_of)}")
    return lines, rows


def list_sources() -> list[Path]:
    found = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES)
    return [ROOT / "run", ROOT / "test", *(path for path in found if not NOT_OURS & set(path.parts))]


def find_friends() -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for room in ("plan", "ops")
        for path in sorted((ROOT / "src" / room).rglob("*.[ch]pp"))
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if re.search(r"\bfriend\b", line.split("//")[0]) and not COMPARISON.search(line)
    ]


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    complaints = []
    lines, rows = measure_folders(sys.argv[1])
    print(f"{'folder':<12} lines  ops  lines per op")
    for folder, count in lines.most_common():
        print(f"{folder:<12} {count:5}  {rows[folder]:3}  {count / rows[folder] if rows[folder] else 0:12.1f}")
    others = (lines.total() - lines[CHEAP], rows.total() - rows[CHEAP])
    for what, (total, ops), most in (
        ("all ops", (lines.total(), rows.total()), MOST_PER_OP),
        (f"without {CHEAP}", others, MOST_PER_OTHER_OP),
    ):
        print(f"{what}: {total} lines, {ops} ops, {total / ops:.1f} lines per op; at most {most}")
        if total > most * ops:
            complaints.append(f"{what} cost {total / ops:.1f} lines per op, at most {most}")

    longest = sorted(((count_lines(path), path.relative_to(ROOT)) for path in list_sources()), reverse=True)
    print("longest files")
    for count, path in longest[:8]:
        print(f"{count:6}  {path}")
    complaints += [
        f"{path} has {count} lines, at most {MOST_LINES_OF_A_FILE}"
        for count, path in longest
        if count > MOST_LINES_OF_A_FILE
    ]
    complaints += [f"{friend}: only comparison operators may be friends" for friend in find_friends()]
    if complaints:
        sys.exit("\n".join(f"op_cost: {complaint}" for complaint in complaints))


if __name__ == "__main__":
    main()
