"""Dispatches that are cut into pieces of one workgroup: the results are the same, bit for bit."""

import json

import pytest

import nibble
from conformance.case import as_arrays
from conformance.command import NO_GPU, pytestmark, succeed  # noqa: F401
from conformance.programs import ExportedProgram
from conformance.variants import command_in_process, programs_by_size


def kernels_in_pieces(program: ExportedProgram) -> set[str]:
    told = command_in_process("inspect", program.path, "--json", "--plan", "--device", "0", "--max-batch-work", "1")
    # Nothing is told of a call whose shapes come from its data.
    step = json.loads(told)["plan"]["step"] or {"dispatches": []}
    return {dispatch["kernel"] for dispatch in step["dispatches"] if dispatch["first_group"] != 0}


def check_same(program: ExportedProgram) -> None:
    whole, pieces = nibble.load(program.path), nibble.load(program.path, max_batch_work=1)
    for number, (inputs, _) in enumerate(program.calls()[:4]):
        one, other = ([array.tobytes() for array in as_arrays(model.run(*inputs))] for model in (whole, pieces))
        assert one == other, f"{program.name}, call {number}"


@pytest.mark.host
def test_every_kernel_gives_the_same_in_pieces(programs, tmp_path):
    done = set()
    for program in programs_by_size(programs, tmp_path):
        kernels = kernels_in_pieces(program)
        if not kernels <= done:
            check_same(program)
        done |= kernels
    assert len(done) >= 40, f"in no program of the suite others than {done} have several workgroups"


@pytest.mark.host
def test_language_model_gives_the_same_in_pieces(program):
    check_same(program("llm_4w_head_18"))


def test_inspect_tells_pieces(program):
    path = program("linear_q4_dynamic").path
    assert " pieces, to dispatch " in succeed("inspect", path, "--plan", "--max-batch-work", "1", env=NO_GPU)
    assert " pieces, to dispatch " not in succeed("inspect", path, "--plan", env=NO_GPU)
