"""The option candidates: the largest logits of the last token come back beside the program's own outputs."""

import numpy as np
import pytest

import nibble
from support.vk00 import Blob


def negated(path, shape: list[int], dtype: str = "float32"):
    b = Blob()
    x, y = b.tensor(dtype, shape), b.tensor(dtype, shape)
    b.op("aten.neg.default", [x, y])
    b.inputs, b.outputs = [x], [y]
    path.write_bytes(b.pte(dynamic=True))
    return path


def largest(row: np.ndarray, count: int) -> np.ndarray:
    """Of equal ones those with smaller ids come first."""
    return np.argsort(-row.astype(np.float64), kind="stable")[:count]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_candidates_are_the_largest_of_the_last_token(tmp_path, dtype):
    width, count = 5003, 50
    model = nibble.load(negated(tmp_path / "model.pte", [1, 6, width], dtype), candidates=count)
    random = np.random.default_rng(7)
    for tokens in (6, 1, 3):
        logits = random.standard_normal((1, tokens, width)).astype(dtype) * 4
        every, values, ids, total = model.run(-logits)
        row = logits[0, -1]
        expected = largest(row, count)
        np.testing.assert_array_equal(every, logits)
        np.testing.assert_array_equal(ids, expected)
        np.testing.assert_array_equal(values, row[expected].astype(np.float32))
        sums = np.exp(row.astype(np.float64) - row.max()).sum()
        np.testing.assert_allclose(total, [sums], rtol=2.0**-17)


def test_a_program_without_logits_has_no_candidates(tmp_path):
    path = negated(tmp_path / "model.pte", [2, 3, 8])
    with pytest.raises(nibble.NibbleError, match="no output of the program is float logits of one text"):
        nibble.load(path, candidates=4)
    with pytest.raises(nibble.NibbleError, match="candidates is 1025, but the most is 1024"):
        nibble.load(path, candidates=1025)
