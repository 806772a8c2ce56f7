"""A real sentence encoder in 4 bits, line by line."""

import numpy as np
import pytest
import torch

from conformance import minilm_cases
from conformance.case import as_arrays
from conformance.programs import ROUTES

# Exporting it takes most of a minute, and 200 lines some more.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def vectors() -> dict[str, np.ndarray]:
    """What eager torch makes of every line, in 4 bits and in float32."""
    ids, mask = minilm_cases.tokenize(minilm_cases.text())
    with torch.no_grad():
        return {
            "quantized": minilm_cases.quantized_eager()(ids, mask).numpy(),
            "full": minilm_cases.full_model()(ids, mask).numpy(),
        }


def cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a * b).sum(1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))


def check_lines(session, batch: int, vectors: dict[str, np.ndarray], step: int = 1) -> str:
    """Every line's direction against eager torch in 4 bits; gives the same against float32, in words."""
    lines = minilm_cases.text()[::step]
    found = np.concatenate(
        [
            session.run(*as_arrays(minilm_cases.tokenize(lines[start : start + batch])))[0]
            for start in range(0, len(lines), batch)
        ]
    )
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, 0, 1e-5)
    assert cosines(found, vectors["quantized"][::step]).min() > 0.9999
    to_full = cosines(found, vectors["full"][::step])
    assert to_full.min() > 0.8
    return f"mean {to_full.mean():.4f}, least {to_full.min():.4f}"


def test_every_line_has_the_direction_that_torch_gives(program, vectors, record_property):
    report = check_lines(program("minilm").open("nibble"), 1, vectors)
    print("cosine to float32:", report)
    record_property("cosine_to_float32", report)


def test_lines_through_executorch(program, vectors):
    check_lines(program("minilm").open("executorch"), 1, vectors, step=8)


@pytest.mark.parametrize("route", ROUTES)
def test_padded_batches_give_the_same_directions(route, program, vectors):
    check_lines(program("minilm").open(route), 4, vectors)


def test_padding_changes_nothing(program):
    session = program("minilm").open("nibble")
    ids, mask = as_arrays(minilm_cases.tokenize([minilm_cases.text()[7]]))
    (alone,) = session.run(ids, mask)
    (padded,) = session.run(np.pad(ids, ((0, 0), (0, 9))), np.pad(mask, ((0, 0), (0, 9))))
    np.testing.assert_allclose(padded, alone, 0, 1e-5)
