"""Ranks the lines of a text by meaning: with a 4-bit embedding table on the GPU, and with the unquantized one."""

import argparse
import json
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
from export_wordllama import GROUP_SIZE, MAX_LENGTH, read_table, wordllama_folder
from rich.console import Console
from rich.table import Table
from rich.text import Text
from tokenizers import Tokenizer

import nibble

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "build" / "wordllama-q4.pte"
DEFAULT_TEXT = ROOT / "examples" / "lines.txt"
DEFAULT_QUESTION = "How do I keep my plants alive on holiday?"


@dataclass
class Line:
    text: str
    ids: list[int]
    clipped: bool
    score: float = float("nan")  # stays so when there is no token to take a mean of
    full_score: float = float("nan")
    rank: int = 0
    full_rank: int = 0


def main() -> int:
    args = parse_arguments()
    try:
        texts = [line.strip() for line in args.file.read_text(encoding="utf-8", errors="replace").splitlines()]
    except OSError as error:
        return complain(f"'{args.file}' cannot be read: {error.strerror}")
    tokenizer = Tokenizer.from_file(str(wordllama_folder() / "tokenizers" / "l2_supercat_tokenizer_config.json"))
    question = tokenize(tokenizer, args.question)
    lines = [tokenize(tokenizer, text) for text in texts if text]
    if not question.ids:
        return complain("the question holds no words")
    if not lines:
        return complain(f"'{args.file}' holds no lines")

    try:
        model = nibble.load(program_file(), args.device)
        seconds = embed(model, question, lines)
    except nibble.NibbleError as error:
        print(f"search: {error}", file=sys.stderr)
        return 1
    (print_json if args.json else print_table)(args, model, lines, seconds)
    return 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./run", description=__doc__)
    parser.add_argument("question", nargs="?", default=DEFAULT_QUESTION, help=f'default: "{DEFAULT_QUESTION}"')
    parser.add_argument(
        "file", nargs="?", type=Path, default=DEFAULT_TEXT, help="a text file; default: one of Nibble's"
    )
    parser.add_argument("--device", help="an index, a kind (cpu, integrated, discrete) or a part of an adapter's name")
    parser.add_argument("--top", type=int, default=10, metavar="N", help="how many lines to show; default: 10")
    parser.add_argument("--json", action="store_true", help="print all lines and figures as JSON")
    args = parser.parse_args()
    if args.top < 1:
        parser.error(f"--top must be at least 1, but is {args.top}")
    return args


def complain(message: str) -> int:
    print(f"search: {message}", file=sys.stderr)
    return 2


def tokenize(tokenizer: Tokenizer, text: str) -> Line:
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    return Line(text, ids[:MAX_LENGTH], len(ids) > MAX_LENGTH)


def program_file() -> Path:
    """The exported program; made once, and again when something that goes into it has changed."""
    versions = [f"{name}=={version(name)}" for name in ("executorch", "torch", "wordllama")]
    key = " ".join([f"nibble=={nibble.__version__}", *versions, f"group={GROUP_SIZE} length={MAX_LENGTH}"])
    key_file = PROGRAM.with_suffix(".key")
    if PROGRAM.exists() and key_file.exists() and key_file.read_text() == key:
        return PROGRAM
    print("search: exporting the 4-bit program (once, about half a minute)", file=sys.stderr)
    PROGRAM.parent.mkdir(exist_ok=True)
    key_file.unlink(missing_ok=True)
    # In a process of its own: the exporter takes much memory and says much that is of no interest here.
    command = [sys.executable, str(ROOT / "examples" / "export_wordllama.py"), str(PROGRAM)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise nibble.NibbleError(f"the export failed:\n{done.stderr[-2000:]}")
    key_file.write_text(key)
    return PROGRAM


def embed(model: nibble.Model, question: Line, lines: list[Line]) -> float:
    """Fills in scores and ranks; gives the seconds that the GPU's part took per line."""
    table = read_table().astype(np.float32)
    target = unit(model([question.ids]))
    full_target = unit(table[question.ids].mean(0))
    seconds = 0.0
    with_tokens = [line for line in lines if line.ids]
    for line in with_tokens:
        start = time.perf_counter()
        vector = model([line.ids])
        seconds += time.perf_counter() - start
        line.score = float(unit(vector) @ target)
        line.full_score = float(unit(table[line.ids].mean(0)) @ full_target)
    # not-a-number sorts last
    for rank, index in enumerate(np.argsort([-line.score for line in lines], kind="stable"), start=1):
        lines[index].rank = rank
    for rank, index in enumerate(np.argsort([-line.full_score for line in lines], kind="stable"), start=1):
        lines[index].full_rank = rank
    lines.sort(key=lambda line: line.rank)
    return seconds / max(1, len(with_tokens))


def unit(vector: np.ndarray) -> np.ndarray:
    vector = vector.reshape(-1)
    return vector / max(float(np.linalg.norm(vector)), 1e-12)


def agreement(lines: list[Line]) -> float:
    """Spearman's correlation of the two rankings: 1 when they are the same."""
    count = len(lines)
    squares = sum((line.rank - line.full_rank) ** 2 for line in lines)
    return 1 - 6 * squares / (count * (count**2 - 1)) if count > 1 else 1.0


def print_table(args: argparse.Namespace, model: nibble.Model, lines: list[Line], seconds: float) -> None:
    console = Console(highlight=False)
    table = Table(title=Text(args.question), title_justify="left", title_style="bold", pad_edge=False, box=None)
    for header in ("4-bit", "score", "16-bit", "score"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("line", overflow="fold")
    top = lines[: args.top]
    for line in top:
        moved = "" if line.rank == line.full_rank else "yellow"
        cells = (str(line.rank), score(line.score), str(line.full_rank), score(line.full_score))
        table.add_row(*(Text(cell, style=moved) for cell in cells), Text(shorten(line.text)))
    console.print(table)

    same = sum(line.full_rank <= len(top) for line in top)
    console.print(
        f"\n{len(lines)} lines on {model.device.name}, {seconds * 1e3:.2f} ms per line\n"
        f"The two rankings agree to {agreement(lines):.3f} (Spearman); {same} of the first {len(top)} are the same.",
        markup=False,
        soft_wrap=True,
    )
    for count, what in (
        (sum(not line.ids for line in lines), "without words, ranked last"),
        (sum(line.clipped for line in lines), f"longer than {MAX_LENGTH} tokens, ranked by the beginning"),
    ):
        if count:
            console.print(f"{count} {'line' if count == 1 else 'lines'} {what}", soft_wrap=True)


def shorten(text: str, most: int = 160) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def score(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.3f}"


def print_json(args: argparse.Namespace, model: nibble.Model, lines: list[Line], seconds: float) -> None:
    report = {
        "question": args.question,
        "device": model.device.name,
        "milliseconds_per_line": seconds * 1e3,
        "spearman": agreement(lines),
        "lines": [
            {
                "rank": line.rank,
                "score": None if np.isnan(line.score) else line.score,
                "full_rank": line.full_rank,
                "full_score": None if np.isnan(line.full_score) else line.full_score,
                "tokens": len(line.ids),
                "clipped": line.clipped,
                "line": line.text,
            }
            for line in lines
        ],
    }
    print(json.dumps(report, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    # A reader such as head may stop early; that is no failure.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main())
