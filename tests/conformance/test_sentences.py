"""Calls that fail, in the words that the desktop and the web share: the web's tests read the same file."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

import nibble

SENTENCES = json.loads((Path(__file__).parent / "sentences.json").read_text())


def make_input(dtype: str, shape: list[int], put=()) -> np.ndarray:
    """Zeros, and at these flat places something else."""
    array = np.zeros(math.prod(shape), dtype)
    for place, value in put:
        array[place] = int(value)
    return array.reshape(shape)


@pytest.mark.parametrize("case", SENTENCES, ids=[case["name"] for case in SENTENCES])
def test_wrong_call_says_this(case, program):
    session = nibble.load(program(case["program"]).path)
    with pytest.raises(nibble.NibbleError) as error:
        session.run(*(make_input(**one) for one in case["inputs"]))
    assert (error.value.code, str(error.value)) == (case["code"], case["message"])
