"""A real chat model, SmolLM2-135M-Instruct: slow, and only where ./run --chat or ./test full has imported it."""

from pathlib import Path

import pytest

import nibble

FOLDER = Path(__file__).resolve().parents[2] / "build" / "smollm2"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (FOLDER / "generation.json").exists(), reason="SmolLM2 is not imported: ./run --chat does it"
    ),
]
QUESTION = "What is the capital of France?"


@pytest.fixture(scope="module")
def model():
    with nibble.LanguageModel(FOLDER) as loaded:
        yield loaded


def test_it_knows_the_capital_of_france(model):
    generation = model.generate(QUESTION)
    assert "Paris" in generation.run()
    assert generation.finish_reason == "stop"
    assert "<|im_end|>" not in generation.text


def test_the_stock_runner_gives_the_same_tokens(model):
    runner_module = pytest.importorskip("executorch.extension.llm.runner")
    prompt = "<|im_start|>user\nTell me about the sea.<|im_end|>\n<|im_start|>assistant\n"
    generation = model.generate(prompt, raw=True, max_tokens=64)
    text = generation.run()
    runner = runner_module.TextLLMRunner(str(FOLDER / "model.pte"), str(FOLDER / "tokenizer.json"))
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
