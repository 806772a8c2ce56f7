"""Attention of any shape by every kernel, tables in parts, and outputs that nothing computes."""

import pytest

from conformance.attention_blobs import rotated_into_caches
from conformance.blob_cases import build
from conformance.limits_blobs import embeddings_with_zero_points, values_that_go_out_as_they_are
from conformance.programs import ROUTES, OnNibble, check_built, open_built
from conformance.variants import every_variant

FORCED = [*(pair for pair in every_variant() if pair[0] == "attention"), ("attention_loads", "elements")]
SHAPES = ["sdpa_shapes", "sdpa_wider_masks", "sdpa_shapes_dynamic"]


# Each variant takes seconds to compile on the slower adapter, where every day Node runs it.
@pytest.mark.host
@pytest.mark.parametrize(("choice", "variant"), FORCED)
@pytest.mark.parametrize("name", SHAPES)
def test_attention_of_any_shape_is_right_by_every_variant(name, choice, variant, program):
    found = program(name)
    found.check_calls(OnNibble(found.path, variants={choice: variant}))


@pytest.mark.parametrize("route", ROUTES)
def test_outputs_may_be_inputs_constants_and_each_other(route, tmp_path):
    program = build(values_that_go_out_as_they_are, "values_that_go_out_as_they_are")
    check_built(open_built(program, tmp_path, route), program)


@pytest.mark.parametrize(("form", "size"), [(0, 16), (1, 16), (0, 6), (1, 6)])
def test_tables_in_parts_turn_what_goes_into_caches(form, size, tmp_path):
    program = build(lambda rng: rotated_into_caches(rng, 3, 1, size, form), "in_parts")
    path = tmp_path / "model.pte"
    path.write_bytes(program.pte())
    check_built(OnNibble(path, max_shard_bytes=160), program)


def test_zero_points_in_parts_go_with_their_rows(tmp_path):
    program = build(embeddings_with_zero_points, "embeddings_with_zero_points")
    path = tmp_path / "model.pte"
    path.write_bytes(program.pte())
    check_built(OnNibble(path, max_shard_bytes=32), program)
