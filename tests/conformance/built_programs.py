"""All programs that are built by hand, as files."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from conformance import (
    attention_blobs,
    blob_cases,
    convolution_cases,
    elementwise_blobs,
    index_blobs,
    limits_blobs,
    move_blob_cases,
    passes_cases,
    quant_blobs,
    remainder_blobs,
    rows_blob_cases,
    sample_blob_cases,
    training_blobs,
)
from conformance.blob_cases import Built, build
from conformance.programs import check_built

FAMILIES = (
    attention_blobs,
    blob_cases,
    convolution_cases,
    elementwise_blobs,
    index_blobs,
    limits_blobs,
    move_blob_cases,
    passes_cases,
    quant_blobs,
    remainder_blobs,
    rows_blob_cases,
    sample_blob_cases,
    training_blobs,
)


@dataclass(frozen=True)
class BuiltProgram:
    """As an ExportedProgram."""

    built: Built
    folder: Path

    @property
    def name(self) -> str:
        return self.built.name

    @property
    def path(self) -> Path:
        return self.folder / "model.pte"

    def calls(self) -> list:
        return self.built.calls

    def check_calls(self, session) -> None:
        check_built(session, self.built)


def builders() -> dict:
    """What builds each program, by its name."""
    return {name: one for family in FAMILIES for name, one in family.BUILDERS.items()}


def build_all(folder: Path) -> Iterator[BuiltProgram]:
    for name, builder in builders().items():
        program = BuiltProgram(build(builder, name), folder / name)
        program.folder.mkdir(parents=True, exist_ok=True)
        program.path.write_bytes(program.built.pte())
        yield program
