"""Every variant of every kernel, forced: the results are the same."""

import json

import pytest

import nibble
from conformance.command import NO_GPU, fail, pytestmark, succeed  # noqa: F401
from conformance.programs import OnNibble
from conformance.variants import FULL, Chooser, every_variant, program_names, programs_by_size, usual_variants

# What devices differ in as far as variants depend on it.
DEVICES = [
    {"kind": kind, "subgroups": True, "max_workgroup_invocations": 1024, "max_workgroup_size_x": 1024}
    | {"max_workgroup_bytes": 32768}
    for kind in ("cpu", "discrete")
]


@pytest.fixture(scope="module")
def choosers(tmp_path_factory) -> list[Chooser]:
    """For the device that is here, and for others that have more."""
    folder = tmp_path_factory.mktemp("profiles")
    (here, *_) = json.loads(succeed("devices", "--json"))
    made = []
    for index, changes in enumerate([{}, *DEVICES]):
        path = folder / f"{index}.json"
        path.write_text(json.dumps(here | changes))
        made.append(Chooser(path))
    return made


@pytest.fixture(scope="module")
def sorted_programs(programs, tmp_path_factory):
    return programs_by_size(programs, tmp_path_factory.mktemp("built"))


# Every day, Node runs them on the second adapter (tests/web/export_cases.py says which), with the web's executor.
@pytest.mark.host
@pytest.mark.parametrize(("choice", "variant"), usual_variants())
def test_forced_variant_gives_what_torch_gives(choice, variant, choosers, sorted_programs):
    here, *others = choosers
    program = here.find(sorted_programs, choice, variant)
    if program is None:
        elsewhere = any(chooser.find(sorted_programs, choice, variant) for chooser in others)
        assert elsewhere, f"no program of the suite takes {choice}={variant} on any device"
        pytest.skip(f"{choice}={variant} is not right on this device")
    program.check_calls(OnNibble(program.path, variants={choice: variant}))


# Program by program: the device keeps the kernels that a variant does not change, and compiling takes most of the time.
@pytest.mark.host
@pytest.mark.parametrize("name", program_names() if FULL else [])
def test_program_gives_the_same_with_every_variant(name, choosers, sorted_programs):
    (program,) = (program for program in sorted_programs if program.name == name)
    for choice, variant in choosers[0].changes(program):
        try:
            program.check_calls(OnNibble(program.path, variants={choice: variant}))
        except (AssertionError, nibble.NibbleError) as error:
            raise AssertionError(f"{choice}={variant}: {error}") from error


def test_list_of_variants_is_for_people_too():
    lines = succeed("ops", "--variants", env=NO_GPU).splitlines()
    assert lines[0].split() == ["choice", "variant", "why"]
    assert [tuple(line.split()[:2]) for line in lines[1:]] == every_variant()
    assert all(len(line.split()) > 2 for line in lines), "each has a reason"


# `nibble inspect` tells what would be chosen, without a GPU.


def chosen(path, *options) -> dict:
    """The variants of a call of `linear_q4_dynamic`, by choice."""
    facts = json.loads(succeed("inspect", path, "--json", "--variants", *options, env=NO_GPU))
    return {made["choice"]: made["chosen"] for made in facts["plan"]["step"]["variants"]}


@pytest.fixture
def linear(program):
    return program("linear_q4_dynamic").path


def test_inspect_tells_choices_with_their_reasons(linear):
    reasons = {
        (one["choice"], one["variant"]): one["why"]
        for one in json.loads(succeed("ops", "--variants", "--json", env=NO_GPU))
    }
    text = succeed("inspect", linear, "--variants", env=NO_GPU)
    for choice, variant in chosen(linear).items():
        assert f"{choice}  " in text
        assert f"{variant}  " in text
        assert reasons[choice, variant] in text
    assert "\nvariants\n" not in succeed("inspect", linear, env=NO_GPU)


def test_inspect_replays_a_forced_variant(linear):
    names = [variant for choice, variant in every_variant() if choice == "product"]
    taken = {name for name in names if chosen(linear, "--variant", f"product={name}")["product"] == name}
    assert len(taken) > 2
    assert "the variants are " + ", ".join(names) in fail("inspect", linear, "--variant", "product=none", env=NO_GPU)
    assert "there is no choice 'none'" in fail("inspect", linear, "--variant", "none=tile", env=NO_GPU)


def test_tuning_chooses_in_its_range_alone(linear, tmp_path):
    most = json.loads(succeed("inspect", linear, "--json", env=NO_GPU))["inputs"][0]["shape"]
    few = "0=" + ",".join(map(str, [*most[:-2], 2, most[-1]]))
    usual, other = chosen(linear)["product"], chosen(linear, "--input-shape", few)["product"]
    name = next(name for choice, name in every_variant() if choice == "product" and name not in (usual, other))
    path = tmp_path / "tuning.json"
    path.write_text(json.dumps({"choices": [{"choice": "product", "variant": name, "rows": [2, 2]}]}))
    assert chosen(linear, "--tuning", path, "--input-shape", few)["product"] == name
    assert chosen(linear, "--tuning", path)["product"] == usual
