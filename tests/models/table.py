#!/usr/bin/env python3
"""Makes docs/models.md of what the tests of whole models measured: table.py [--check PAGE] > docs/models.md

`./test models` leaves build/ran/models-ADAPTER.json, and `NIBBLE_TEST_FULL=1 ./test models` those of the full shapes.
With --check, it only looks whether a page begins with the text below.
"""

import json
import sys
from pathlib import Path

RAN = Path(__file__).resolve().parents[2] / "build" / "ran"
HEAD = """\
# Models

Whole models with random weights, as `./test models` and `./test full` ran them last (`tests/models/table.py` makes this
page). The stock partitioner exports them; `vit`, `convnext_small` and `shufflenet_v2_x1_0`, which it would split, are
exported by Nibble's. The error is the largest one, in units of the largest result of eager torch. Operators outside the
delegates run in ExecuTorch. The time is that of one call relative to eager torch on the same cores, where the software
adapter takes the place of a GPU; lower is better. Each model is there at a small and at its full size; rows without a
time ran beside other work. `training` is a step of AdamW: its error is that of the loss, the largest of 20 steps, in
units of torch's loss; it has no time, because eager torch has no fast form of its operators.

Models in int8 round after every layer. Sums of products are exact here, and torch's are floats, so a number that lies
about half way between two steps may be rounded the other way. At the full size of `resnet18_int8` that reaches the
results: a fifth of them differ by one step of the last quantization, which is 1/132 of the largest. Torch differs from
itself by as much, and in one result by two steps, if it convolves without oneDNN.
"""


def row(measured: dict) -> str:
    outside = ", ".join(sorted(set(measured["outside"]))) or "none"
    shape = "\N{MULTIPLICATION SIGN}".join(map(str, measured["shape"]))
    dispatches = measured["dispatches"] or "\N{EN DASH}"
    cells = [measured["model"], shape, f"{measured['error']:.1e}", measured["delegates"], measured["operators"]]
    # A row that ran beside other work has no time that means something.
    took = "\N{EN DASH}" if measured["time"] is None else f"{measured['time']:.2f}"
    return "| " + " | ".join(map(str, [*cells, dispatches, outside, took])) + " |"


def check(page: Path) -> int:
    if page.read_text().startswith(HEAD + "\n## "):
        return 0
    sys.exit(f"table: {page} does not begin with the text of tests/models/table.py")


def main() -> int:
    match sys.argv[1:]:
        case []:
            pass
        case ["--check", page]:
            return check(Path(page))
        case _:
            sys.exit(__doc__)
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
