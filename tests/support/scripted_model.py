"""A language model that says what it is told: the logits after a token are its row of a table."""

import itertools
from pathlib import Path

import numpy as np

from support.tiny_model import make_folder, make_tokenizer
from support.vk00 import Blob

SIZE = 262  # every byte, three pairs of letters and three special tokens
CHUNK, CONTEXT = 16, 256


class Script:
    """Tokens and the logits after each: all low, until it is told what follows."""

    def __init__(self):
        self.tokenizer = make_tokenizer(SIZE)
        self.table = np.tile(-1 - np.arange(SIZE, dtype=np.float32) / 1000, (SIZE, 1))

    def tokens(self, text: str) -> list[int]:
        return self.tokenizer.encode(text).ids

    def says(self, text: str) -> list[int]:
        """From the first token of the text on the model goes on with the others; each may be there once."""
        tokens = self.tokens(text)
        assert len(set(tokens)) == len(tokens)
        for token, following in itertools.pairwise(tokens):
            self.table[token, following] = 10
        return tokens

    def make(self, folder: Path, **facts) -> Path:
        program = folder.with_suffix(".pte")
        program.write_bytes(_program(self.table).pte(dynamic=True))
        return make_folder(folder, program, SIZE, **facts)


def _program(table: np.ndarray) -> Blob:
    b = Blob()
    tokens = b.tensor("int32", [1, CHUNK], staging="int64")
    place = b.tensor("int32", [1], staging="int64")

    def rows_of(values: np.ndarray) -> int:
        rows = b.tensor("float32", [1, CHUNK, values.shape[1]])
        no = b.boolean(False)
        b.op("aten.embedding.default", [b.constant(values), tokens, b.integer(-1), no, no, rows])
        return rows

    logits = rows_of(table)
    # A cache that nothing reads: its rows are the session's.
    keys = b.tensor("float32", [1, CHUNK, 1, 4])
    b.op("aten.unsqueeze_copy.default", [rows_of(np.ones((len(table), 4), np.float32)), b.integer(2), keys])
    cache = b.constant(np.zeros((1, CONTEXT, 1, 4), np.float32), mem_obj=0)
    start = b.symint()
    b.op("et_vk.select_as_symint.default", [place, b.integer(0), b.integer(0), start])
    b.op("update_cache.default", [keys, cache, start, cache])
    b.inputs, b.outputs = [tokens, place], [logits]
    return b
