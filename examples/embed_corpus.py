"""Embeds a folder of texts, or Parquet files, and writes Parquet.

Each line of a text that is not empty is a row (file, line, text); rows of Parquet files keep all their columns. To each
are added embedding (float32), tokens, truncated, and error, which says why there is no vector and is empty otherwise.

The output is a folder of parts. A part is there when it is complete, so what was stopped, or killed, is not lost: the
same command goes on from there. With --actors the parts are spread over the actors of a Ray cluster, or of one on this
machine; all machines must see the same folders."""

import argparse
import json
import logging
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import astuple, fields
from pathlib import Path

import corpus as corpora
from corpus import Corpus, Done, PartReader, Slice, arrow, parquet, part_path, reason, stamp, write_part

import nibble.ray
from nibble import NibbleError
from nibble._commands._texts import add_model_options
from nibble._commands.terminal import INTERRUPTED, Parser, Progress, UsageError, complain, count, counted, guard
from nibble._encoder import _check_model
from nibble._text.needed import needed

ROWS_AT_ONCE = 1024


class PartEmbedder:
    """Embeds parts: here, or as an actor of Ray, for which a part is JSON in the column `part`."""

    def __init__(self, output: str, column: str, options: dict):
        self._output = output
        self._reader = PartReader()
        self._embed = nibble.ray.Embedder(columns={"text": column}, **options)

    def __call__(self, batch: dict) -> dict:
        parts = [(number, [Slice(*piece) for piece in part]) for number, part in map(json.loads, batch["part"])]
        return {"number": [self.embed(number, part) for number, part in parts]}

    def embed(self, number: int, part: list[Slice], progress: Callable[[int], None] = lambda rows: None) -> int:
        path = part_path(self._output, number)
        try:
            self._embed_into(path, part, progress)
        except (OSError, arrow().ArrowException) as error:
            raise NibbleError(f"'{path}' cannot be made: {reason(error)}", "io") from None
        return number

    def _embed_into(self, path: Path, part: list[Slice], progress: Callable[[int], None]) -> None:
        compute = arrow("pyarrow.compute")
        rows, tables = self._reader.read(part), []
        for start in range(0, rows.num_rows, ROWS_AT_ONCE):
            tables.append(self._embed(rows.slice(start, ROWS_AT_ONCE)))
            progress(tables[-1].num_rows)
        table = arrow().concat_tables(tables)
        bad = compute.not_equal(table["error"], "")
        done = Done(table.num_rows, *(compute.sum(one).as_py() for one in (table["tokens"], table["truncated"], bad)))
        write_part(table, path, done)


def embed_here(corpus: Corpus, settings: dict, todo: list[int], progress: Callable[[int], None]) -> Iterator[int]:
    embedder = PartEmbedder(**settings)
    for number in todo:
        yield embedder.embed(number, corpus.parts[number], progress)


def embed_with_ray(corpus: Corpus, settings: dict, todo: list[int], options: argparse.Namespace) -> Iterator[int]:
    """Each part is a task of its own: if an actor dies, another one begins once more what it was doing."""
    ray, data = needed("ray", "ray"), needed("ray.data", "ray")
    ray.cloudpickle.register_pickle_by_value(corpora)  # this folder may not be on all machines
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # what fails is told below, in one sentence
    ray.init(address=options.address, log_to_driver=False, logging_level="error")
    if (gpus := ray.cluster_resources().get("GPU", 0)) < (options.gpus or 0):
        raise UsageError(f"--gpus is {options.gpus:g}, but Ray has found {gpus:g}: no actor would ever begin")
    data.DataContext.get_current().enable_progress_bars = False
    parts = [{"part": json.dumps([number, list(map(astuple, corpus.parts[number]))])} for number in todo]
    rows = data.from_items(parts, override_num_blocks=len(parts)).map_batches(
        PartEmbedder,
        fn_constructor_kwargs=settings,
        batch_size=1,
        compute=data.ActorPoolStrategy(size=options.actors),
        num_gpus=options.gpus,
    )
    try:
        for row in rows.iter_rows():
            yield int(row["number"])
    except ray.exceptions.RayError as error:
        raise NibbleError(f"Ray failed: {last_line(error)}", "internal") from None
    finally:
        ray.shutdown()


def last_line(error: Exception) -> str:
    """Before it come the places where it was raised."""
    return str(error).strip().rpartition("\n")[2]


def main(arguments: list[str] | None = None) -> int:
    parser = Parser(prog="embed_corpus.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("inputs", nargs="+", metavar="INPUT", help="a file, or a folder with .txt, .md or .parquet")
    parser.add_argument("--output", "-o", required=True, metavar="FOLDER", help="where the parts are, or shall be")
    parser.add_argument(
        "--column", default="text", metavar="NAME", help="of Parquet, which has the texts; default: text"
    )
    parser.add_argument("--part-rows", type=count, default=4096, metavar="N", help="rows of a part; default: 4096")
    add_model_options(parser, "minilm")
    parser.add_argument("--precision", choices=("4-bit", "fp32"), help="of the weights; default: 4-bit")
    parser.add_argument("--actors", type=count, metavar="N", help="so many processes by Ray; default: this one alone")
    parser.add_argument("--address", metavar="WHERE", help="of a Ray cluster, or auto; default: one on this machine")
    parser.add_argument("--gpus", type=float, metavar="N", help="that an actor takes of its machine, such as 1 or 0.5")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args(arguments)
    return guard(lambda: embed_corpus(options))


def embed_corpus(options: argparse.Namespace) -> int:
    corpus = open_corpus(options)
    encoder = {name: getattr(options, name) for name in ("model", "device", "engine", "precision", "batch")}
    settings = {"output": str(corpus.output.resolve()), "column": corpus.column, "options": encoder}
    before, began, within = len(corpus.done), time.monotonic(), 0
    todo = [number for number in range(len(corpus.parts)) if number not in corpus.done]
    with Progress("embedding") as tell:

        def progress(rows: int) -> None:
            nonlocal within
            within += rows
            tell(corpus.rows_done + within, corpus.rows)

        made = embed_with_ray(corpus, settings, todo, options) if options.actors else None
        try:
            for number in (made or embed_here(corpus, settings, todo, progress)) if todo else ():
                corpus.take(number)
                within = 0
                progress(0)
                if not sys.stderr.isatty():
                    print(f"{corpus.rows_done} of {counted(corpus.rows, 'row')} done", file=sys.stderr, flush=True)
        except KeyboardInterrupt:
            return complain(f"stopped: {corpus.kept}", INTERRUPTED)
        except NibbleError as error:
            raise NibbleError(f"{error}; {corpus.kept}", error.code) from None
    return report(corpus, before, time.monotonic() - began, options)


def open_corpus(options: argparse.Namespace) -> Corpus:
    try:
        _check_model(options.model, options.precision)
    except ValueError as error:
        raise UsageError(str(error).removesuffix(".")) from None
    if options.actors is None and (options.address or options.gpus):
        raise UsageError("--address and --gpus are for actors: --actors says how many")
    parquet()  # an error about it comes first
    program = Path(options.model) / "model.pte"
    made_of = {"model": options.model, "program": stamp(program) if program.exists() else None}
    given = (options.inputs, options.output, options.column, options.part_rows)
    return Corpus(*given, **made_of, precision=options.precision)


def report(corpus: Corpus, before: int, seconds: float, options: argparse.Namespace) -> int:
    sums = {field.name: sum(getattr(done, field.name) for done in corpus.done.values()) for field in fields(Done)}
    figures = {"output": str(corpus.output), "parts": len(corpus.parts), "parts_done_before": before, **sums}
    if options.json:
        print(json.dumps({**figures, "seconds": seconds}, indent=1))
    else:
        said = f"{counted(sums['rows'], 'row')} in {counted(len(corpus.parts), 'part')}, {before} of them done before"
        print(f"{corpus.output}: {said}; {counted(sums['tokens'], 'token')}, {seconds:.1f} s")
    if sums["truncated"]:
        complain(f"{counted(sums['truncated'], 'text')} longer than the model takes: only the beginning counts", 0)
    if sums["errors"]:
        complain(f"{counted(sums['errors'], 'row')} without a vector: the column 'error' says why", 0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
