"""./run --chat, as it is called: with SmolLM2, so slow."""

import json
import subprocess
from pathlib import Path

import pytest

from support.needs import needs_smollm2
from support.terminal import SECONDS, Terminal

pytestmark = [pytest.mark.slow, pytest.mark.host]
RUN = Path(__file__).resolve().parents[2] / "run"
QUESTION, ANSWER = "What is the capital of France?", "Paris"


@pytest.fixture(scope="module", autouse=True)
def imported():
    needs_smollm2()


def chat(*arguments: str, text: str | None = None) -> subprocess.CompletedProcess:
    given = {"stdin": subprocess.DEVNULL} if text is None else {"input": text}
    command = [RUN, "--chat", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * SECONDS, **given)
    assert done.returncode == 0, done.stderr
    return done


def test_a_chat_remembers_survives_ctrl_c_and_ends():
    with Terminal(RUN, "--chat", "--stats", "--max-tokens", "300") as terminal:
        terminal.wait_for("> ")
        terminal.write(f"{QUESTION}\n")
        terminal.wait_for(ANSWER)
        terminal.wait_for(r"\(0 cached\)")
        terminal.wait_for("> ")
        terminal.write("Tell me more about it.\n")
        terminal.wait_for(r"\r\n\w+ ")  # some of the answer
        terminal.interrupt()
        assert "(0 cached)" not in terminal.wait_for(r"\(\d+ cached\)")
        terminal.wait_for("> ")
        terminal.write("/quit\n")
        assert terminal.process.wait(SECONDS) == 0


@pytest.mark.parametrize("order", [("--chat", QUESTION), (QUESTION, "--chat")], ids=["first", "last"])
def test_a_question_is_answered_in_a_terminal(order):
    with Terminal(RUN, *order) as terminal:
        terminal.wait_for(ANSWER)
        assert terminal.process.wait(SECONDS) == 0


def test_the_answer_alone_goes_through_a_pipe():
    done = chat(QUESTION)
    assert ANSWER in done.stdout
    assert done.stdout.count("\n") == 1
    assert "build/smollm2/model.pte: " in done.stderr  # what the set-up has to say
    assert chat(text=QUESTION).stdout == done.stdout


def test_json_is_all_that_comes_out():
    report = json.loads(chat(QUESTION, "--json", "--seed", "3").stdout)
    assert ANSWER in report["text"]
    assert (report["finish_reason"], report["seed"]) == ("stop", 3)


def test_help_is_that_of_generating():
    shown = chat("--help").stdout
    assert all(word in shown for word in ("usage: nibble generate", "--temperature", "--json-schema"))
