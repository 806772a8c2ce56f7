"""A chat in a terminal."""

import argparse
import contextlib
import json
import sys
from pathlib import Path

from .._files import new_file
from .._native import NibbleError
from .._text.language_model import LanguageModel
from .._text.template import check_messages
from .generate import figures, stream
from .terminal import FAILED, complain

_HELP = "/reset forgets the conversation, /save FILE and /restore FILE keep one, /quit ends the chat"


class Chat:
    """Asks, answers, and remembers. The session computes of each turn only what is new."""

    def __init__(self, model: LanguageModel, settings: dict, args: argparse.Namespace):
        if model.template is None:
            raise NibbleError("this model has no chat template, so it can only go on with a text: --raw", "unsupported")
        self._model, self._settings, self._wants_stats = model, settings, args.stats
        self._system = settings.pop("system")
        self._session = model.session()
        self._messages: list[dict] = []
        self._forget()

    def _forget(self) -> None:
        self._messages = [{"role": "system", "content": self._system}] if self._system is not None else []

    def run(self) -> int:
        is_terminal = sys.stdin.isatty()
        # What is no UTF-8 is then told as such, and not an end.
        sys.stdin.reconfigure(errors="surrogateescape")
        if is_terminal:
            with contextlib.suppress(ImportError):
                import readline  # noqa: F401  (input() then edits lines and has a history)
            print(f"{self._model.name} on {self._model.device.name}. {_HELP}.", file=sys.stderr)
        while (line := self._ask(is_terminal)) is not None:
            if not line:
                continue
            if line == "/quit":
                break
            try:
                self._command(line) if line.startswith("/") else self._turn(line)
            except NibbleError as error:
                complain(str(error), FAILED)
                if self._model.device.has_failed:
                    return FAILED
            except KeyboardInterrupt:  # before the answer began, or when it had ended
                print(file=sys.stderr)
        return 0

    def _ask(self, is_terminal: bool) -> str | None:
        while True:
            try:
                return input("> " if is_terminal else "").strip()
            except EOFError:
                if is_terminal:
                    print()
                return None
            except KeyboardInterrupt:
                print("\n(Ctrl-D or /quit ends the chat)", file=sys.stderr)

    def _command(self, line: str) -> None:
        name, _, path = line.partition(" ")
        path = path.strip()
        if name == "/reset" and not path:
            self._forget()
            self._session.reset()
        elif name == "/save" and path:
            self._save(Path(path))
        elif name == "/restore" and path:
            self._restore(Path(path))
        else:
            print(_HELP, file=sys.stderr)

    def _save(self, path: Path) -> None:
        with new_file(path) as file:
            file.write(json.dumps({"messages": self._messages}, ensure_ascii=False, indent=1).encode())

    def _restore(self, path: Path) -> None:
        try:
            messages = json.loads(path.read_text(encoding="utf-8"))["messages"]
        except OSError as error:
            raise NibbleError(f"'{path}' cannot be read: {error.strerror}", "io") from None
        except (ValueError, LookupError, TypeError, RecursionError):
            raise NibbleError(f"'{path}' holds no conversation", "invalid_argument") from None
        check_messages(messages)
        self._messages = messages

    def _turn(self, line: str) -> None:
        messages = [*self._messages, {"role": "user", "content": line}]
        generation = self._session.generate(messages, **self._settings)
        stream(generation, sys.stdout)
        self._messages = [*messages, {"role": "assistant", "content": generation.text}]
        if self._wants_stats:
            print(figures(generation), file=sys.stderr)
