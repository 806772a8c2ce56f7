"""Tells the web tests what the conformance tests know: export_cases.py [--programs FOLDER] [OUT]

OUT (build/web/cases by default) gets index.json, with the tolerances of the one case table for the programs that
export_programs.py made, and the programs that are built by hand, with their calls, in the same layout of files, the ops
of each, and which of them run every day; and variants.json, the cases that are run with a forced variant of a kernel;
and generate/, what text generation is compared with, for which the tiny model runs on the device that is there.
"""

import argparse
import json
import os
import sys
import warnings
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))
warnings.filterwarnings("ignore")

import numpy as np  # noqa: E402

from conformance.built_programs import build_all  # noqa: E402
from conformance.cases import CASES, SLOW  # noqa: E402
from conformance.command import succeed  # noqa: E402
from conformance.embedding_cases import LARGE  # noqa: E402
from conformance.variants import Chooser, command_in_process, programs_by_size, usual_variants  # noqa: E402
from web.everyday import choose  # noqa: E402
from web.generate_cases import write_generation  # noqa: E402


def exported(programs: Path) -> list[dict]:
    large = {case.name for case in LARGE}
    entries = []
    # Those of slow tests are exported in the full suite only.
    for name, case in (CASES | SLOW if os.environ.get("NIBBLE_TEST_FULL") else CASES).items():
        facts = json.loads((programs / name / "case.json").read_text())
        entries.append(
            {
                "name": name,
                "folder": f"programs/{name}",
                **{key: facts[key] for key in ("calls", "inputs", "outputs")},
                "rtol": case.rtol,
                "atol": case.atol,
                "shardBytes": case.shard_bytes,
                "outside": list(case.outside),
                "large": name in large,
                "slow": name in SLOW,
            }
        )
    return entries


def built(out: Path) -> list[dict]:
    entries = []
    for one in build_all(out / "built"):
        program, name = one.built, one.name
        for call, (inputs, expected) in enumerate(program.calls):
            for kind, arrays in (("in", inputs), ("torch", expected)):
                for index, array in enumerate(arrays):
                    np.save(one.folder / f"{kind}{call}_{index}.npy", np.asarray(array, order="C"))
        inputs, expected = program.calls[0]
        entries.append(
            {
                "name": name,
                "folder": f"built/{name}",
                "calls": len(program.calls),
                "inputs": len(inputs),
                "outputs": len(expected),
                "rtol": program.tolerances[0],
                "atol": program.tolerances[1],
                "shardBytes": 0,
                "outside": [],
                "large": False,
                "slow": False,
            }
        )
    return entries


def describe(entries: list[dict], programs: Path, out: Path) -> None:
    """Adds the ops of each program with their dtypes, and whether the case runs every day."""
    folders = {"programs": programs, "built": out / "built"}
    for entry in entries:
        kind, name = entry["folder"].split("/", 1)
        told = json.loads(command_in_process("inspect", folders[kind] / name / "model.pte", "--json"))
        entry["ops"] = told["ops"]
    chosen = choose(entries)
    for entry in entries:
        entry["everyday"] = bool(os.environ.get("NIBBLE_TEST_FULL")) or entry["name"] in chosen


# Variants that no call takes on the device of these tests, and why.
ELSEWHERE: dict[tuple[str, str], str] = {}


def forced(programs: Path, out: Path) -> list[dict]:
    """Cases that take a variant of a kernel where it is forced: one for each variant; in the full suite all, program by
    program, so that the device keeps the kernels that are the same."""
    # Node's Dawn finds the same adapter as the native one, which Node's tests check.
    (device, *_) = json.loads(succeed("devices", "--json"))
    profile = out / "device.json"
    profile.write_text(json.dumps(device))
    chooser, by_size = Chooser(profile), programs_by_size(programs, out / "built")
    found = {pair: chooser.find(by_size, *pair) for pair in usual_variants()}
    missing = {pair for pair, program in found.items() if program is None}
    if wrong := missing ^ ELSEWHERE.keys():
        raise SystemExit(f"ELSEWHERE must name the variants that no case takes on {device['name']}: {sorted(wrong)}")
    runs = [(program, pair) for pair, program in found.items() if program is not None]
    if os.environ.get("NIBBLE_TEST_FULL"):
        runs = [(program, pair) for program in by_size for pair in chooser.changes(program)]
    return [{"name": program.name, "variants": {choice: variant}} for program, (choice, variant) in runs]


def main() -> None:
    build = TESTS.parent / "build"
    parser = argparse.ArgumentParser(description="Writes the cases of the web tests.")
    parser.add_argument("--programs", type=Path, default=build / "programs", help="(default: build/programs)")
    parser.add_argument("out", nargs="?", type=Path, default=build / "web" / "cases", help="(default: build/web/cases)")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    entries = exported(arguments.programs) + built(arguments.out)
    describe(entries, arguments.programs, arguments.out)
    (arguments.out / "index.json").write_text(json.dumps(entries, indent=1))
    variants = forced(arguments.programs, arguments.out)
    (arguments.out / "variants.json").write_text(json.dumps(variants, indent=1))
    write_generation(arguments.programs, arguments.out)
    everyday = sum(entry["everyday"] for entry in entries)
    print(f"{len(entries)} cases, {everyday} for this run, {len(variants)} with a forced variant")


if __name__ == "__main__":
    main()
