"""Ranks the lines of a text by meaning: with 4-bit weights on the GPU, and with the unquantized ones."""

import sys
from pathlib import Path

from nibble._commands.search import add_search_options, search
from nibble._commands.terminal import Parser, guard

DEFAULT_TEXT = Path(__file__).resolve().parent / "lines.txt"
DEFAULT_QUESTION = "How do I keep my plants alive on holiday?"


def main() -> int:
    parser = Parser(prog="./run", description=__doc__)
    parser.add_argument("question", nargs="?", default=DEFAULT_QUESTION, help=f'default: "{DEFAULT_QUESTION}"')
    parser.add_argument("file", nargs="?", default=str(DEFAULT_TEXT), help="a text file; default: one of Nibble's")
    add_search_options(parser, "wordllama")
    options = parser.parse_args()
    options.files = [options.file]
    return guard(lambda: search(options, shows_places=False))


if __name__ == "__main__":
    sys.exit(main())
