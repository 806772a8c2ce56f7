"""Bodies that are almost right: whatever comes, the answer is no failure of the server."""

import json
import os
import random
import time

import pytest

from nibble._serve.served import ServedEncoder, ServedText
from support.mutate import cut, mutate
from support.serving import Running

CHAT, COMPLETE, EMBED = "/v1/chat/completions", "/v1/completions", "/v1/embeddings"
USER = {"role": "user", "content": "hi"}
TOOL = {
    "type": "function",
    "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": {"enum": [1]}}}},
}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
SCHEMA = {"type": "object", "properties": {"x": {"type": "boolean"}}, "required": ["x"]}
CHATS = [
    {"model": "tiny", "messages": [USER], "temperature": 0.5, "top_p": 0.9, "top_k": 5, "min_p": 0.1, "seed": 3},
    {"model": "tiny", "messages": [USER], "n": 2, "user": "me", "modalities": ["text"]},
    {"model": "tiny", "messages": [USER], "stream": True, "stream_options": {"include_usage": True}, "stop": ["a"]},
    {"model": "tiny", "messages": [USER], "logprobs": True, "top_logprobs": 3, "logit_bias": {"5": 1}, "max_tokens": 3},
    {"model": "tiny", "messages": [USER], "tools": [TOOL], "tool_choice": "auto", "parallel_tool_calls": False},
    {"model": "tiny", "messages": [USER, {"role": "assistant", "tool_calls": [CALL]},
     {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "ok"}]}], "max_completion_tokens": 4},
    {"model": "tiny", "messages": [{"role": "developer", "content": "x"}, USER],
     "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA}}},
    {"model": "tiny", "messages": [USER], "presence_penalty": 1, "frequency_penalty": -1, "repetition_penalty": 1.1},
]  # fmt: skip
COMPLETIONS = [
    {"model": "tiny", "prompt": "a", "max_tokens": 3, "echo": True, "n": 2},
    {"model": "tiny", "prompt": [[1, 2], [3]], "logprobs": 2, "stream": True},
]
EMBEDDINGS = [
    {"model": "words", "input": ["a", "b"], "encoding_format": "base64"},
    {"model": "words", "input": [[5, 6]], "dimensions": 256},
]
ALL = [(CHAT, CHATS), (COMPLETE, COMPLETIONS), (EMBED, EMBEDDINGS)]
EVERYTHING = [body for _, bodies in ALL for body in bodies]


@pytest.fixture(scope="module")
def small(folder):
    models = [ServedText("tiny", str(folder), 2, max_tokens=6), ServedEncoder("words", "wordllama")]
    with Running(models, limits={"choices": 3}) as running:
        yield running


def test_the_bodies_are_right_before_they_are_changed(small):
    for path, bodies in ALL:
        for body in bodies:
            assert small.post(path, body).status == 200, body


@pytest.mark.parametrize(
    ("count", "seconds"), [(400, 0), pytest.param(0, 300, marks=pytest.mark.slow)], ids=["short", "long"]
)
def test_no_body_makes_the_server_fail(small, count, seconds):
    if seconds and os.environ.get("NIBBLE_TEST_ADAPTER") == "swiftshader":
        pytest.skip("bodies are read in the same way on every adapter")
    # Every day the same ones.
    seed = int(time.time()) if seconds else 1
    end, number, seen = time.monotonic() + seconds, 0, {}
    while number < count or time.monotonic() < end:
        dice = random.Random(f"{seed} {number}")
        path, bodies = dice.choice(ALL)
        data = cut(dice, mutate(dice, dice.choice(bodies), EVERYTHING))
        answer = small.post(path, data)
        seen[answer.status] = seen.get(answer.status, 0) + 1
        assert answer.status < 500, (seed, number, data[:2000], answer.body)
        assert b'"code":"internal"' not in answer.body, (seed, number, data[:2000])
        if answer.status != 200:
            message = json.loads(answer.body)["error"]["message"]
            assert message, (seed, number)
            assert "\n" not in message, (seed, number, message)
        number += 1
    assert {200, 400} <= seen.keys()
    assert not [line for line in small.logs if line["level"] == "error"]
    print(f"{number} inputs, {seen}")
