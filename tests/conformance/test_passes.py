"""Graph rewrites: results are the same without each of them, and a call takes fewer dispatches with it."""

import json

import numpy as np
import pytest

import nibble
from conformance.test_cli import nibble as command

# A program in which each saves something, and the shape of its first input: a single token, or as in its first call.
PASSES = {
    "views": ("llm_4w_head_18", "0=1,1"),
    "round_inputs": ("llm_8da4w", "0=1,1"),
    "common_subexpressions": ("llm_8da4w", "0=1,1"),
    "dead_values": ("layer_norm_plain", "0={}"),
    "gate_up": ("llm_4w_head_18", "0=1,1"),
    "join_linears": ("llm_4w_head_18", "0=1,1"),
    "add_rms_norm": ("llm_qwen3_head_20", "0=1,1"),
    "rope_cache": ("llm_qwen3_head_20", "0=1,1"),
}


def dispatches(path, shape: str, *options: str) -> int:
    done = command("inspect", path, "--json", "--device", "0", "--shape", shape, *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["plan"]["step"]["dispatch_count"]


def test_all_passes_are_tested():
    assert [line.split()[0] for line in command("ops", "--passes").stdout.splitlines()] == list(PASSES)


@pytest.mark.parametrize("name", PASSES)
def test_pass_saves_dispatches(name, program):
    exported = program(PASSES[name][0])
    path, (first, *_) = exported.path, exported.calls()[0][0]
    shape = PASSES[name][1].format(",".join(map(str, first.shape)))
    assert dispatches(path, shape) < dispatches(path, shape, "--without-pass", name)


@pytest.mark.parametrize("name", PASSES)
def test_results_are_the_same_without_a_pass(name, program):
    exported = program(PASSES[name][0])
    with_all, without = nibble.load(exported.path), nibble.load(exported.path, without_passes=[name])
    for inputs, _ in exported.calls()[:12]:
        one, other = np.asarray(with_all.run(*inputs)), np.asarray(without.run(*inputs))
        # A rewrite may add in another order; a quantized activation may then fall to the next of 256 steps.
        np.testing.assert_allclose(one, other, 0, 2e-2 if "8da4w" in exported.case.name else 2e-5)


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
