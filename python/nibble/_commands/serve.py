"""nibble serve: models behind the protocol that OpenAI's clients speak."""

import argparse
import os
import re
import sys
from pathlib import Path

from .._encode.models import KNOWN
from .._text.needed import needed
from .terminal import Parser, Progress, UsageError, add_device_options, add_option_flags, count, guard, options_of

_DESCRIPTION = """Serves models over HTTP, as clients of OpenAI's API expect it: /v1/chat/completions, /v1/completions,
/v1/embeddings, /v1/models; besides /health, /metrics and a page to chat at /.

MODEL is a folder that `nibble import` made, or an encoder: minilm, wordllama, or a folder with model.pte and
tokenizer.json. Clients call it by the folder's name, or by the one that is given as NAME=MODEL.

SIGTERM or Ctrl-C ends it, after requests that run have ended. Logs are lines of JSON on the standard error."""


def main(arguments: list[str]) -> int:
    args = _parser().parse_args(arguments)
    return guard(lambda: _serve(args))


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="nibble serve", description=_DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("models", nargs="+", metavar="MODEL")
    add("--host", default="127.0.0.1", help="address to listen on; default: 127.0.0.1, this machine alone")
    add("--port", type=_port, default=8000, metavar="N", help="default: 8000; 0: any that is free")
    add("--api-key", metavar="KEY", help="what clients must send; better by $NIBBLE_API_KEY, which others do not see")
    add("--cors-origin", action="append", default=[], metavar="URL", help="pages of this origin may call; repeatable")
    add("--allowed-host", action="append", default=[], metavar="NAME",
        help="a further name by which clients may call the server, as a proxy hands it on; repeatable")  # fmt: skip
    add("--sessions", type=count, default=4, metavar="N", help="requests of a model that run at once; default: 4")
    add("--session-memory", type=count, metavar="MIB",
        help="for caches of a model's sessions, those included that keep what they computed for later requests; "
        "default: for twice as many sessions")  # fmt: skip
    add("--queue", type=_some, default=64, metavar="N", help="requests of a model that may wait; default: 64")
    add("--max-requests", type=count, default=512, metavar="N",
        help="requests that are open at once, in whatever state; default: 512")  # fmt: skip
    add("--max-connections", type=count, default=1024, metavar="N",
        help="open connections; a further one closes the one that was silent longest; default: 1024")  # fmt: skip
    add("--max-tokens", type=count, metavar="N", help="longest answer; default: what the context has room for")
    add("--max-choices", type=count, default=16, metavar="N", help="answers of one request; default: 16")
    add("--max-body", type=count, default=4, metavar="MIB", help="largest body of a request; default: 4")
    add("--max-unread", type=count, default=256, metavar="MIB",
        help="answers that wait to be read, over it the slowest reader loses its own; default: 256")  # fmt: skip
    add("--timeout", type=count, default=600, metavar="S", help="seconds for a request, waiting included; default: 600")
    add("--drain", type=count, default=30, metavar="S",
        help="seconds that requests may go on when the server ends; default: 30")  # fmt: skip
    add("--log-prompts", action="store_true", help="write requests and answers to the log, which otherwise has neither")
    add_device_options(parser)
    add_option_flags(parser)
    return parser


def _some(text: str) -> int:
    """For argparse: a number of things, or none."""
    return 0 if text == "0" else count(text)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"must be from 0 to 65535, but is {text}")
    return int(text)


def _serve(args: argparse.Namespace) -> int:
    for package in ("starlette", "uvicorn"):
        needed(package, "serve")
    from .._serve.context import Limits
    from .._serve.server import Server, Settings

    key = args.api_key or os.environ.get("NIBBLE_API_KEY") or None
    limits = Limits(
        body_bytes=args.max_body << 20,
        seconds=args.timeout,
        requests=args.max_requests,
        connections=args.max_connections,
        choices=args.max_choices,
        unread_bytes=args.max_unread << 20,
    )
    settings = Settings(
        host=args.host,
        port=args.port,
        key=key,
        hosts=args.allowed_host,
        origins=args.cors_origin,
        queue=args.queue,
        drain_seconds=args.drain,
        logs_prompts=args.log_prompts,
        limits=limits,
    )
    server = Server(_models(args), settings, device=args.device, engine=args.engine)
    with server.listen() as listener:
        with Progress("loading: bytes") as progress:
            server.serving.open(progress)
        server.run(listener, lambda: _tell(server))
    return 0


def _models(args: argparse.Namespace) -> list:
    from .._serve.served import ServedEncoder, ServedText

    models, session_memory = [], None if args.session_memory is None else args.session_memory << 20
    for given in args.models:
        id, path = _named(given)
        if any(model.id == id for model in models):
            raise UsageError(f"two models are called '{id}'; give one another name, as in other={path}")
        if path in KNOWN or not (Path(path).suffix == ".pte" or (Path(path) / "generation.json").exists()):
            if path not in KNOWN and not Path(path).is_dir():
                raise UsageError(f"'{path}' is neither a folder nor one of {', '.join(KNOWN)}")
            models.append(ServedEncoder(id, path, options_of(args)))
        else:
            models.append(ServedText(id, path, args.sessions, session_memory, args.max_tokens, options_of(args)))
    return models


def _named(given: str) -> tuple[str, str]:
    name, is_named, path = given.partition("=")
    if not is_named or Path(given).exists():
        path = given
        folder = Path(path).resolve()
        name = path if path in KNOWN else folder.parent.name if folder.suffix == ".pte" else folder.name
    if not re.fullmatch(r"[\w.:/@+-]+", name):
        raise UsageError(f"'{name}' cannot be the name of a model; give it another one, as in name={path}")
    return name, path


def _tell(server) -> None:
    from .._serve.guard import is_loopback

    names = ", ".join(server.serving.models)
    print(f"{names} on {server.serving.device.name}: {server.url}/v1, chat at {server.url}/", flush=True)
    server.log.say("info", event="listening", url=server.url, models=list(server.serving.models))
    if not server.settings.key and not is_loopback(server.settings.host):
        print("nibble: whoever reaches this address can use the models: there is no --api-key", file=sys.stderr)
