"""Attention past the end of its cache."""

import numpy as np
import pytest

from conformance.attention_blobs import step_by_step
from conformance.programs import ROUTES, check_built, open_built
from conformance.test_errors import error_of


@pytest.mark.parametrize("route", ROUTES)
def test_position_past_the_cache_is_named_and_the_next_call_is_right(route, tmp_path, capfd):
    # The last call sees positions that only a failed one could have written.
    built = step_by_step(np.random.default_rng(1), 1, 2, 1, 8, 64, "float32", [(8, 0), (8, 8), (8, 56)])
    session = open_built(built, tmp_path, route)
    rows = built.calls[0][0][1:]
    for start, sentence in (
        (60, "sdpa_with_kv_cache.default: start_pos 60 + 8 new positions reach past the cache's 64"),
        (65, "start_pos 65 + 8 new positions reach past the cache's 64"),
        (2**31 - 1, "start_pos 2147483647 + 8 new positions reach past the cache's 64"),
        (-1, "start_pos is -1, but it must not be negative"),
    ):
        assert sentence in error_of(session, [np.array([start]), *rows], capfd)
        check_built(session, built)
