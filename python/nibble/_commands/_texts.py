"""What the commands that take texts have in common: the encoder, and lines of files."""

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path

from .terminal import UsageError, add_device_options, add_option_flags, count, options_of


def add_model_options(parser: argparse.ArgumentParser, default: str) -> None:
    parser.add_argument(
        "--model",
        default=default,
        metavar="NAME",
        help=f"minilm, wordllama, or a folder with model.pte and tokenizer.json; default: {default}",
    )
    add_device_options(parser)
    parser.add_argument(
        "--batch", type=count, metavar="N", help="the most lines of one call; default: as many as the program takes"
    )
    add_option_flags(parser)


@dataclass(frozen=True)
class Line:
    file: str
    number: int
    text: str


def read_lines(files: list[str]) -> list[Line]:
    """The lines that are not empty. `-` is standard input; each line of a .jsonl is a string or has one as "text"."""
    lines = []
    for file in files:
        try:
            content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        except (OSError, ValueError) as error:
            raise UsageError(f"'{file}' cannot be read: {getattr(error, 'strerror', None) or error}") from None
        rows = content.decode("utf-8-sig", errors="replace").replace("\r\n", "\n").split("\n")
        for number, row in enumerate(rows, 1):
            text = row.strip()
            if text and file.endswith(".jsonl"):
                text = _text_of(text, f"{file}:{number}")
            if text:
                lines.append(Line(file, number, text))
    return lines


def _text_of(row: str, place: str) -> str:
    try:
        value = json.loads(row)
    except ValueError as error:
        raise UsageError(f"{place} is not JSON: {error}") from None
    text = value.get("text") if isinstance(value, dict) else value
    if not isinstance(text, str):
        raise UsageError(f'{place} must be a string, or an object with a string "text"')
    return text.strip()


def open_encoder(model: str, options: argparse.Namespace, **settings):
    from .. import Encoder

    try:
        settings |= {"device": options.device, "engine": options.engine, "batch": options.batch}
        return Encoder(model, **settings, **options_of(options))
    except ValueError as error:
        raise UsageError(str(error).removesuffix(".")) from None
