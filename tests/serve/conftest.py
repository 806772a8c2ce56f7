"""A server with a tiny model and an encoder, for all tests of this folder. The adapter is chosen as for conformance."""

import os
from dataclasses import dataclass, field
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


def check_nothing_is_left(running, id: str) -> None:
    """Whatever the tests did."""
    from support.serving import wait_for

    pool, scheduler = running.text(id).pool, running.server.scheduler
    wait_for(lambda: scheduler.admitted == 0)
    assert (pool.in_use, scheduler.running, scheduler.waiting, scheduler.admitted) == (0, 0, 0, 0)
    assert scheduler.steps_after_cancel <= 1


@pytest.fixture(scope="session")
def served(folder):
    from nibble._serve.served import ServedEncoder, ServedText
    from support.serving import Running

    with Running([ServedText("tiny", str(folder), SESSIONS), ServedEncoder("words", "wordllama")]) as running:
        yield running
        check_nothing_is_left(running, "tiny")


@pytest.fixture(scope="session")
def smollm2():
    """A server with real models, where ./test full has imported them."""
    from nibble._serve.served import ServedEncoder, ServedText
    from support.needs import needs_smollm2
    from support.serving import Running

    with Running([ServedText("smollm2", str(needs_smollm2()), 2), ServedEncoder("minilm", "minilm")]) as running:
        yield running
        check_nothing_is_left(running, "smollm2")


@dataclass(frozen=True)
class Target:
    """What a client talks to."""

    url: str
    chat: str
    encoder: str
    width: int  # of the encoder's vectors
    question: str = "hi"
    answer: str = ""  # a part of what it says to the question; a tiny model's words mean nothing
    # So small a model does not think of a tool by itself, as the tiny one was made to.
    use_tool: dict = field(default_factory=dict)


@pytest.fixture(scope="session", params=["tiny", pytest.param("smollm2", marks=pytest.mark.slow)])
def target(request) -> Target:
    if request.param == "tiny":
        return Target(request.getfixturevalue("served").url, "tiny", "words", 256)
    must = {"tool_choice": "required", "parallel_tool_calls": False}
    url, question = request.getfixturevalue("smollm2").url, "What is the capital of France?"
    return Target(url, "smollm2", "minilm", 384, question, "Paris", must)
