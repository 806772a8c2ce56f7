"""An encoder in a folder, as nibble.Encoder takes it: the sum of a table's rows for the tokens of a text."""

from pathlib import Path

import numpy as np

from support.tiny_model import make_tokenizer
from support.vk00 import Blob

SIZE, WIDTH, BATCH, LENGTH = 262, 8, 4, 64
TABLE = np.random.default_rng(5).standard_normal((SIZE, WIDTH)).astype(np.float32)


def make_encoder(folder: Path) -> Path:
    folder.mkdir()
    (folder / "model.pte").write_bytes(_program().pte(dynamic=True))
    make_tokenizer(SIZE).save(str(folder / "tokenizer.json"))
    return folder


def _program() -> Blob:
    b = Blob()
    ids, mask = b.tensor("int32", [BATCH, LENGTH], staging="int64"), b.tensor("float32", [BATCH, LENGTH])
    rows, kept = b.tensor("float32", [BATCH, LENGTH, WIDTH]), b.tensor("float32", [BATCH, LENGTH, WIDTH])
    column, out = b.tensor("float32", [BATCH, LENGTH, 1]), b.tensor("float32", [BATCH, WIDTH])
    no = b.boolean(False)
    b.op("aten.embedding.default", [b.constant(TABLE), ids, b.integer(-1), no, no, rows])
    b.op("aten.unsqueeze_copy.default", [mask, b.integer(2), column])
    b.op("aten.mul.Tensor", [rows, column, kept])
    b.op("aten.sum.dim_IntList", [kept, b.ints([1]), no, b.null(), out])
    b.inputs, b.outputs = [ids, mask], [out]
    return b
