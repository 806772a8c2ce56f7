"""Attention and rotary embedding on the device."""

import numpy as np
import pytest

from conformance import attention_cases
from conformance.attention_blobs import BUILDERS, step_by_step
from conformance.blob_cases import build
from conformance.programs import ROUTES, check_built, every_route, open_built
from conformance.test_errors import error_of


@every_route(attention_cases.ALL)
def test_program_gives_what_torch_gives(name, route, program):
    exported = program(name)
    exported.check_calls(exported.open(route))


# Nibble alone: what is compared is the kernels, and the other route is tested by the programs above.
@pytest.mark.parametrize("name", BUILDERS)
def test_built_program_gives_what_numpy_gives(name, tmp_path):
    program = build(BUILDERS[name], name)
    check_built(open_built(program, tmp_path), program)


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
