"""The one table of programs: what the exporter is given, and what the tests run and compare."""

from conformance import (
    attention_cases,
    channel_cases,
    convolution_cases,
    depthwise_cases,
    elementwise_cases,
    embedding_cases,
    generate_cases,
    limits_cases,
    linear_cases,
    llm_cases,
    long_cases,
    memory_cases,
    minilm_cases,
    move_cases,
    offset_cases,
    op_cases,
    passes_cases,
    quant_cases,
    rows_cases,
    sample_cases,
)

ALL = [
    *embedding_cases.SMALL,
    *op_cases.ALL,
    *rows_cases.ALL,
    *elementwise_cases.ALL,
    *linear_cases.ALL,
    *offset_cases.ALL,
    *memory_cases.ALL,
    *move_cases.ALL,
    *attention_cases.ALL,
    *convolution_cases.ALL,
    *depthwise_cases.ALL,
    *sample_cases.ALL,
    *channel_cases.ALL,
    *quant_cases.ALL,
    *passes_cases.ALL,
    *limits_cases.ALL,
    *long_cases.ALL,
    *embedding_cases.LARGE,
    *llm_cases.EVERYDAY,
    *generate_cases.ALL,
]
CASES = {case.name: case for case in ALL}
# These are exported for the full suite, and where they are asked for.
SLOW = {case.name: case for case in (*llm_cases.SLOW, minilm_cases.MINILM)}
