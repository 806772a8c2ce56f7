"""What the web tests of text generation compare with: a tiny model's folder, the tokens that eager torch and the native
library give, and tokenizers with the ids that the library `tokenizers` gives for texts."""

import json
import shutil
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

import nibble
from conformance.generate_cases import PROMPT, VOCABULARY
from conformance.llm_case import MOST
from conformance.programs import ExportedProgram
from nibble._gguf._tokenizer import Kind, read_text
from support.tiny_model import SPECIAL, make_folder

ROOT = Path(__file__).resolve().parents[2]

# By their names in JavaScript.
SETTINGS = [
    {"temperature": 1.0, "topP": 0.9, "topK": 50, "seed": 7},
    {"temperature": 1.3, "seed": 3},  # without truncation: all logits
    {"temperature": 0.7, "minP": 0.1, "repetitionPenalty": 1.3, "repetitionWindow": 16, "seed": 2**63 + 5},
    {"temperature": 0.9, "topP": 0.5, "presencePenalty": 0.4, "frequencyPenalty": 0.2, "seed": 1},
    {"repetitionPenalty": 1.8, "logitBias": {"3": 2.5, "40": -4}},
]
TEXTS: list[str] = json.loads((ROOT / "tests" / "web" / "texts.json").read_text(encoding="utf-8"))


def write_generation(programs: Path, out: Path) -> None:
    folder = out / "generate"
    shutil.rmtree(folder, ignore_errors=True)
    exported = ExportedProgram.get("llm_greedy", programs)
    tiny = make_folder(folder / "tiny", exported.path, VOCABULARY)
    (folder / "golden.json").write_text(json.dumps({"vocabulary": VOCABULARY, **golden(exported, tiny)}))
    write_tokenizers(folder / "tokenizers", tiny / "tokenizer.json")


def golden(exported: ExportedProgram, folder: Path) -> dict:
    calls = exported.calls("torch")
    chunks = -(-PROMPT // MOST)
    prompt = [int(token) for (tokens, _), _ in calls[:chunks] for token in tokens[0]]
    tokens = [int(np.asarray(result[0][0]).argmax()) for _, result in calls[chunks - 1 :]]
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Grüße 😀"}]
    sampled = []
    with nibble.LanguageModel(folder) as model:
        for settings in SETTINGS:
            native = {snake(name): value for name, value in settings.items()}
            if "logit_bias" in native:
                native["logit_bias"] = {int(id): bias for id, bias in native["logit_bias"].items()}
            generation = model.generate(prompt, max_tokens=40, stop_ids=[], logprobs=True, top_logprobs=2, **native)
            pieces = list(generation)
            logprobs = [one.logprob for piece in pieces for one in piece.logprobs]
            seed = {"seed": str(settings["seed"])} if "seed" in settings else {}
            sampled.append({"settings": settings | seed, "ids": generation.ids, "logprobs": logprobs})
        chat = {"messages": messages, "ids": model.tokens_of(messages)}
    return {"prompt": prompt, "tokens": tokens, "chunk": MOST, "sampled": sampled, "chat": chat}


def snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def write_tokenizers(folder: Path, tiny: Path) -> None:
    """The tiny model's, one for each rule by which text is cut, and that of SmolLM2 if it is there."""
    folder.mkdir()
    found = {"tiny": Tokenizer.from_file(str(tiny))}
    for rule in ("gpt-2", "smollm", "qwen2", "llama-bpe"):
        found[rule] = byte_level(rule)
    found["sentence_piece"] = sentence_piece()
    smollm2 = ROOT / "build" / "smollm2" / "tokenizer.json"
    if smollm2.exists():
        found["smollm2"] = Tokenizer.from_file(str(smollm2))
    for name, tokenizer in found.items():
        tokenizer.save(str(folder / f"{name}.json"))
    pairs = {
        name: [[text, tokenizer.encode(text, add_special_tokens=False).ids] for text in TEXTS]
        for name, tokenizer in found.items()
    }
    (folder / "ids.json").write_text(json.dumps(pairs))


class Described:
    """As much of a GGUF file as a tokenizer is made from."""

    def __init__(self, **facts):
        self.facts = {f"tokenizer.ggml.{name}": value for name, value in facts.items()}

    def get(self, key: str, _kind: type, default=None):
        return self.facts.get(key, default)

    def index(self, key: str, _count: int) -> int | None:
        return self.facts.get(key)


def learn(cut: pre_tokenizers.PreTokenizer, alphabet: list[str]) -> tuple[list[str], list[str]]:
    """Tokens and merges, learnt from what is at hand."""
    learning = Tokenizer(models.BPE())
    learning.pre_tokenizer = cut
    trainer = trainers.BpeTrainer(vocab_size=2000, initial_alphabet=alphabet, show_progress=False)
    learning.train_from_iterator([(ROOT / "docs" / "design.md").read_text(), *TEXTS[:6]], trainer)
    model = json.loads(learning.to_str())["model"]
    return sorted(model["vocab"], key=model["vocab"].get), [" ".join(pair) for pair in model["merges"]]


def byte_level(rule: str) -> Tokenizer:
    """As the import makes them, with a rule by which text is cut."""
    tokens, merges = learn(pre_tokenizers.ByteLevel(add_prefix_space=False), pre_tokenizers.ByteLevel.alphabet())
    kinds = [Kind.NORMAL] * len(tokens) + [Kind.CONTROL] * len(SPECIAL)
    tokens = [*tokens, *SPECIAL]
    return made(model="gpt2", pre=rule, tokens=tokens, token_type=kinds, merges=merges)


def sentence_piece() -> Tokenizer:
    words, _ = learn(pre_tokenizers.Metaspace(), ["\u2581"])
    tokens = ["<unk>", *SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256)), *words]
    kinds = [Kind.UNKNOWN, *[Kind.CONTROL] * len(SPECIAL), *[Kind.BYTE] * 256, *[Kind.NORMAL] * len(words)]
    scores = [-float(number) for number in range(len(tokens))]
    return made(model="llama", tokens=tokens, token_type=kinds, scores=scores, unknown_token_id=0)


def made(**facts) -> Tokenizer:
    return Tokenizer.from_str(read_text(Described(**facts)).json)
