"""Embeddings of the stock exporter on the device."""

import numpy as np
import pytest

from conformance import embedding_cases
from conformance.programs import OnExecutorch, OnNibble, every_route


@every_route(embedding_cases.SMALL)
def test_embedding_gives_what_torch_gives(name, route, program):
    exported = program(name)
    exported.check_calls(exported.open(route))


@every_route(embedding_cases.LARGE)
def test_large_embedding_gives_what_torch_gives(name, route, program):
    exported = program(name)
    exported.check_calls(exported.open(route))


@pytest.mark.parametrize("shard_bytes", [24576, 24600, 30000, 81599, 81600])
def test_any_shard_size_gives_the_same(shard_bytes, program):
    # A row is 48 bytes of weights and as many of scales, and there are 1700.
    exported = program("q4_dynamic_length")
    exported.check_calls(OnNibble(exported.path, shard_bytes))


def test_lower_limit_makes_more_buffers(program):
    path = program("q4_dynamic_length").path
    whole = OnNibble(path)
    with_whole = whole.model.device.live_objects
    sharded = OnNibble(path, 24576)
    after = sharded.model.device.live_objects
    again = OnNibble(path)
    # Four shards each of the weights and the scales, in place of one.
    assert (after - with_whole) - (again.model.device.live_objects - after) >= 5


def test_lengths_in_any_order(program):
    exported = program("q4_mean")
    calls = exported.calls()
    sessions = [exported.open("executorch"), exported.open("nibble")]
    order = np.random.default_rng(0).permutation(len(calls) * 3) % len(calls)
    for session in sessions:
        for call in order:
            inputs, expected = calls[call]
            exported.check(session.run(*inputs), expected, f", call {call}")


def test_two_programs_at_once(program):
    names = ("q4_dynamic_length", "q4_mean", "embedding_dynamic")
    loaded = [(exported, exported.calls(), OnExecutorch(exported.path)) for exported in map(program, names)]
    loaded += [(exported, exported.calls(), OnNibble(exported.path)) for exported in map(program, names)]
    for turn in range(5):
        for exported, calls, session in loaded:
            inputs, expected = calls[turn]
            exported.check(session.run(*inputs), expected, f", call {turn}")


def test_same_program_twice(program):
    exported = program("q4_dynamic_length")
    first, second = exported.open("executorch"), exported.open("executorch")
    for inputs, expected in exported.calls():
        exported.check(second.run(*inputs), expected)
        exported.check(first.run(*inputs), expected)
    del first
    exported.check_calls(second)
