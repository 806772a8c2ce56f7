"""A folder as `nibble import` writes it, around a tiny program: a byte-level tokenizer and a chat template."""

import itertools
import json
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

SPECIAL = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
TEMPLATE = (
    "{% for message in messages %}{% if message.role not in ('system', 'user', 'assistant') %}"
    "{{ raise_exception('there is no role ' + message.role) }}{% endif %}"
    "<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def make_tokenizer(size: int) -> Tokenizer:
    """Every byte, pairs of letters, and the special ones at the end."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    pairs = itertools.product("abcdefghijklmnopqrstuvwxyz", repeat=2)
    merges = list(itertools.islice(pairs, size - len(letters) - len(SPECIAL)))
    words = [*letters, *("".join(pair) for pair in merges)]
    tokenizer = Tokenizer(models.BPE({word: id for id, word in enumerate(words)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in SPECIAL])
    return tokenizer


def make_folder(folder: Path, program: Path, size: int, **facts) -> Path:
    folder.mkdir(parents=True)
    (folder / "model.pte").symlink_to(program.resolve())
    make_tokenizer(size).save(str(folder / "tokenizer.json"))
    facts = {"format": 1, "name": "tiny", "stop_ids": [size - 2], "chat_template": TEMPLATE, **facts}
    (folder / "generation.json").write_text(json.dumps(facts))
    return folder
