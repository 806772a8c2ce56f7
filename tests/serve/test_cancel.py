"""Clients that go away, take too long, or do not read."""

import json

import pytest

from nibble._serve.errors import ApiError
from nibble._serve.served import ServedText
from nibble._serve.unread import Unread, Waiting
from support.served_model import endless
from support.serving import Running, Wire, wait_for

CHAT = "/v1/chat/completions"
SHORT = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 3, "temperature": 0}


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_stops_its_request_within_a_step(served, stream):
    scheduler, seen = served.server.scheduler, len(served.logs)
    before = scheduler.steps
    wire = Wire(served, CHAT, endless(stream=stream))
    wait_for(lambda: scheduler.steps > before + 3)
    wire.leave()
    wait_for(lambda: any("cancelled" in line for line in served.logs[seen:]))
    (logged,) = [line for line in served.logs[seen:] if "cancelled" in line]
    assert logged["cancelled"] == "client_gone"
    assert logged["steps"] < 15000
    assert (scheduler.running, served.text().pool.in_use) == (0, 0)
    assert scheduler.steps_after_cancel <= 1
    assert served.post(CHAT, SHORT).status == 200


def test_a_session_that_was_stopped_keeps_what_it_computed(served):
    asked = endless(messages=[{"role": "user", "content": "z" * 500}], n=1, stream=True)
    wire = Wire(served, CHAT, asked)
    wire.read_until(b'"delta":{"content":"')
    wire.leave()
    wait_for(lambda: served.text().pool.in_use == 0)
    usage = served.post(CHAT, {**asked, "stream": False, "max_tokens": 1}).json["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] == usage["prompt_tokens"] - 1


def test_tokens_that_were_made_before_a_client_left_are_counted(served):
    tokens, seen = served.server.metrics.tokens, len(served.logs)
    before = tokens["tiny", "generated"]
    wire = Wire(served, CHAT, endless(n=1, stream=True))
    wire.read_until(b'"delta":{"content":"')
    wire.leave()
    wait_for(lambda: any("cancelled" in line for line in served.logs[seen:]))
    (logged,) = [line for line in served.logs[seen:] if "cancelled" in line]
    assert logged["generated_tokens"] > 0
    assert tokens["tiny", "generated"] == before + logged["generated_tokens"]


def test_a_request_that_takes_too_long_is_an_error(folder):
    with Running([ServedText("tiny", str(folder), 2)], limits={"seconds": 1}) as running:
        answer = running.post(CHAT, endless())
        assert (answer.status, answer.json["error"]["code"]) == (504, "timeout")
        assert "longer than 1 seconds" in answer.json["error"]["message"]
        scheduler = running.server.scheduler
        wait_for(lambda: scheduler.admitted == 0)
        assert (scheduler.running, running.text().pool.in_use) == (0, 0)


def test_an_error_in_mid_stream_is_its_last_event(served):
    wire = Wire(served, CHAT, endless(stream=True))
    wire.read_until(b'"delta":{"content":"')
    ((work, _),) = served.server.scheduler._running
    served.server.scheduler.cancel(work, ApiError(504, "it is late", code="timeout"))
    *_, last = [line for line in wire.read_all().decode().splitlines() if line.startswith("data: ")]
    error = {"message": "it is late", "type": "server_error", "param": None, "code": "timeout"}
    assert json.loads(last.removeprefix("data: ")) == {"error": error}


def test_readers_that_do_not_read_stop_nobody(folder):
    # The log-probabilities make an answer of many bytes, which no buffer on the way holds.
    heavy = endless(n=1, max_tokens=150, stream=True, logprobs=True, top_logprobs=20)
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


def test_answers_that_nobody_reads_are_bounded_together(folder):
    heavy = endless(n=1, max_tokens=150, stream=True, logprobs=True, top_logprobs=20)
    # Each of them alone has room: 150 tokens with 21 log-probabilities take about a megabyte.
    with Running([ServedText("tiny", str(folder), 2)], send_buffer=4096, limits={"unread_bytes": 2 << 20}) as running:
        wires = [Wire(running, CHAT, heavy, receive_buffer=4096) for _ in range(6)]
        scheduler = running.server.scheduler
        wait_for(lambda: len([line for line in wires if b"200 OK" in line.seen or line.read_some()]) == len(wires))
        wait_for(lambda: scheduler.running == scheduler.waiting == 0)
        assert running.post(CHAT, SHORT).status == 200
        bodies = [wire.read_all().decode() for wire in wires]
        given_up = [body for body in bodies if '"code":"slow_reader"' in body]
        assert 0 < len(given_up) < len(wires)
        for body in bodies:
            last = [line for line in body.splitlines() if line.startswith("data: ")][-1]
            if body not in given_up:
                assert last == "data: [DONE]"
                continue
            error = json.loads(last.removeprefix("data: "))["error"]
            assert "the answers that wait to be read take more than 2097152 bytes; this one" in error["message"]
        assert running.server.unread.bytes == 0


def test_who_has_read_nothing_for_longest_loses_its_answer_and_who_reads_does_not(monkeypatch):
    now, lost = 0.0, []
    monkeypatch.setattr("nibble._serve.unread.time.monotonic", lambda: now)
    unread = Unread(100)
    slow, steady, new = (
        Waiting(unread, lambda why, name=name: lost.append((name, why))) for name in ("slow", "steady", "new")
    )
    slow.add(40)
    steady.add(50)
    now = 9.0
    steady.take(10)
    now = 10.0
    new.add(30)
    ((name, why),) = lost
    assert (name, why.status, why.code) == ("slow", 503, "slow_reader")
    assert unread.bytes == 70
    for one in (slow, steady, new):
        one.end()
    assert unread.bytes == 0


def test_a_whole_answer_that_is_not_read_is_cut_where_there_is_no_room(folder):
    heavy = endless(n=4, max_tokens=150, logprobs=True, top_logprobs=20)
    with Running([ServedText("tiny", str(folder), 2)], send_buffer=4096) as running:
        first = Wire(running, CHAT, heavy, receive_buffer=4096)
        first.read_until(b"200 OK")
        whole = Wire(running, CHAT, heavy)
        body = whole.read_all().split(b"\r\n\r\n", 1)[1]
        assert json.loads(body)["usage"]["completion_tokens"] == 600
        running.server.unread._most = len(body) * 3 // 2
        second = Wire(running, CHAT, heavy, receive_buffer=4096)
        second.read_until(b"200 OK")
        wait_for(lambda: any("slowest" in line.get("error", "") for line in running.logs))
        assert len(first.read_all()) < len(body)
        assert json.loads(second.read_all().split(b"\r\n\r\n", 1)[1])["usage"]["completion_tokens"] == 600
