#!/usr/bin/env python3
"""Makes docs/models.md of what the tests of whole models measured: table.py > docs/models.md

`./test models` leaves build/ran/models-ADAPTER.json, and `NIBBLE_TEST_FULL=1 ./test models` those of the full shapes.
"""

import json
import sys
from pathlib import Path

RAN = Path(__file__).resolve().parents[2] / "build" / "ran"
HEAD = """\
# Models

Whole models with random weights, as `./test models` ran them last (`tests/models/table.py` makes this page). The stock
partitioner exports them; `vit`, `convnext_small` and `shufflenet_v2_x1_0`, which it would split, are exported by
Nibble's. The error is the largest one, in units of the
largest result of eager torch. Operators outside the delegates run in ExecuTorch. The time is that of one call relative
to eager torch on the same cores, where the software adapter takes the place of a GPU; lower is better.
"""


def row(measured: dict) -> str:
    outside = ", ".join(sorted(set(measured["outside"]))) or "none"
    shape = "\N{MULTIPLICATION SIGN}".join(map(str, measured["shape"]))
    dispatches = measured["dispatches"] or "\N{EN DASH}"
    cells = [measured["model"], shape, f"{measured['error']:.1e}", measured["delegates"], measured["operators"]]
    # A row that ran beside other work has no time that means something.
    took = "\N{EN DASH}" if measured["time"] is None else f"{measured['time']:.2f}"
    return "| " + " | ".join(map(str, [*cells, dispatches, outside, took])) + " |"


def main() -> int:
    files = sorted(RAN.glob("models-*.json"))
    if not files:
        sys.exit("table: build/ran has no models-*.json; run ./test models")
    print(HEAD)
    for file in files:
        adapter = file.stem.removeprefix("models-")
        print(f"## {adapter}\n")
        print("| model | input | error | delegates | operators | dispatches | outside | time |")
        print("|---|---|---|---|---|---|---|---|")
        for measured in json.loads(file.read_text()):
            print(row(measured))
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
