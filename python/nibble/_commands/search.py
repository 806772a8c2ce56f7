"""nibble search: the lines of files by meaning."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .. import NibbleError
from .._encode.models import KNOWN
from ._texts import Line, add_model_options, open_encoder, read_lines
from .terminal import Parser, Progress, UsageError, complain, count, counted, guard

DESCRIPTION = """\
Ranks the lines of files by how close they are to a question in meaning: with 4-bit weights on the GPU, and beside it
with the weights as they are published."""
NONE = float("nan")


@dataclass
class Found:
    """A line, with its places in the ranking by the model and in that by unquantized weights, if there is one."""

    line: Line
    tokens: int
    clipped: bool
    score: float  # not a number where there is no token
    rank: int
    full_score: float = NONE
    full_rank: int | None = None


def main(arguments: list[str]) -> int:
    parser = Parser(prog="nibble search", description=DESCRIPTION)
    parser.add_argument("question")
    parser.add_argument("files", nargs="+", metavar="FILE", help='text; "-" is standard input; of .jsonl the "text"s')
    add_search_options(parser, "minilm")
    options = parser.parse_args(arguments)
    return guard(lambda: search(options, shows_places=True))


def add_search_options(parser: argparse.ArgumentParser, default_model: str) -> None:
    add_model_options(parser, default_model)
    parser.add_argument("--top", type=count, default=10, metavar="N", help="how many lines to show; default: 10")
    parser.add_argument(
        "--full",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="show the ranking by unquantized weights beside it, or not",
    )
    parser.add_argument("--json", action="store_true", help="print all lines and figures as JSON")


def search(options: argparse.Namespace, shows_places: bool) -> int:
    lines = read_lines(options.files)
    if not lines:
        raise UsageError(f"there are no lines in {', '.join(map(repr, options.files))}")
    if not options.question.strip():
        raise UsageError("the question holds no words")
    with open_encoder(options.model, options) as encoder:
        scores, made = _scores(encoder, options.question, lines)
        device, max_length = encoder.device, encoder.max_length
        full_scores = _full_scores(options, device, lines)
    ranks = _ranks(scores)
    found = [
        Found(line, int(made.tokens[i]), bool(made.truncated[i]), float(scores[i]), int(ranks[i]))
        for i, line in enumerate(lines)
    ]
    if full_scores is not None:
        for one, score, rank in zip(found, full_scores, _ranks(full_scores), strict=True):
            one.full_score, one.full_rank = float(score), int(rank)
    found.sort(key=lambda one: one.rank)
    figures = {
        "question": options.question,
        "model": options.model,
        "device": device.name,
        "engine": device.info.engine,
        "milliseconds_per_line": made.seconds * 1e3 / max(1, int((made.tokens > 0).sum())),
        "spearman": None if full_scores is None else agreement(found),
    }
    if options.json:
        print(json.dumps(figures | {"lines": [_as_json(one) for one in found]}, indent=1, ensure_ascii=False))
    else:
        _print_table(options, figures, found, shows_places, max_length)
    return 0


def _scores(encoder, question: str, lines: Sequence[Line], what: str = "reading"):
    """The lines' cosines to the question, and what came of them."""
    asked = encoder.embed([question])
    if not asked.tokens[0]:
        raise UsageError("the question holds no words")
    if asked.truncated[0]:
        raise UsageError(f"the question is longer than {encoder.max_length} tokens")
    with Progress(what) as progress:
        made = encoder.embed([line.text for line in lines], progress=progress)
    return np.where(made.tokens > 0, made.vectors @ asked.vectors[0], NONE), made


def _full_scores(options: argparse.Namespace, device, lines: Sequence[Line]) -> np.ndarray | None:
    if not options.full:
        return None
    try:
        if options.model not in KNOWN:
            raise NibbleError(f"'{options.model}' has none", "unsupported")
        # On the device that is open.
        same = argparse.Namespace(**vars(options) | {"device": device, "engine": None})
        with open_encoder(options.model, same, precision="fp32") as encoder:
            return _scores(encoder, options.question, lines, "reading with unquantized weights")[0]
    except NibbleError as error:
        complain(f"the ranking by unquantized weights is left out: {error}", 0)
        return None


def _ranks(scores: np.ndarray) -> np.ndarray:
    """From 1 on; those without a score come last."""
    ranks = np.empty(len(scores), np.int64)
    ranks[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
    return ranks


def agreement(found: Sequence[Found]) -> float:
    """Spearman's correlation of the two rankings: 1 when they are the same."""
    squares = sum((one.rank - one.full_rank) ** 2 for one in found)
    return 1 - 6 * squares / (len(found) * (len(found) ** 2 - 1)) if len(found) > 1 else 1.0


def _as_json(one: Found) -> dict:
    return {
        "rank": one.rank,
        "score": None if np.isnan(one.score) else one.score,
        "full_rank": one.full_rank,
        "full_score": None if np.isnan(one.full_score) else one.full_score,
        "tokens": one.tokens,
        "clipped": one.clipped,
        "file": one.line.file,
        "number": one.line.number,
        "line": one.line.text,
    }


def _print_table(
    options: argparse.Namespace, figures: dict, found: list[Found], shows_places: bool, max_length: int
) -> None:
    is_terminal = sys.stdout.isatty()
    has_full = figures["spearman"] is not None
    top = found[: options.top]
    known = KNOWN.get(options.model)
    headers = ["4-bit" if known else "rank", "score"]
    rows = [[str(one.rank), _score(one.score)] for one in top]
    if has_full:
        headers += [known.published, "score"]
        for row, one in zip(rows, top, strict=True):
            row += [str(one.full_rank), _score(one.full_score)]
    if shows_places:
        headers.append("place")
        for row, one in zip(rows, top, strict=True):
            row.append(f"{one.line.file}:{one.line.number}" if len(options.files) > 1 else str(one.line.number))
    widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]

    def show(cells: list[str], text: str, style: str) -> None:
        padded = "  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
        print(f"{_styled(padded, style if is_terminal else '')}  {text}")

    print(_styled(_plain(options.question), "1" if is_terminal else ""))
    show(headers, "line", "1")
    for row, one in zip(rows, top, strict=True):
        show(row, _shorten(_plain(one.line.text)), "33" if has_full and one.rank != one.full_rank else "")

    print(f"\n{counted(len(found))} on {figures['device']}, {figures['milliseconds_per_line']:.2f} ms per line")
    if has_full:
        same = sum(one.full_rank <= len(top) for one in top)
        agree = f"The two rankings agree to {figures['spearman']:.3f} (Spearman)"
        print(f"{agree}; {same} of the first {len(top)} are the same.")
    for number, what in (
        (sum(one.tokens == 0 for one in found), "without words, ranked last"),
        (sum(one.clipped for one in found), f"longer than {max_length} tokens, ranked by the beginning"),
    ):
        if number:
            print(f"{counted(number)} {what}")


def _styled(text: str, style: str) -> str:
    return f"\x1b[{style}m{text}\x1b[0m" if style else text


def _plain(text: str) -> str:
    """A terminal would take control characters of a file for commands."""
    return "".join(character if character.isprintable() else " " for character in text)


def _shorten(text: str, most: int = 160) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _score(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.3f}"
