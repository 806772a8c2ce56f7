"""Very many generations on one model."""

import gc

import numpy as np
import pytest

from conformance.generate_cases import VOCABULARY
from conformance.test_generate import NEVER, folder, model  # noqa: F401


@pytest.mark.slow
def test_a_thousand_generations_leave_nothing_behind(model):  # noqa: F811
    from support.resident import resident_bytes

    rng = np.random.default_rng(1)
    gc.collect()  # what other tests left
    objects, held, resident = model.device.live_objects, 0, 0
    sessions = [model.session() for _ in range(3)]
    for number in range(1000):
        session = sessions[number % 3]
        prompt = [int(token) for token in rng.integers(0, VOCABULARY, rng.integers(1, 60))]
        generation = session.generate(prompt, max_tokens=int(rng.integers(1, 30)), stop_ids=NEVER)
        stop_at = int(rng.integers(0, 40))
        if stop_at == 0:
            generation.cancel()
        for _ in generation:
            if len(generation.ids) >= stop_at:
                generation.cancel()
        if number == 50:  # what a session needs for each of its shapes is there
            held, resident = model.device.live_objects, resident_bytes()
    assert model.device.live_objects == held
    assert resident_bytes() <= 1.02 * resident
    for session in sessions:
        session.close()
    assert model.device.live_objects == objects
