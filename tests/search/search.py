"""A seeded search for graphs that Nibble computes in another way than torch.

    search.py [--seconds 60] [--seed N] [--from K] [--graphs COUNT]

The same seed gives the same graphs. A find is made small and written to tests/search/finds, whose graphs the everyday
tests replay. Exit code 1 where something was found.
"""

import argparse
import logging
import os
import sys
import time
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
if __name__ == "__main__":
    # Not this folder, which Python puts first: its modules are those of the package `search`.
    sys.path[0] = str(HERE.parent)
warnings.filterwarnings("ignore")

FINDS = HERE / "finds"


def main() -> int:
    parser = argparse.ArgumentParser(description="Searches for graphs that Nibble computes in another way than torch.")
    parser.add_argument("--seconds", type=float, default=60, help="how long (default: 60)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of all graphs (default: the time)")
    parser.add_argument("--from", type=int, default=0, dest="first", metavar="K", help="the first graph (default: 0)")
    parser.add_argument("--graphs", type=int, default=None, metavar="COUNT", help="at most so many graphs")
    parser.add_argument("--finds", type=Path, default=FINDS, help="where finds go (default: tests/search/finds)")
    parser.add_argument("--print", action="store_true", help="print the graphs too")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)

    from search.check import Checker
    from search.generate import generate
    from search.minimize import minimize

    checker = Checker()
    print(f"seed {arguments.seed} on {checker.device.name}", flush=True)
    # What is under way, should the process end with it.
    current = HERE.parents[1] / "build" / f"search-{os.getpid()}.json"
    current.parent.mkdir(exist_ok=True)
    finds, number, start = [], arguments.first, time.monotonic()
    spent = 0.0
    while time.monotonic() - start - spent < arguments.seconds:
        if arguments.graphs is not None and number >= arguments.first + arguments.graphs:
            break
        graph = generate(arguments.seed, number)
        current.write_text(graph.text())
        if arguments.print:
            print(f"graph {number}\n{graph.text()}", flush=True)
        found = checker.check(graph)
        number += 1
        if found is None:
            continue
        began = time.monotonic()
        print(f"graph {number - 1} of seed {arguments.seed}: {found}", flush=True)
        # Of several differences, the one that was found stays.
        small = minimize(graph, lambda g, op=found.op: (f := checker.check(g)) is not None and f.op == op)
        arguments.finds.mkdir(parents=True, exist_ok=True)
        path = (
            arguments.finds / f"{found.op.split('.')[-2 if '.' in found.op else 0]}_{arguments.seed}_{number - 1}.json"
        )
        path.write_text(small.text())
        finds.append(path)
        print(f"  {checker.check(small)}\n  {path}", flush=True)
        # Making it small does not count.
        spent += time.monotonic() - began
    current.unlink(missing_ok=True)
    seconds = max(time.monotonic() - start - spent, 1e-9)
    count = number - arguments.first
    print(f"{count} graphs, {count / seconds:.1f} a second, seed {arguments.seed}: {len(finds)} finds")
    return 1 if finds else 0


if __name__ == "__main__":
    sys.exit(main())
