"""What an import leaves: the program, tokenizer.json and generation.json, which says what they were made from."""

import contextlib
import functools
import hashlib
import importlib.metadata
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .._cache import cache_folder
from .._files import check_writable
from .._native import NibbleError, lib

FORMAT = 1
FACTS, TOKENIZER, PROGRAM = "generation.json", "tokenizer.json", "model.pte"


def places(out: str | os.PathLike) -> tuple[Path, str]:
    """The folder, and the program's name in it."""
    out = Path(out)
    return (out.parent, out.name) if out.suffix == ".pte" else (out, PROGRAM)


def kept(made_from: dict[str, Any]) -> tuple[Path, str]:
    """The same in the cache: by what the program is made from, whatever the file is called."""
    key = hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()[:16]
    return cache_folder() / "gguf" / key, PROGRAM


def check_alone(folder: Path, program: str) -> None:
    """A folder has one tokenizer and one list of facts, so it can hold one program."""
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError, RecursionError):
        other = json.loads((folder / FACTS).read_text())["program"]
        if other != program and (folder / other).is_file():
            raise NibbleError(
                f"'{folder}' holds '{other}' with its tokenizer: import '{program}' into another folder",
                "invalid_argument",
            )


@functools.cache
def versions() -> dict[str, str]:
    """Of all that a program is made by; "importer" stands for the code of this package."""
    package = Path(__file__).parent
    code = hashlib.sha256()
    for path in sorted([*package.glob("*.py"), *package.parent.glob("*.py")]):
        code.update(path.name.encode() + path.read_bytes())
    names = ("executorch", "torch", "gguf", "tokenizers")
    return {
        "nibble": lib.nibble_version().decode(),
        "importer": code.hexdigest()[:16],
        **{name: importlib.metadata.version(name) for name in names},
    }


def found(folder: Path, wanted: dict[str, Any]) -> dict[str, Any] | None:
    """The facts of an import that is there already, if it is whole and they include `wanted`."""
    try:
        facts = json.loads((folder / FACTS).read_text())
        whole = (folder / TOKENIZER).is_file() and (folder / facts["program"]).stat().st_size == facts["program_bytes"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    same = isinstance(facts, dict) and all(facts.get(key) == value for key, value in wanted.items())
    return facts if whole and same else None


def write(folder: Path, facts: dict[str, Any], tokenizer: str, save: Callable[[Path], None]) -> dict[str, Any]:
    """Writes all files, or none: each beside its place, then renamed, the facts last."""
    parts = {name: folder / f"{name}.{os.getpid()}.part" for name in (facts["program"], TOKENIZER, FACTS)}
    try:
        save(parts[facts["program"]])
        facts = {**facts, "program_bytes": parts[facts["program"]].stat().st_size}
        parts[TOKENIZER].write_text(tokenizer)
        parts[FACTS].write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n")
        # Until the new facts are there, nothing says that files of two imports belong together.
        (folder / FACTS).unlink(missing_ok=True)
        for name, part in parts.items():
            part.replace(folder / name)
    except OSError as error:
        raise NibbleError(f"'{folder}' cannot be written: {error.strerror}", "io") from None
    finally:
        for part in parts.values():
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
    return facts


@contextlib.contextmanager
def made(folder: Path, program: str):
    """Makes the folder, in which files can be written; takes it back if nothing comes into it."""
    missing = [path for path in [folder, *folder.parents] if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise NibbleError(f"'{folder}' cannot be made: {error.strerror}", "io") from None
    try:
        for name in (program, TOKENIZER, FACTS):
            check_writable(folder / name)
        yield
    finally:
        with contextlib.suppress(OSError):  # it is not empty
            for path in missing:
                path.rmdir()
