"""nibble serve, as a process."""

import json
import re
import signal
import socket
import subprocess
import tomllib
import urllib.request
from pathlib import Path

import pytest

from conformance.command import COMMAND
from conformance.command import pytestmark as needs_command
from nibble._commands.serve import _parser
from support.served_model import endless
from support.serving import Wire

pytestmark = needs_command


class Served:
    """The command, from when it listens on."""

    def __init__(self, *arguments: object):
        command = [COMMAND, "serve", "--port", "0", *map(str, arguments)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        found = re.search(r"(http://127\.0\.0\.1:\d+)/v1", line)
        assert found, line + self.process.stderr.read()
        self.line, self.url = line, found[1]

    def end(self, number: int) -> list[dict]:
        """Its log, when it has ended."""
        self.process.send_signal(number)
        _, logged = self.process.communicate(timeout=120)
        assert self.process.returncode == 0, logged
        return [json.loads(line) for line in logged.splitlines()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_it_serves_and_ends_in_order(folder, number):
    served = Served(f"chat={folder}", "wordllama", "--drain", 1)
    assert served.line.startswith("chat, wordllama on ")
    with urllib.request.urlopen(f"{served.url}/v1/models", timeout=60) as answer:
        assert [model["id"] for model in json.load(answer)["data"]] == ["chat", "wordllama"]
    wire = Wire(served, "/v1/chat/completions", endless("chat", stream=True))
    wire.read_until(b'"delta":{"content":"')
    logged = served.end(number)
    assert b'"code":"shutting_down"' in wire.read_all()
    assert [line["event"] for line in logged] == ["listening", "request", "request", "stopped"]
    assert all("a tale" not in str(line) for line in logged)


def refused(*arguments: object) -> tuple[int, str]:
    done = subprocess.run([COMMAND, "serve", *map(str, arguments)], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stderr


def test_what_cannot_be_served_is_one_sentence(folder, tmp_path):
    assert refused("nothing") == (2, "nibble: 'nothing' is neither a folder nor one of minilm, wordllama\n")
    assert refused(folder, folder)[1].startswith("nibble: two models are called 'tiny'; give one another name")
    assert refused(f"a b={folder}")[1].startswith("nibble: 'a b' cannot be the name of a model")
    assert refused(folder, "--session-memory", 1)[1].startswith("nibble: 4 sessions of 'tiny' take ")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        wanted = f"nibble: cannot listen on 127.0.0.1, port {port}: Address already in use\n"
        assert refused(folder, "--port", port) == (1, wanted)
    assert refused(folder, "--port", 70000)[1].startswith("nibble: --port must be from 0 to 65535, but is 70000\n")
    assert refused(folder, "--sessions", 0)[0] == 2
    for model in (folder, "wordllama"):
        assert "nodes, but the option max_nodes allows 1" in refused(model, "--max-nodes", 1)[1]
    code, sentence = refused(tmp_path)
    assert (code, "cannot be read" in sentence, sentence.count("\n")) == (1, True, 1)


@pytest.mark.parametrize("extra", ["serve", "ray"])
def test_what_is_installed_with_it_runs_language_models_and_encoders(extra):
    with open(Path(__file__).resolve().parents[2] / "pyproject.toml", "rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    assert "nibble-runtime[generate,encode]" in extras[extra]


def test_help_names_every_option():
    done = subprocess.run([COMMAND, "serve", "--help"], capture_output=True, text=True, check=True)
    described = re.split(r"\noptions:\n", done.stdout)[1]
    options = [option for action in _parser()._actions for option in action.option_strings]
    assert len(options) > 15
    for option in options:
        assert re.search(rf"^  (-\w, )?{option}\b.* .*\w", described, re.MULTILINE), option
    assert all(action.help for action in _parser()._actions if action.option_strings)
    listed = subprocess.run([COMMAND, "--help"], capture_output=True, text=True, check=True)
    assert "serve" in listed.stdout
