"""ExecuTorch's stock runner of language models gives the tokens of nibble.generate, on every adapter."""

import itertools

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

import nibble  # registers the backend
from conformance.generate_cases import VOCABULARY
from support.needs import needs
from support.tiny_model import make_folder

# The runner gives a prompt in calls of 32 tokens, of which the stock exporter's program takes 31.
PROMPT = "the quick brown fox"
TOKENS = 64


def readable_tokenizer() -> Tokenizer:
    """Each token is a text of its own, in ASCII: the runner hands out texts, and takes none that is no UTF-8."""
    letters = [*map(chr, range(33, 127)), "\u0120"]
    merges = list(itertools.islice(itertools.product(letters[64:90], repeat=2), VOCABULARY - len(letters)))
    words = [*letters, *("".join(pair) for pair in merges)]
    tokenizer = Tokenizer(models.BPE({word: id for id, word in enumerate(words)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


@pytest.fixture
def folder(program, tmp_path):
    made = make_folder(tmp_path / "model", program("llm_greedy").path, VOCABULARY, stop_ids=[])
    readable_tokenizer().save(str(made / "tokenizer.json"))
    return made


def test_the_stock_runner_gives_the_same_tokens(folder):
    runners = needs("executorch.extension.llm.runner")
    with nibble.LanguageModel(folder) as model:
        generation = model.generate(PROMPT, raw=True, max_tokens=TOKENS)
        generation.run()
        wanted = [model.tokenizer.decode([id]) for id in generation.ids]
    assert len(wanted) == TOKENS
    assert len(set(generation.ids)) > 10
    runner, pieces = runners.TextLLMRunner(str(folder / "model.pte"), str(folder / "tokenizer.json")), []
    runner.generate(PROMPT, runners.GenerationConfig(echo=False, max_new_tokens=TOKENS, temperature=0.0), pieces.append)
    assert pieces == wanted
