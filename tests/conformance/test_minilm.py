"""A real sentence encoder in 4 bits, line by line."""

import numpy as np
import pytest
import torch

from conformance import minilm_cases
from conformance.case import as_arrays
from conformance.programs import ROUTES


@pytest.fixture(scope="module")
def vectors() -> dict[str, np.ndarray]:
    """What eager torch makes of every line, in 4 bits and in float32."""
    ids, mask = minilm_cases.example().tokenize(minilm_cases.text())
    with torch.no_grad():
        return {
            "quantized": minilm_cases.quantized_eager()(ids, mask).numpy(),
            "full": minilm_cases.full_model()(ids, mask).numpy(),
        }


def cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a * b).sum(1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("case", minilm_cases.ALL, ids=lambda case: case.name)
def test_every_line_has_the_direction_that_torch_gives(case, route, program, vectors, record_property):
    session = program(case.name).open(route)
    lines = minilm_cases.text()
    found = np.concatenate(
        [
            session.run(*as_arrays(minilm_cases.example().tokenize(lines[start : start + case.batch])))[0]
            for start in range(0, len(lines), case.batch)
        ]
    )
    assert found.shape == vectors["full"].shape
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, 0, 1e-5)
    assert cosines(found, vectors["quantized"]).min() > 0.9999
    to_full = cosines(found, vectors["full"])
    record_property("cosine_to_float32", f"mean {to_full.mean():.4f}, least {to_full.min():.4f}")
    print(f"cosine to float32: mean {to_full.mean():.4f}, least {to_full.min():.4f}")
    assert to_full.min() > 0.8


def test_padding_changes_nothing(program):
    session = program("minilm_single").open("nibble")
    ids, mask = as_arrays(minilm_cases.example().tokenize([minilm_cases.text()[7]]))
    (alone,) = session.run(ids, mask)
    (padded,) = session.run(np.pad(ids, ((0, 0), (0, 9))), np.pad(mask, ((0, 0), (0, 9))))
    np.testing.assert_allclose(padded, alone, 0, 1e-5)
