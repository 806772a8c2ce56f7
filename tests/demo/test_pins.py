"""What pip is given: each package at one version, and only with the files that were seen when it was pinned."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOCKED = [
    "constraints.txt",
    "requirements-source.txt",
    "requirements-cpu.txt",
    "requirements-cuda.txt",
    "tests/batch/requirements.txt",
    "tests/models/requirements.txt",
    "tests/serve/requirements.txt",
    "examples/requirements-classify.txt",
    "examples/requirements-chat.txt",
    "bench/web/requirements.txt",
]


def lines_of(name: str) -> list[str]:
    text = (ROOT / name).read_text().replace("\\\n", " ")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


@pytest.mark.parametrize("name", LOCKED)
def test_every_package_has_a_version_and_hashes(name):
    for line in lines_of(name):
        assert re.fullmatch(r"[\w.-]+==[\w.+]+( ; [^\\]+?)?( +--hash=sha256:[0-9a-f]{64})+", line), line


def test_what_is_wanted_is_locked_at_the_same_version():
    locked = {line.split()[0] for name in LOCKED[:2] for line in lines_of(name)}
    assert set(lines_of("requirements.txt")) <= locked


def test_pip_takes_only_what_is_locked():
    for name in ("scripts/setup.sh", "bench/web/run"):
        for call in re.findall(r"-m pip install[^\n]*", (ROOT / name).read_text()):
            # Nibble itself is built from this folder.
            assert "--require-hashes" in call or call.endswith("--no-build-isolation --no-deps --verbose . || return 1")
