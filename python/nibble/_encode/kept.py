"""Programs of encoders that have a name: each is made once and kept in the user's cache folder.

An entry is a folder with model.pte, tokenizer.json and encoder.json, whose name has a hash of all that it is made from.
It is written completely or not at all, and checked when it is used: a damaged one is made again.
"""

import contextlib
import hashlib
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .._cache import alone, cache_folder, not_written
from .._native import NibbleError, lib
from .models import KNOWN

PROGRAM, TOKENIZER, FACTS = "model.pte", "tokenizer.json", "encoder.json"
# Modules that decide what a program is, beside its own.
_SOURCES = ("program", "make", "models", "../_export", "../_quantize")
_NEEDED = ("torch", "executorch", "torchao", "safetensors")


def folder_of(name: str, precision: str, normalize: bool = True) -> Path:
    """The entry of this model, made if it is not there: with vectors of length one, or means over the tokens."""
    result = "direction" if normalize else "mean"
    kind = f"{name}-{precision}" if normalize else f"{name}-{precision}-mean"
    folder = cache_folder() / "encoders" / f"{kind}-{_key(name, precision)}"
    if _is_whole(folder):
        return folder
    try:
        with alone(folder):
            # Another process may have made it meanwhile.
            if not _is_whole(folder):
                _make(name, precision, result, folder)
    except OSError as error:
        raise not_written(folder, error) from None
    return folder


def _key(name: str, precision: str) -> str:
    known = KNOWN[name]
    made_from = {
        "nibble": lib.nibble_version().decode(),
        "sizes": [precision, known.max_length, known.facts],
        "packages": {package: _version(package) for package in (*_NEEDED, known.package)},
        "files": [_digest(known.folder / file) for file in (known.weights, known.tokenizer)],
        "sources": [_digest(Path(__file__).parent / f"{module}.py") for module in (name, *_SOURCES)],
    }
    return hashlib.sha256(json.dumps(made_from).encode()).hexdigest()[:16]


def _version(package: str) -> str | None:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(package)
    return None


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise NibbleError(f"'{path}' cannot be read: {error.strerror}", "io") from None


def _is_whole(folder: Path) -> bool:
    try:
        digests = json.loads((folder / FACTS).read_text())["sha256"]
        return all(_digest(folder / file) == digests[file] for file in (PROGRAM, TOKENIZER))
    except (OSError, ValueError, KeyError, TypeError, NibbleError):
        return False


def _make(name: str, precision: str, result: str, folder: Path) -> None:
    known = KNOWN[name]
    if missing := [package for package in _NEEDED if _version(package) is None]:
        raise NibbleError(
            f"the program of {name} is not in '{folder.parent}', and making it needs packages that are not installed: "
            f"{', '.join(missing)}",
            "unsupported",
        )
    if folder.exists():
        print(f"nibble: '{folder}' is damaged and is made again", file=sys.stderr)
    print(
        f"nibble: making the {precision} program of {name}: once, about {known.seconds} s on two cores", file=sys.stderr
    )
    start = time.monotonic()
    # Those that hold the lock are alone, so what is there of this name was left by one that died.
    new = folder.with_suffix(".part")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    try:
        _export(name, precision, result, new / PROGRAM)
        (new / TOKENIZER).write_text(known.tokenizer_text(), encoding="utf-8")
        digests = {file: _digest(new / file) for file in (PROGRAM, TOKENIZER)}
        (new / FACTS).write_text(json.dumps(known.facts | {"sha256": digests}, indent=1))
        shutil.rmtree(folder, ignore_errors=True)
        new.rename(folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    print(f"nibble: made in {time.monotonic() - start:.0f} s, kept in '{folder.parent}'", file=sys.stderr)


def _export(name: str, precision: str, result: str, path: Path) -> None:
    """In a process of its own: the exporter takes much memory, and says much that nobody can act on."""
    command = [sys.executable, "-m", "nibble._encode.make", name, precision, result, str(path)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(part for part in sys.path if part)}
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said, text=True, env=environment
        )
        try:
            for line in process.stdout:
                print(f"nibble:   {line.rstrip()}", file=sys.stderr)
            process.wait()
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
        if process.returncode != 0:
            said.seek(0)
            last = said.read().decode(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
            raise NibbleError(f"making the program of {name} failed: {last[0]}", "unsupported")
