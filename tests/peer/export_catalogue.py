"""Exports the op tests of ExecuTorch's in-tree WebGPU backend, with the generator that comes with them.

    export_catalogue.py [--everyday] [OUT]        OUT is build/peer by default

What is there already, from the same packages, is left alone.
"""

import argparse
import contextlib
import functools
import hashlib
import json
import logging
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parent))
warnings.filterwarnings("ignore")

from conformance.export_programs import packages, prepare_once  # noqa: E402
from support.exporting import note_export  # noqa: E402

DEFAULT_OUT = HERE.parents[1] / "build" / "peer"
# The everyday tests take the first case of every so many suites: the programs of tests/conformance have all operators.
EVERY = 3


@dataclass(frozen=True)
class Entry:
    """A case of the catalogue."""

    suite: str
    number: int  # of the suite
    definition: Any
    case: Any

    @property
    def name(self) -> str:
        return f"{self.suite}__{self.case.name or 'case'}"

    @property
    def everyday(self) -> bool:
        return self.number % EVERY == 0 and self.case is self.definition.cases[0]


@functools.cache
def entries() -> list[Entry]:
    """All cases: those that the peer does not count as verified, and the large ones, too."""
    from executorch.backends.webgpu.test.op_tests.generate_op_tests import op_test_registry

    suites = enumerate(op_test_registry.items())
    return [Entry(name, number, suite, case) for number, (name, suite) in suites for case in suite.cases]


def export_entry(entry: Entry, out: Path) -> bool:
    """Writes a case's program, inputs and results, unless they are up to date; tells whether it did."""
    key = hashlib.sha256(f"{entry.name}\n{packages()}\n{Path(__file__).read_text()}".encode()).hexdigest()
    facts = out / f"{entry.name}.json"
    with contextlib.suppress(OSError, ValueError):
        if json.loads(facts.read_text())["key"] == key:
            return False
    from executorch.backends.webgpu.test.op_tests.generate_op_tests import generate_case

    prepare_once()
    with note_export() as notes:
        outputs = generate_case(entry.suite, entry.definition, entry.case, str(out))
    made = {"key": key, "ops": sorted(notes.ops), "outside": notes.reasons, "outputs": outputs}
    facts.write_text(json.dumps(made, indent=1))
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description="Exports the peer's catalogue of op tests.")
    parser.add_argument("out", nargs="?", type=Path, default=DEFAULT_OUT, help="where to (default: build/peer)")
    parser.add_argument("--everyday", action="store_true", help="only the cases of the everyday tests")
    arguments = parser.parse_args()

    logging.disable(logging.WARNING)
    arguments.out.mkdir(parents=True, exist_ok=True)
    chosen = [entry for entry in entries() if entry.everyday or not arguments.everyday]
    made, failed, start = 0, 0, time.monotonic()
    for number, entry in enumerate(chosen, 1):
        began = time.monotonic()
        try:
            if not export_entry(entry, arguments.out):
                continue
            made += 1
            print(f"[{number}/{len(chosen)}] {entry.name}: {time.monotonic() - began:.1f} s", flush=True)
        except Exception as error:
            failed += 1
            print(f"[{number}/{len(chosen)}] {entry.name}: {type(error).__name__}: {error}", flush=True)
    print(f"{len(chosen)} cases, {made} exported now, {failed} failed, in {time.monotonic() - start:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
