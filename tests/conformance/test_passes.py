"""Graph rewrites: results are the same without each of them, and a call takes fewer dispatches with it."""

import json

import numpy as np
import pytest

import nibble
from conformance import passes_cases
from conformance.blob_cases import build
from conformance.case import as_arrays
from conformance.command import nibble as command
from conformance.programs import ROUTES, check_built, every_route, everyday, open_built

# A program in which each saves something, and the shape of its first input: a single token, or as in its first call.
PASSES = {
    "views": ("llm_4w_head_18", "0=1,1"),
    "batch_norm": ("folded_norms", "0={}"),
    "round_inputs": ("llm_8da4w_static", "0=1,1"),
    "common_subexpressions": ("llm_8da4w_static", "0=1,1"),
    "quantize_pairs": ("bytes_through_floats", "0={}"),
    "offset_linears": ("offsets_parts", "0={}"),
    "dead_values": ("layer_norm_plain", "0={}"),
    "gate_up": ("llm_4w_head_18", "0=1,1"),
    "join_linears": ("llm_4w_head_18", "0=1,1"),
    "add_rms_norm": ("llm_qwen3_head_20", "0=1,1"),
    "rope_cache": ("llm_qwen3_head_20", "0=1,1"),
    "elementwise_chains": ("chain", "0={}"),
    "epilogues": ("epilogue", "0={}"),
}


@every_route(passes_cases.ALL)
def test_joined_ops_give_what_torch_gives(name, route, program):
    exported = program(name)
    exported.check_calls(exported.open(route))


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("name", everyday(passes_cases.BUILDERS))
def test_built_program_gives_what_numpy_gives(name, route, tmp_path):
    made = build(passes_cases.BUILDERS[name], name)
    check_built(open_built(made, tmp_path, route), made)


@pytest.mark.parametrize("name", [case.name for case in passes_cases.ALL])
@pytest.mark.host
def test_joined_ops_give_the_same_as_single_ones(name, program):
    exported = program(name)
    joined, single = (
        nibble.load(exported.path),
        nibble.load(exported.path, without_passes=["elementwise_chains", "epilogues"]),
    )
    for inputs, _ in exported.calls():
        for one, other in zip(as_arrays(joined.run(*inputs)), as_arrays(single.run(*inputs)), strict=True):
            # Where a product and a sum meet in one kernel, a compiler may round them once.
            np.testing.assert_allclose(one, other, 0, 2e-6 if one.dtype == np.float32 else 2e-3)


@pytest.fixture
def opened(program, tmp_path):
    """The path and the calls of a program, exported or built."""

    def get(name: str):
        if name not in passes_cases.BUILDERS:
            return program(name).path, program(name).calls()
        made = build(passes_cases.BUILDERS[name], name)
        (tmp_path / "model.pte").write_bytes(made.pte())
        return tmp_path / "model.pte", made.calls

    return get


def dispatches(path, shape: str, *options: str) -> int:
    done = command("inspect", path, "--json", "--device", "0", "--shape", shape, *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["plan"]["step"]["dispatch_count"]


def test_all_passes_are_tested():
    assert [line.split()[0] for line in command("ops", "--passes").stdout.splitlines()] == list(PASSES)


@pytest.mark.parametrize("name", PASSES)
def test_pass_saves_dispatches(name, opened):
    path, calls = opened(PASSES[name][0])
    first = calls[0][0][0]
    shape = PASSES[name][1].format(",".join(map(str, first.shape)))
    assert dispatches(path, shape) < dispatches(path, shape, "--without-pass", name)


@pytest.mark.parametrize("name", PASSES)
@pytest.mark.host
def test_results_are_the_same_without_a_pass(name, opened):
    path, calls = opened(PASSES[name][0])
    with_all, without = nibble.load(path), nibble.load(path, without_passes=[name])
    for inputs, _ in calls[:12]:
        for one, other in zip(as_arrays(with_all.run(*inputs)), as_arrays(without.run(*inputs)), strict=True):
            # A rewrite may add in another order; a quantized activation may then fall to the next of 256 steps.
            # The outputs of linears with offsets are in the hundreds.
            most = {"llm_8da4w_static": 2e-2, "offsets_parts": 1e-3}.get(PASSES[name][0], 2e-5)
            np.testing.assert_allclose(one, other, 0, most)


def test_layer_of_a_llama_takes_nine_dispatches_at_most(program):
    path = program("llm_4w_head_18").path
    # Embedding, two slices of the rotary tables, the last sum, the last token, its norm, the last linear.
    outside, layers = 7, 2
    assert dispatches(path, "0=1,1") <= outside + 9 * layers


def test_unknown_pass_is_named(program):
    with pytest.raises(nibble.NibbleError, match="there is no pass 'gate_down'; the passes are views, "):
        nibble.load(program("llm_4w_head_18").path, without_passes=["gate_down"])


def test_caches_in_half_precision_are_half_as_large_and_close(program):
    exported = program("llm_4w_head_18")
    session = nibble.load(exported.path, f16_cache=True)
    differences = []
    for inputs, (expected,) in exported.calls()[:24]:
        differences.append(np.abs(session.run(*inputs) - expected).max())
    assert 1e-6 < max(differences) < 1e-2
    states = []
    for options in ((), ("--f16-cache",)):
        done = command("inspect", exported.path, "--json", *options)
        states.append(json.loads(done.stdout)["plan"]["memory"]["states"])
    assert states[1] * 2 == states[0]
