"""The command `nibble`, called."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(os.environ.get("NIBBLE_PROGRAMS", ROOT / "build" / "programs"))
COMMAND = os.environ.get("NIBBLE_COMMAND") or shutil.which("nibble", path=str(Path(sys.executable).parent))

pytestmark = pytest.mark.skipif(COMMAND is None, reason="the command nibble is not installed beside this Python")

# Any call to the GPU fails.
NO_GPU = {"NIBBLE_WGPU_LIBRARY": os.devnull, "NIBBLE_ENGINE": "wgpu"}


def nibble(*arguments, env=None) -> subprocess.CompletedProcess:
    command = [COMMAND, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(env or {})}, timeout=300)


def succeed(*arguments, env=None) -> str:
    done = nibble(*arguments, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def fail(*arguments, code=1, env=None) -> str:
    """The one sentence of a failed run, or the lines about wrong usage."""
    done = nibble(*arguments, env=env)
    assert done.returncode == code, done.stderr
    assert done.stderr.startswith("nibble: ")
    assert done.stderr.count("\n") == code
    return done.stderr


def program(name: str) -> Path:
    path = PROGRAMS / name / "model.pte"
    if not path.exists():
        pytest.skip(f"{path} is not there: run tests/conformance/export_programs.py")
    return path


def given(name: str, call: int = 0) -> tuple[list, list[np.ndarray]]:
    """The --input options of a call, and what eager torch gives for it."""
    folder = program(name).parent
    facts = json.loads((folder / "case.json").read_text())
    inputs = [part for i in range(facts["inputs"]) for part in ("--input", folder / f"in{call}_{i}.npy")]
    return inputs, [np.load(folder / f"torch{call}_{i}.npy") for i in range(facts["outputs"])]


def save(path: Path, array) -> Path:
    np.save(path, array)
    return path


def hear_ctrl_c() -> None:
    """For what a test starts: jobs in a script's background ignore it, and so would their children."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
