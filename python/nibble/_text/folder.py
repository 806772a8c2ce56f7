"""What lies beside a language model's program: generation.json, as `nibble import` writes it, or anybody else."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._native import NibbleError

FORMAT = 1
_MOST_IDS = 1 << 31


@dataclass(frozen=True)
class ModelFolder:
    """A program, and what generating with it needs to know."""

    program: Path
    name: str
    stop_ids: list[int]
    bos_id: int | None
    eos_id: int | None
    adds_bos: bool
    chat_template: str | None

    @property
    def tokenizer(self) -> Path:
        return self.program.parent / "tokenizer.json"


def read_folder(path: Path) -> ModelFolder:
    """Of a folder, or of the program in it."""
    is_program = path.suffix == ".pte"
    folder = path.parent if is_program else path
    if not folder.is_dir():
        raise NibbleError(f"'{path}' is neither a folder nor a program: make one by `nibble import model.gguf`", "io")
    facts = _Facts(folder / "generation.json")
    if (number := facts.get("format", int, FORMAT)) != FORMAT:
        raise facts.refuse(f"its format is {number}, but only {FORMAT} is known")
    # A name, because a file that came with a model shall not reach others.
    program = path.name if is_program else facts.get("program", str, "model.pte")
    if Path(program).name != program or not program:
        raise facts.refuse(f"its program is {program!r}, which is no file's name")
    if (own := facts.get("program", str, program)) != program:
        raise facts.refuse(f"it belongs to {own!r} and not to {program!r}")
    return ModelFolder(
        program=folder / program,
        name=facts.get("name", str, "") or folder.name,
        stop_ids=facts.stop_ids(),
        bos_id=facts.token("bos_id"),
        # Who wrote no eos_id means the first.
        eos_id=next(iter(facts.stop_ids()), None) if facts.token("eos_id") is None else facts.token("eos_id"),
        adds_bos=facts.get("add_bos", bool, False) and facts.token("bos_id") is not None,
        chat_template=facts.get("chat_template", str, "") or None,
    )


class _Facts:
    """The members of generation.json, checked one by one."""

    def __init__(self, path: Path):
        self._path = path
        try:
            self._facts = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            message = f"'{path.parent}' holds no language model: {path.name} cannot be read ({error.strerror})"
            raise NibbleError(message, "io") from None
        except (ValueError, RecursionError) as error:
            raise self.refuse(f"it is no JSON ({error})") from None
        if not isinstance(self._facts, dict):
            raise self.refuse("it is no JSON object")

    def refuse(self, why: str) -> NibbleError:
        return NibbleError(f"'{self._path}' cannot be used: {' '.join(why.split())}", "invalid_program")

    def get(self, key: str, kind: type, default: Any) -> Any:
        """null is as if it were not there."""
        value = self._facts.get(key)
        if value is None:
            return default
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self.refuse(f"its {key} is {str(value)[:40]!r}, which is not {kind.__name__}")
        return value

    def token(self, key: str) -> int | None:
        id = self.get(key, int, None)
        if id is not None and not 0 <= id < _MOST_IDS:
            raise self.refuse(f"its {key} is {id}, which is no token")
        return id

    def stop_ids(self) -> list[int]:
        ids = self.get("stop_ids", list, None)
        if ids is None or not all(type(id) is int and 0 <= id < _MOST_IDS for id in ids):
            raise self.refuse("it must list stop_ids, numbers of tokens")
        return ids
