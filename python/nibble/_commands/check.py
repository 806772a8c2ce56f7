"""nibble check: whether all kernels are right on this machine, and how long they take."""

import argparse
import json
import sys

from .. import Device
from .._check.cases import cases, names
from .._check.check import Check
from .._files import check_writable, new_file
from .terminal import FAILED, Parser, Progress, add_device_options, complain, count, counted, guard

DESCRIPTION = """\
Runs small programs with every variant of every kernel that can run here, compares the results with NumPy's, measures
how long they take, and writes a report that you can share: it has the device, its driver, engine, limits and features,
Nibble's version and the results, and nothing about you."""
EPILOG = "Exit codes: 0 if all is right, 1 if something is wrong or fails, 2 for wrong usage, 130 after Ctrl-C."


def main(arguments: list[str]) -> int:
    parser = Parser(prog="nibble check", description=DESCRIPTION, epilog=EPILOG)
    add_device_options(parser)
    parser.add_argument(
        "--output", metavar="FILE", default="nibble-check.json", help="the report; default: %(default)s"
    )
    parser.add_argument("--json", action="store_true", help="print the report too, in place of the table")
    parser.add_argument(
        "--time-ms", type=count, default=20000, metavar="N", help="measure each case so long at most; default: 20000"
    )
    parser.add_argument("--case", action="append", metavar="TEXT", help="only cases with this in their name")
    options = parser.parse_args(arguments)
    chosen = [name for name in names() if not options.case or any(text in name for text in options.case)]
    if not chosen:
        parser.error(f"no case has {' or '.join(map(repr, options.case))} in its name; there are: {', '.join(names())}")
    return guard(lambda: run(options, chosen))


def run(options: argparse.Namespace, chosen: list[str], every=cases) -> int:
    check_writable(options.output)
    with Device(options.device, options.engine) as device:
        check = Check(device, options.time_ms)
        if not options.json:
            print(f"Nibble {check.report()['nibble']} on {device.info.name} ({device.info.engine})", flush=True)
        try:
            with Progress("checking") as progress:
                done: dict[str, None] = {}

                def tell(row: dict) -> None:
                    done[row["case"]] = None
                    progress(len(done), len(chosen))

                check.run((case for case in every() if case.name in chosen), tell)
        finally:
            # After Ctrl-C too, with what is known.
            with new_file(options.output) as file:
                file.write(json.dumps(check.report(), indent=1).encode())
    if options.json:
        print(json.dumps(check.report(), indent=1))
    else:
        _print_table(check)
        print(f"The report is in {options.output}")
    for row in check.wrong:
        complain(f"{row['case']}: {_variant(row)}: {row['message']}", FAILED)
    return FAILED if check.wrong else 0


def _variant(row: dict) -> str:
    return f"{row['choice']}={row['variant']}" if row["choice"] else "as chosen here"


def _print_table(check: Check) -> None:
    headers = ["case", "variant", "", "error", "kernel µs", "call µs"]
    lines, last = [headers], None
    for row in check.rows:
        figures = [
            "-" if row["error"] is None else f"{row['error']:.1e}",
            *("-" if row[key] is None else f"{row[key]:.0f}" for key in ("kernel_us", "call_us")),
        ]
        name, last = ("" if row["case"] == last else row["case"]), row["case"]
        lines.append([name, _variant(row), "right" if row["right"] else "WRONG", *figures])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = [
            cell.ljust(w) if i < 3 else cell.rjust(w) for i, (cell, w) in enumerate(zip(line, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())
    for note in check.notes:
        print(f"note: {note}")
    right = len(check.rows) - len(check.wrong)
    print(f"{right} of {counted(len(check.rows), 'result')} right")
    sys.stdout.flush()
