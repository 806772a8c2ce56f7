"""The command `nibble import`, and the stock runner of language models with what it makes."""

import json
import os
import signal
import subprocess
import time

import pytest

from conformance.command import COMMAND, fail, hear_ctrl_c, nibble, pytestmark  # noqa: F401
from conformance.gguf_files import TinyModel, Type

MODEL = TinyModel(layers=1, types={"": Type.Q4_1, "token_embd": Type.Q8_0})


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return MODEL.write(tmp_path_factory.mktemp("import") / "tiny.gguf")


@pytest.fixture(scope="module")
def made(file):
    """Imports once: what the command gave."""
    out = file.parent / "out" / "tiny.pte"
    return out, nibble("import", file, "-o", out, "--context", "32", "--chunk", "8", "--json")


@pytest.mark.host
def test_program_and_what_goes_with_it_lie_in_one_folder(made):
    out, done = made
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert (facts["program"], facts["was_there"], facts["context_length"]) == (str(out), False, 32)
    assert sorted(path.name for path in out.parent.iterdir()) == ["generation.json", "tiny.pte", "tokenizer.json"]


@pytest.mark.host
def test_standard_error_has_steps_with_their_time_and_no_noise_of_libraries(made):
    lines = made[1].stderr.splitlines()
    assert [line.split(" s  ")[1].split()[0] for line in lines] == [
        "reading",
        "layer",
        "embedding",
        "loading",
        "tracing",
        "decomposing",
        "partitioning",
        "delegating",
        "serializing",
        "writing",
        "done",
    ]
    times = [float(line.split(" s  ")[0]) for line in lines]
    assert times == sorted(times)


@pytest.mark.host
def test_second_call_finds_the_first(made, file):
    again = nibble("import", file, "-o", made[0], "--context", "32", "--chunk", "8")
    assert again.returncode == 0
    assert "was there already" in again.stdout


@pytest.mark.host
@pytest.mark.parametrize(
    "arguments",
    [[], ["a.gguf"], ["a.gguf", "-o"], ["a.gguf", "-o", "b", "--context", "0"], ["a.gguf", "-o", "b", "--frobnicate"]],
    ids=" ".join,
)
def test_wrong_usage_is_code_2(arguments):
    assert "--help" in fail("import", *arguments, code=2)


@pytest.mark.host
def test_missing_file_is_one_sentence(tmp_path):
    done = nibble("import", tmp_path / "missing.gguf", "-o", tmp_path / "out")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("nibble: '")
    assert not (tmp_path / "out").exists()


@pytest.mark.host
def test_help_says_what_it_takes():
    done = nibble("import", "--help")
    assert done.returncode == 0
    assert all(word in done.stdout for word in ("--context", "--output", "Q4_1", ".gguf", "8 bits", "two tables"))


@pytest.mark.host
def test_interrupt_leaves_nothing_behind(file, tmp_path):
    command = [COMMAND, "import", str(file), "-o", str(tmp_path / "new" / "out"), "--context", "40"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=hear_ctrl_c)
    for line in process.stderr:
        if "decomposing" in line:
            break
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    rest = process.stderr.read()
    assert process.wait(timeout=120) == 130, rest
    assert rest.splitlines()[-1] == "nibble: stopped, and nothing is left behind"
    assert os.listdir(tmp_path) == []


@pytest.mark.host
def test_the_stock_runner_of_language_models_gives_the_same_tokens_and_names_of_figures(made):
    import nibble as package  # registers the backend

    runner_module = pytest.importorskip("executorch.extension.llm.runner")
    out, _ = made
    prompt, pieces, figures = "<|im_start|>the apple is in 1234 halls", [], []
    with package.LanguageModel(out) as model:
        generation = model.generate(prompt, raw=True, max_tokens=8)
        generation.run()
        expected = [model.tokenizer.name_of(id).replace("\u0120", " ") for id in generation.ids]
    runner = runner_module.TextLLMRunner(str(out), str(out.parent / "tokenizer.json"))
    config = runner_module.GenerationConfig(echo=False, max_new_tokens=8, temperature=0.0)
    runner.generate(prompt, config, pieces.append, lambda stats: figures.append(stats.to_json_string()))
    stopped = generation.finish_reason == "stop"  # the stock runner hands out the token that ends a text
    assert pieces[: len(expected)] == expected
    assert len(pieces) == len(expected) + stopped
    theirs = json.loads(figures[0])
    assert theirs.keys() <= generation.stats.keys()
    assert theirs["prompt_tokens"] == generation.stats["prompt_tokens"]
