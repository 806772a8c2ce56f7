"""nibble generate: in a pipe, and in a terminal."""

import json
import re
import subprocess
import sys

import pytest

from conformance.command import COMMAND
from conformance.command import pytestmark as needs_command
from conformance.generate_cases import VOCABULARY
from support.terminal import SECONDS, Terminal
from support.tiny_model import make_folder

pytestmark = [needs_command, pytest.mark.host]


@pytest.fixture(scope="module")
def folder(programs, tmp_path_factory):
    from conformance.programs import ExportedProgram

    exported = ExportedProgram.get("llm_greedy", programs)
    # No token ends a text: a random model would stop anywhere.
    return make_folder(tmp_path_factory.mktemp("tiny") / "model", exported.path, VOCABULARY, stop_ids=[])


def generate(*arguments, text: str | None = None) -> subprocess.CompletedProcess:
    command = [COMMAND, "generate", *map(str, arguments)]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=SECONDS)


def in_terminal(*arguments) -> Terminal:
    return Terminal(COMMAND, "generate", *arguments)


def test_an_answer_comes_through_a_pipe(folder):
    done = generate(folder, "hello", "--max-tokens", 12)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("\n")
    again = generate(folder, "--max-tokens", 12, text="hello")
    assert again.stdout == done.stdout


def test_options_of_load_reach_the_program(folder):
    done = generate(folder, "hello", "--max-nodes", 1)
    assert done.returncode == 1
    assert "nodes, but the option max_nodes allows 1" in done.stderr


def test_what_is_noted_at_load_is_a_sentence(folder, tmp_path):
    tuning = tmp_path / "tuning.json"
    of = {"device": "another", "driver": "", "engine": "", "nibble": "0.0.1"}
    tuning.write_text(json.dumps({"tunings": [of | {"choices": [{"choice": "product", "variant": "tile"}]}]}))
    done = generate(folder, "hello", "--max-tokens", 1, "--tuning", tuning)
    assert done.returncode == 0
    assert done.stderr.startswith("nibble: the tuning is ignored: it is for another")
    assert done.stderr.count("\n") == 1


def test_json_has_text_tokens_usage_and_figures(folder):
    done = generate(folder, "hello", "--max-tokens", 6, "--json", "--logprobs", 2, "--temperature", 0.7, "--seed", 5)
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert len(report["ids"]) == report["usage"]["completion_tokens"] == 6
    assert report["finish_reason"] == "length"
    assert report["seed"] == 5
    assert [len(one["top"]) for one in report["logprobs"]] == [2] * 6
    assert [one["id"] for one in report["logprobs"]] == report["ids"]
    assert report["stats"]["time_to_first_token_ms"] > 0


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["nowhere", "hello"], 1, "'nowhere' is neither a folder nor a program"),
        (["FOLDER", "hello", "--top-p", 3], 1, "top_p is 3"),
        (["FOLDER", "hello", "--max-tokens", 0], 1, "max_tokens is 0, but it must be at least 1"),
        (["FOLDER", "hello", "--json-schema", "missing.json"], 1, "'missing.json' cannot be read"),
        (
            ["FOLDER", "hello", "--regex", "("],
            1,
            "regex cannot be used: the pattern '(' cannot be read: unclosed group",
        ),
        (["FOLDER", "x " * 400], 1, "tokens, but the context holds 256"),
        (["FOLDER", "hello", "--device", "no such"], 1, "no such"),
        (["FOLDER", "hello", "--temperature", "warm"], 2, "invalid float value"),
        (["FOLDER", "hello", "--chat"], 2, "--chat takes no prompt"),
        ([], 2, "MODEL"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(folder, arguments, code, sentence):
    done = generate(*(folder if word == "FOLDER" else word for word in arguments))
    assert done.returncode == code
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert code == 2 or done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_a_reader_that_goes_away_is_no_failure(folder):
    command = f"'{COMMAND}' generate '{folder}' hello --max-tokens 100 | head -c 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=SECONDS)
    assert "Traceback" not in done.stderr


def test_a_chat_answers_remembers_and_forgets(folder):
    with in_terminal(folder, "--max-tokens", 8, "--stats") as terminal:
        terminal.wait_for("> ")
        terminal.write("one\n")
        terminal.wait_for(r"\(0 cached\)")
        terminal.wait_for("> ")
        terminal.write("two\n")
        cached = terminal.wait_for(r"\((\d+) cached\)")
        assert int(re.findall(r"\((\d+) cached\)", cached)[0]) > 0
        terminal.write("/reset\n")
        terminal.wait_for("> ")
        terminal.write("one\n")
        terminal.wait_for(r"\(0 cached\)")
        terminal.write("/nonsense\n")
        terminal.wait_for("/reset forgets")
        terminal.write("/quit\n")
        assert terminal.process.wait(SECONDS) == 0


def test_ctrl_c_ends_an_answer_keeps_what_was_written_and_the_chat_goes_on(folder, tmp_path):
    with in_terminal(folder, "--stats") as terminal:

        def interrupted_turn(line: str) -> tuple[int, int]:
            """Tokens of the prompt, and how many of them were known."""
            terminal.write(f"{line}\n")
            terminal.wait_for(r"\r\n.")  # some of the answer
            terminal.interrupt()
            said = terminal.wait_for(r"prompt \d+ tokens \(\d+ cached\)")
            terminal.wait_for("> ")
            tokens, cached = re.findall(r"prompt (\d+) tokens \((\d+) cached\)", said)[-1]
            return int(tokens), int(cached)

        terminal.wait_for("> ")
        first, _ = interrupted_turn("go on")
        terminal.write(f"/save {tmp_path / 'chat.json'}\n")
        terminal.wait_for("> ")
        messages = json.loads((tmp_path / "chat.json").read_text())["messages"]
        assert [message["role"] for message in messages] == ["user", "assistant"]
        assert messages[1]["content"]
        # The answer is a part of the conversation, so the next prompt begins with the whole of the first.
        assert interrupted_turn("again")[1] >= first
        terminal.interrupt_prompt("Ctrl-D or /quit ends the chat")
        # Before readline has the terminal, Ctrl-D would be the end of an empty line.
        terminal.wait_for("> ")
        terminal.write("\x04")
        assert terminal.process.wait(SECONDS) == 0


def test_ctrl_c_ends_a_single_answer_with_130(folder):
    with in_terminal(folder, "hello") as terminal:
        terminal.wait_for(r"\S+")
        terminal.interrupt()
        assert terminal.process.wait(SECONDS) == 130


def test_a_file_that_cannot_be_read_is_no_result_that_cannot_be_written():
    work = "from nibble._commands.terminal import guard; guard(lambda: open('/nowhere/file').close())"
    done = subprocess.run([sys.executable, "-c", work], capture_output=True, text=True)
    assert done.stderr == "nibble: '/nowhere/file' cannot be used: No such file or directory\n"


def test_help_names_the_settings():
    done = generate("--help")
    assert done.returncode == 0
    for flag in ("--temperature", "--top-p", "--json-schema", "--system", "--stop", "--chat"):
        assert flag in done.stdout
