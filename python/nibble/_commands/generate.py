"""nibble generate: text from a language model, as it is generated; or a chat."""

import argparse
import contextlib
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from .._files import check_writable
from .._native import NibbleError
from .._program import Device
from .._text.generation import Generation
from .._text.language_model import LanguageModel
from .terminal import INTERRUPTED, Parser, Progress, add_device_options, add_option_flags, guard, options_of

_DESCRIPTION = """Generates text with a language model, as `nibble import` writes one.

PROMPT is a message to the model (with --raw: a text to go on with). Without it, the standard input is the prompt, or in
a terminal a chat begins: /reset forgets, /save FILE and /restore FILE keep a conversation, /quit or Ctrl-D ends it, and
Ctrl-C ends an answer."""
_NUMBERS = (
    "max_tokens",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "repetition_penalty",
    "repetition_window",
    "presence_penalty",
    "frequency_penalty",
    "seed",
)


def main(arguments: list[str]) -> int:
    parser = _parser()
    args = parser.parse_args(arguments)
    is_chat = args.chat or (args.prompt is None and sys.stdin.isatty())
    if is_chat and (args.json or args.raw):
        parser.error("a chat cannot be had with --json or --raw")
    if is_chat and args.prompt is not None:
        parser.error("--chat takes no prompt")
    return guard(lambda: _generate(args, is_chat))


def _generate(args: argparse.Namespace, is_chat: bool) -> int:
    settings = _settings(args)
    prompt = args.prompt if args.prompt is not None or is_chat else _read_input()
    with _traced(args) as device:
        with Progress("loading", is_bytes=True) as progress:
            loaded = LanguageModel(args.model, device, engine=args.engine, on_progress=progress, **options_of(args))
        with loaded as model:
            if is_chat:
                from .chat import Chat

                return Chat(model, settings, args).run()
            return _answer(model, prompt, settings, args)


@contextlib.contextmanager
def _traced(args: argparse.Namespace) -> Iterator[Device | str | None]:
    """The device, which is traced within the block if that is wanted."""
    if args.trace is None:
        yield args.device
        return
    check_writable(args.trace)
    with Device(args.device, args.engine) as device:
        if not device.info.profile["timestamp_query"]:
            sentence = f"nibble: {device.name} has no timestamp queries, so the trace has the host's work only"
            print(sentence, file=sys.stderr)
        with device.trace(args.trace):
            yield device


def _read_input() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise NibbleError(f"the standard input is no UTF-8: byte {error.start}", "invalid_argument") from None


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="nibble generate", description=_DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("model", type=Path, metavar="MODEL", help="a folder that `nibble import` made, or the .pte in it")
    add("prompt", nargs="?", metavar="PROMPT")
    add("--chat", action="store_true", help="a chat, also if the standard input is no terminal")
    add("--system", metavar="TEXT", help="a system message before the prompt")
    add("--raw", action="store_true", help="go on with the prompt as it stands, without the model's chat template")
    add("--max-tokens", type=int, metavar="N", help="at most so many, from 1 on; default: as many as fit")
    add(
        "--temperature",
        type=float,
        metavar="T",
        help="0, the default, takes the likeliest token; 1 draws as the model says",
    )
    add("--top-k", type=int, metavar="K", help="draw among the K likeliest")
    add("--top-p", type=float, metavar="P", help="draw among the fewest whose probabilities reach P")
    add("--min-p", type=float, metavar="P", help="draw among those at least P times as likely as the likeliest")
    add("--repetition-penalty", type=float, metavar="R", help="above 1: tokens that were there become less likely")
    add("--repetition-window", type=int, metavar="N", help="how many tokens back it looks; default: 64")
    add("--presence-penalty", type=float, metavar="P", help="what is taken from the logit of a token that was there")
    add("--frequency-penalty", type=float, metavar="P", help="the same for each time that it was there")
    add("--seed", type=int, metavar="N", help="what draws depend on; default: another one each time")
    add("--stop", action="append", default=[], metavar="TEXT", help="ends the text where this would come; repeatable")
    add("--stop-id", type=int, action="append", metavar="TOKEN", help="in place of the model's own; repeatable")
    add("--json-schema", metavar="FILE", help="the text shall be JSON of this schema: a file, or the schema itself")
    add("--regex", metavar="PATTERN", help="the text shall match this pattern")
    add(
        "--grammar", type=Path, metavar="FILE", help="the text shall follow this grammar (Lark, as llguidance reads it)"
    )
    add("--logprobs", type=int, metavar="N", help="with --json: log-probabilities of the tokens and of N others each")
    add("--json", action="store_true", help="print text, tokens, usage and figures as JSON, at the end")
    add("--stats", action="store_true", help="print figures on standard error, at the end")
    add(
        "--trace",
        type=Path,
        metavar="FILE",
        help="write what host and GPU do, and when, for chrome://tracing and Perfetto",
    )
    add_device_options(parser)
    add_option_flags(parser)
    return parser


def _settings(args: argparse.Namespace) -> dict:
    settings = {name: getattr(args, name) for name in _NUMBERS if getattr(args, name) is not None}
    settings |= {"stop": args.stop, "stop_ids": args.stop_id, "system": args.system, "regex": args.regex}
    if args.json_schema is not None:
        settings["json_schema"] = _schema(args.json_schema)
    if args.grammar is not None:
        settings["grammar"] = _read(args.grammar)
    if args.logprobs is not None:
        settings |= {"logprobs": True, "top_logprobs": args.logprobs}
    return settings


def _schema(given: str) -> str:
    return given if given.lstrip().startswith(("{", "true", "false")) else _read(Path(given))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
        raise NibbleError(f"'{path}' cannot be read: {reason}", "io") from None


def _answer(model: LanguageModel, prompt: str, settings: dict, args: argparse.Namespace) -> int:
    generation = model.generate(prompt, raw=args.raw, **settings)
    code, pieces = stream(generation, None if args.json else sys.stdout)
    if args.json:
        print(json.dumps(_report(model, generation, pieces), ensure_ascii=False, indent=1))
    if args.stats:
        print(figures(generation), file=sys.stderr)
    return code


def stream(generation: Generation, to) -> tuple[int, list]:
    """Writes pieces as they come. Ctrl-C ends the generation, and what was written stays."""
    pieces = []
    code = 0
    try:
        for piece in generation:
            pieces.append(piece)
            if to is not None:
                to.write(piece.text)
                to.flush()
    except KeyboardInterrupt:
        generation.cancel()
        code = INTERRUPTED
    finally:
        if to is not None and not generation.text.endswith("\n"):
            to.write("\n")
            to.flush()
    return code, pieces


def _report(model: LanguageModel, generation: Generation, pieces: Iterable) -> dict:
    usage = generation.usage
    report = {
        "model": model.name,
        "text": generation.text,
        "ids": generation.ids,
        "finish_reason": generation.finish_reason or "cancelled",
        "seed": generation.seed,
        "usage": vars(usage) | {"total_tokens": usage.prompt_tokens + usage.completion_tokens},
        "stats": generation.stats,
    }
    logprobs = [
        {**vars(chosen), "top": [vars(one) for one in top]}
        for piece in pieces
        for chosen, top in zip(piece.logprobs, piece.top_logprobs, strict=True)
    ]
    return report | ({"logprobs": logprobs} if logprobs else {})


def figures(generation: Generation) -> str:
    """What a person wants to know, in a line."""
    stats = generation.stats
    return (
        f"prompt {stats['prompt_tokens']} tokens ({stats['cached_tokens']} cached), {_rate(stats, 'prompt')}; "
        f"first token after {stats['time_to_first_token_ms'] / 1e3:.2f} s; "
        f"{stats['generated_tokens']} tokens, {_rate(stats, 'generated')}; "
        f"{(stats['model_bytes'] + stats['session_bytes']) / 1e6:.0f} MB on {stats['device']}, {stats['engine']}"
    )


def _rate(stats: dict, what: str) -> str:
    rate = stats[f"{what}_tokens_per_second"]
    return f"{rate:.1f} tokens/s" if rate else "no time measured"
