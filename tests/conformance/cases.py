"""The one table of programs: what the exporter is given, and what the tests run and compare."""

from conformance import (
    attention_cases,
    elementwise_cases,
    embedding_cases,
    memory_cases,
    move_cases,
    op_cases,
    rows_cases,
)

ALL = [
    *embedding_cases.SMALL,
    *op_cases.ALL,
    *rows_cases.ALL,
    *elementwise_cases.ALL,
    *memory_cases.ALL,
    *move_cases.ALL,
    *attention_cases.ALL,
    *embedding_cases.LARGE,
]
CASES = {case.name: case for case in ALL}
