"""Clients that go away, take too long, or do not read."""

import json

import pytest

from nibble._serve.served import ServedText
from support.serving import Running, Wire, wait_for

CHAT = "/v1/chat/completions"
# It would take thousands of steps.
LONG = {"model": "tiny", "messages": [{"role": "user", "content": "a tale"}], "n": 16, "temperature": 0.5}
SHORT = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 3, "temperature": 0}


def last_request(running, seen: int) -> dict:
    wait_for(lambda: len(running.logs) > seen)
    return running.logs[seen]


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_stops_its_request_within_a_step(served, stream):
    scheduler, seen = served.server.scheduler, len(served.logs)
    before = scheduler.steps
    wire = Wire(served, CHAT, {**LONG, "stream": stream})
    wait_for(lambda: scheduler.steps > before + 3)
    wire.leave()
    logged = last_request(served, seen)
    assert logged["cancelled"] == "client_gone"
    assert logged["steps"] < 5000
    assert (scheduler.running, served.text().pool.in_use) == (0, 0)
    assert scheduler.steps_after_cancel <= 1
    assert served.post(CHAT, SHORT).status == 200


def test_a_session_that_was_stopped_keeps_what_it_computed(served):
    asked = {**LONG, "messages": [{"role": "user", "content": "z" * 500}], "n": 1, "stream": True}
    wire = Wire(served, CHAT, asked)
    wire.read_until(b'"delta":{"content":"')
    wire.leave()
    wait_for(lambda: served.text().pool.in_use == 0)
    usage = served.post(CHAT, {**asked, "stream": False, "max_tokens": 1}).json["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] == usage["prompt_tokens"] - 1


@pytest.fixture(scope="module")
def hasty(folder):
    with Running([ServedText("tiny", str(folder), 2)], limits={"seconds": 1}, send_buffer=4096) as running:
        yield running


def test_a_request_that_takes_too_long_is_an_error_whole_or_in_mid_stream(hasty):
    answer = hasty.post(CHAT, LONG)
    assert (answer.status, answer.json["error"]["code"]) == (504, "timeout")
    assert "longer than 1 seconds" in answer.json["error"]["message"]
    *chunks, last = [line for line in hasty.post(CHAT, {**LONG, "stream": True}).body.decode().split("\n\n") if line]
    assert chunks
    assert json.loads(last.removeprefix("data: "))["error"]["code"] == "timeout"
    assert hasty.post(CHAT, SHORT).status == 200
    assert hasty.text().pool.in_use == 0


def test_readers_that_do_not_read_stop_nobody(folder):
    # The log-probabilities make an answer of many bytes, which no buffer on the way holds.
    heavy = {**LONG, "n": 1, "temperature": 0, "max_tokens": 150, "stream": True, "logprobs": True, "top_logprobs": 20}
    with Running([ServedText("tiny", str(folder), 2)], send_buffer=4096) as running:
        wanted = running.post(CHAT, {**heavy, "stream": False}).json["choices"][0]["message"]["content"]
        wires = [Wire(running, CHAT, heavy, receive_buffer=4096) for _ in range(4)]
        scheduler = running.server.scheduler
        for _ in range(3):
            assert running.post(CHAT, SHORT).status == 200
        wait_for(lambda: scheduler.running == scheduler.waiting == 0)
        # Nobody has read anything, but all is computed, and the sessions are free.
        assert len([line for line in running.logs if line.get("stream")]) == 0
        for wire in wires:
            body = wire.read_all().decode().split("\r\n\r\n", 1)[1]
            deltas = [json.loads(line[line.index("{") :]) for line in body.splitlines() if '"delta"' in line]
            assert "".join(one["choices"][0]["delta"].get("content", "") for one in deltas) == wanted
            assert "data: [DONE]" in body
