"""A server with a tiny model and an encoder, for all tests of this folder. The adapter is chosen as for conformance."""

import os
from pathlib import Path

import pytest

from conformance.conftest import device_name, pytest_configure  # noqa: F401

ROOT = Path(__file__).resolve().parents[2]
SESSIONS = 4
# Clients would send it.
os.environ.pop("OPENAI_API_KEY", None)


@pytest.fixture(scope="session")
def folder() -> Path:
    from support import served_model

    return served_model.make(ROOT / "build" / "serve")


@pytest.fixture(scope="session")
def served(folder):
    from nibble._serve.served import ServedEncoder, ServedText
    from support.serving import Running, wait_for

    with Running([ServedText("tiny", str(folder), SESSIONS), ServedEncoder("words", "wordllama")]) as running:
        yield running
        # Whatever the tests did, nothing is left of it.
        pool, scheduler = running.text().pool, running.server.scheduler
        wait_for(lambda: scheduler.admitted == 0)
        assert (pool.in_use, scheduler.running, scheduler.waiting, scheduler.admitted) == (0, 0, 0, 0)
        assert scheduler.steps_after_cancel <= 1
