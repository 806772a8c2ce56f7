"""Small build files for checks that should run in parallel, and only on what changed."""

import os
import subprocess
from pathlib import Path


def escape(path: str) -> str:
    """A path as a build line takes it."""
    return path.replace("$", "$$").replace(" ", "$ ").replace(":", "$:")


def run_ninja(folder: Path, lines: list[str]) -> int:
    """Writes FOLDER/build.ninja and builds everything in it, as far as it goes; as parallel as CMake would."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "build.ninja").write_text("\n".join(lines) + "\n")
    jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL")
    return subprocess.run(["ninja", "--quiet", "-C", folder, "-k", "0", *(["-j", jobs] if jobs else [])]).returncode
