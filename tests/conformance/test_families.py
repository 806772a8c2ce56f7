"""The families of ops, on the device: what the exporter makes, and what only a program built by hand has."""

import pytest

from conformance import (
    attention_blobs,
    attention_cases,
    channel_cases,
    elementwise_blobs,
    elementwise_cases,
    limits_blobs,
    limits_cases,
    quant_blobs,
    quant_cases,
    remainder_blobs,
    rows_blob_cases,
    rows_cases,
    sample_blob_cases,
    sample_cases,
    training_blobs,
)
from conformance.blob_cases import build
from conformance.programs import check_built, every_route, everyday, open_built

BUILDERS = (
    attention_blobs.BUILDERS
    | elementwise_blobs.BUILDERS
    | limits_blobs.BUILDERS
    | quant_blobs.BUILDERS
    | remainder_blobs.BUILDERS
    | rows_blob_cases.BUILDERS
    | sample_blob_cases.BUILDERS
    | training_blobs.BUILDERS
)
FAMILIES = (attention_cases, channel_cases, elementwise_cases, limits_cases, quant_cases, rows_cases, sample_cases)


@every_route([case for family in FAMILIES for case in family.ALL])
def test_program_gives_what_torch_gives(name, route, program):
    exported = program(name)
    exported.check_calls(exported.open(route))


# Nibble alone: what is compared is the kernels, and the other route is tested by the programs above.
@pytest.mark.parametrize("name", everyday(BUILDERS))
def test_built_program_gives_what_numpy_gives(name, tmp_path):
    program = build(BUILDERS[name], name)
    check_built(open_built(program, tmp_path), program)
