"""nibble embed: the lines of files as vectors."""

import argparse
import json
import sys

import numpy as np

from .. import NibbleError
from .._files import check_writable, new_file
from ._texts import add_model_options, open_encoder, read_lines
from .terminal import Parser, Progress, UsageError, counted, guard

DESCRIPTION = """\
Writes a vector for each line that is not empty, in their order: float32 [lines, width], each of length one unless told
otherwise, so that the product of two is the cosine between them."""


def main(arguments: list[str]) -> int:
    parser = Parser(prog="nibble embed", description=DESCRIPTION)
    parser.add_argument("files", nargs="+", metavar="FILE", help='text; "-" is standard input; of .jsonl the "text"s')
    parser.add_argument("--output", "-o", required=True, metavar="FILE", help="where to write the vectors (.npy)")
    add_model_options(parser, "minilm")
    parser.add_argument("--precision", choices=("4-bit", "fp32"), help="of the weights; default: 4-bit")
    parser.add_argument(
        "--normalize",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="make each vector one long, or leave it as the model gives it: the mean over its tokens",
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args(arguments)
    return guard(lambda: _embed(options))


def _embed(options: argparse.Namespace) -> int:
    try:
        output = check_writable(options.output)
    except NibbleError as error:
        raise UsageError(str(error)) from None
    lines = read_lines(options.files)
    settings = {"precision": options.precision, "normalize": options.normalize}
    with open_encoder(options.model, options, **settings) as encoder, Progress("embedding") as progress:
        made = encoder.embed([line.text for line in lines], progress=progress)
        device, max_length = encoder.device.info, encoder.max_length
    with new_file(output) as file:
        np.save(file, made.vectors)
    figures = {
        "output": str(output),
        "model": options.model,
        "device": device.name,
        "engine": device.engine,
        "normalized": options.normalize,
        "lines": len(lines),
        "width": made.vectors.shape[1],
        "tokens": int(made.tokens.sum()),
        "truncated": int(made.truncated.sum()),
        "milliseconds_per_line": made.seconds * 1e3 / max(1, len(lines)),
    }
    if options.json:
        print(json.dumps(figures, indent=1, ensure_ascii=False))
    else:
        print(
            f"{output}: {counted(len(lines))} of {figures['width']} numbers, {counted(figures['tokens'], 'token')}, "
            f"{figures['milliseconds_per_line']:.2f} ms per line on {device.name}"
        )
    if figures["truncated"]:
        longer = f"{counted(figures['truncated'])} longer than {max_length} tokens, of which only the beginning counts"
        print(f"nibble: {longer}", file=sys.stderr)
    return 0
