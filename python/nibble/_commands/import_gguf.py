"""nibble import: makes a program of a GGUF file."""

import argparse
import json
import os
import sys
import time

from .terminal import INTERRUPTED, Parser, complain, guard

DESCRIPTION = """\
Makes a program of a GGUF file of the llama or qwen2 architecture, with its tokenizer and what generating needs to know
beside it.

Weights of 4 bits (Q4_0, Q4_1, Q4_K) are kept exactly; other linears are rounded to 8 bits, and the embedding, if it is
not Q4_0, becomes the sum of two tables of 4 bits. If OUT already holds what the same file gives with the same options,
nothing is done."""


def main(arguments: list[str]) -> int:
    parser = Parser(prog="nibble import", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL", help="the file (.gguf)")
    parser.add_argument(
        "-o", "--output", metavar="OUT", required=True, help="folder to make, or the program's file (.pte)"
    )
    parser.add_argument(
        "--context",
        type=_count,
        metavar="N",
        help="tokens that the caches hold; by default the model's own, but at most 2048",
    )
    parser.add_argument(
        "--chunk", type=_count, default=128, metavar="N", help="most tokens of one call; by default 128"
    )
    parser.add_argument("--json", action="store_true", help="print what was made as JSON")
    options = parser.parse_args(arguments)
    return guard(lambda: _import(options))


def _import(options: argparse.Namespace) -> int:
    from .. import import_gguf

    start = time.monotonic()
    try:
        with _Progress(start) as progress:
            made = import_gguf(
                options.model,
                options.output,
                context_length=options.context,
                chunk=options.chunk,
                progress=progress.tell,
            )
    except KeyboardInterrupt:
        return complain("stopped, and nothing is left behind", INTERRUPTED)
    took = time.monotonic() - start
    if options.json:
        print(
            json.dumps(
                {**made.facts, "program": str(made.program), "was_there": made.was_there, "seconds": round(took, 1)}
            )
        )
    else:
        size = made.facts["program_bytes"] / (1 << 20)
        how = "was there already" if made.was_there else f"made in {took:.0f} s"
        print(f"{made.program}: {size:.1f} MiB, context {made.facts['context_length']}, {how}")
    return 0


def _count(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 2:
        raise argparse.ArgumentTypeError(f"must be a whole number from 2 on, but it is '{text}'")
    return value


class _Progress:
    """On standard error: a bar on a terminal, if the library rich is there; else a line for each kind of step."""

    def __init__(self, start: float):
        self._start, self._bar, self._last = start, None, ""
        if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
            try:
                from rich.console import Console
                from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
            except ImportError:
                return
            columns = (BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task("", total=1.0)

    def __enter__(self):
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, *_):
        if self._bar:
            self._bar.stop()

    def tell(self, what: str, share: float) -> None:
        if self._bar:
            self._bar.update(self._task, completed=share, description=what)
            return
        kind = what.split()[0]
        if kind != self._last:
            print(f"{time.monotonic() - self._start:6.1f} s  {what}", file=sys.stderr, flush=True)
        self._last = kind
