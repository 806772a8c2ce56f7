"""What a test needs and may not be here: without it a test is left out, but not in ./test full, which installs all."""

import importlib
import os
from pathlib import Path
from types import ModuleType

import pytest

IS_FULL = bool(os.environ.get("NIBBLE_TEST_FULL"))


def needs(name: str) -> ModuleType:
    """The module of this name."""
    return importlib.import_module(name) if IS_FULL else pytest.importorskip(name)


def needs_file(path: Path, reason: str) -> Path:
    if not path.exists():
        (pytest.fail if IS_FULL else pytest.skip)(reason)
    return path


def needs_smollm2() -> Path:
    """The folder of the imported chat model."""
    folder = Path(__file__).resolve().parents[2] / "build" / "smollm2"
    return needs_file(folder / "generation.json", "SmolLM2 is not imported: ./run --chat does it").parent
