"""Who may come in, and how much of anything."""

import socket

import pytest

from nibble._serve.chat_answer import ChatAnswer
from nibble._serve.completion_answer import CompletionAnswer
from nibble._serve.guard import is_loopback, names_of
from nibble._serve.served import ServedText
from support.served_model import endless
from support.serving import Running, Wire, wait_for

CHAT = "/v1/chat/completions"
SHORT = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 3, "temperature": 0}
ORIGIN = "http://page.example"


@pytest.fixture(scope="module")
def strict(folder):
    models = [ServedText("tiny", str(folder), 1, max_tokens=900)]
    limits = {"body_bytes": 2000, "body_seconds": 2, "requests": 4}
    with Running(models, limits=limits, key="sésame", origins=[ORIGIN], queue=1, logs_prompts=True) as running:
        yield running


def key(word: str) -> dict:
    return {"Authorization": f"Bearer {word}".encode().decode("latin-1")}


KEY = key("sésame")


def test_without_the_key_nobody_comes_in(strict):
    for headers in ({}, key("sesame"), key(""), {"Authorization": "sésame".encode().decode("latin-1")}):
        answer = strict.post(CHAT, SHORT, **headers)
        assert (answer.status, answer.json["error"]["code"]) == (401, "invalid_api_key")
        assert answer.json["error"]["type"] == "authentication_error"
    assert strict.get("/v1/models").status == strict.get("/metrics").status == 401
    assert strict.get("/health").status == strict.get("/").status == 200
    assert strict.post(CHAT, SHORT, **KEY).status == 200


def test_pages_of_that_origin_alone_may_read_answers(strict, served):
    answer = strict.post(CHAT, SHORT, **KEY, Origin=ORIGIN)
    assert answer.headers["access-control-allow-origin"] == ORIGIN
    assert strict.post(CHAT, SHORT, **KEY, Origin="http://other").headers["access-control-allow-origin"] is None
    assert served.post(CHAT, SHORT, Origin=ORIGIN).headers["access-control-allow-origin"] is None


def test_a_name_that_somebody_else_gave_this_machine_is_refused(served):
    answer = served.get("/v1/models", Host="evil.example")
    assert (answer.status, answer.json["error"]["message"]) == (421, "the server is not called 'evil.example'")
    assert served.get("/v1/models", Host="localhost:1").status == 200
    assert served.get("/v1/models", Host="[::1]:80").status == 200


@pytest.mark.parametrize(("host", "names"), [("127.0.0.2", []), ("0.0.0.0", ["models.example"])])
def test_names_are_checked_wherever_they_are_given_or_only_this_machine_can_call(folder, host, names):
    with Running([ServedText("tiny", str(folder), 1)], host=host, hosts=names) as running:
        assert running.get("/v1/models", Host="evil.example").status == 421
        for name in ("localhost", host, *names):
            assert running.get("/v1/models", Host=name).status == 200


def test_where_the_server_is_for_everybody_it_has_any_name():
    assert names_of("0.0.0.0", []) is names_of("192.0.2.1", []) is names_of("models.example", []) is None
    assert [is_loopback(host) for host in ("localhost", "::1", "127.8.9.1", "::", "10.0.0.1")] == [True] * 3 + [
        False
    ] * 2


def test_a_connection_is_kept_as_long_as_it_may_be_silent(served):
    wait_for(lambda: served.server._uvicorn is not None)
    assert served.server._uvicorn.config.timeout_keep_alive == served.server.settings.limits.body_seconds == 30


def test_a_body_that_is_too_long_or_too_slow_is_refused(strict):
    answer = strict.post(CHAT, {**SHORT, "user": "x" * 3000}, **KEY)
    assert answer.status == 413
    assert "longer than 2000 bytes" in answer.json["error"]["message"]
    wire = Wire(strict, CHAT, SHORT)  # without a key
    assert b"401" in wire.read_all().split(b"\r\n")[0]
    wire = Wire.__new__(Wire)
    wire.seen, wire.socket = b"", _half_a_request(strict)
    assert b"408" in wire.read_all().split(b"\r\n")[0]


def _half_a_request(running):
    host, port = running.url.removeprefix("http://").split(":")
    made = socket.create_connection((host, int(port)), timeout=60)
    head = f"POST {CHAT} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer sésame\r\nContent-Type: application/json\r\n"
    made.sendall(f"{head}Connection: close\r\nContent-Length: 100\r\n\r\n{{".encode())
    return made


def test_more_requests_than_may_wait_are_told_to_come_again(folder):
    with Running([ServedText("tiny", str(folder), 1)], queue=1, limits={"requests": 3}) as running:
        scheduler = running.server.scheduler
        wires = [Wire(running, CHAT, endless(stream=True)) for _ in range(2)]
        wait_for(lambda: scheduler.admitted == 2)
        answer = running.post(CHAT, SHORT)
        assert (answer.status, answer.json["error"]["type"]) == (429, "rate_limit_error")
        assert int(answer.headers["retry-after"]) >= 1
        assert running.get("/health").status == 200
        for wire in wires:
            wire.leave()
        wait_for(lambda: scheduler.admitted == 0)
        assert running.post(CHAT, SHORT).status == 200


def test_a_server_that_cannot_go_on_says_so(folder):
    with Running([ServedText("tiny", str(folder), 1)]) as running:
        assert running.get("/health").json == {"status": "ok"}

        def fail():
            raise KeyError("a bug")

        running.server.scheduler._round = fail
        for _ in range(2):
            answer = running.post(CHAT, SHORT)
            assert (answer.status, answer.json["error"]["code"]) == (500, "internal")
        health = running.get("/health")
        assert (health.status, health.json) == (503, {"status": "failed", "error": "KeyError: 'a bug'"})


def test_an_answer_is_not_longer_than_the_server_allows(folder):
    with Running([ServedText("tiny", str(folder), 1, max_tokens=5)]) as running:
        for wanted, got in ((3, 3), (900, 5)):
            assert running.post(CHAT, {**SHORT, "max_tokens": wanted}).json["usage"]["completion_tokens"] == got


def test_prompts_are_logged_if_that_is_wanted(strict):
    strict.post(CHAT, {**SHORT, "messages": [{"role": "user", "content": "unmistakable"}]}, **KEY)
    wait_for(lambda: "unmistakable" in strict.lines.getvalue())
    (line,) = [line for line in strict.logs if "unmistakable" in str(line.get("request"))]
    assert line["answer"][0]["role"] == "assistant"
    assert "sésame" not in strict.lines.getvalue()


def test_a_stream_is_logged_too_and_is_not_kept_otherwise(strict, served, monkeypatch):
    answers = []
    for kind in (ChatAnswer, CompletionAnswer):
        monkeypatch.setattr(kind, "usage", property(lambda self: answers.append(self)))
    asked = {"model": "tiny", "max_tokens": 3, "stream": True, "stream_options": {"include_usage": True}}
    chat = {**asked, "messages": SHORT["messages"], "logprobs": True}
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    call = {**chat, "tools": [tool], "tool_choice": "required", "max_tokens": 100}
    for path, body in ((CHAT, chat), (CHAT, call), ("/v1/completions", {**asked, "prompt": "a", "logprobs": 1})):
        for running, keeps in ((strict, True), (served, False)):
            assert running.post(path, body, **KEY).status == 200
            (choice,) = answers.pop()._choices()
            message = choice.get("message", choice)
            calls = message.get("tool_calls", [])
            arguments = "".join(one["function"]["arguments"] for one in calls)
            said = message.get("text") or message.get("content") or arguments
            assert bool(said) == keeps
            assert any(choice["logprobs"].values()) == keeps


@pytest.mark.parametrize(("seconds", "end"), [(60, b"[DONE]"), (0, b'"code":"shutting_down"')], ids=["ends", "told"])
def test_a_stop_lets_requests_finish_and_tells_those_that_take_too_long(folder, seconds, end):
    running = Running([ServedText("tiny", str(folder), 2)], drain_seconds=seconds)
    wire = Wire(running, CHAT, endless(stream=True, n=1 if seconds else 16))
    wire.read_until(b'"delta":{"content":"')
    running.close()
    assert end in wire.read_all()
    assert running.logs[-1]["event"] == "stopped"


def test_memory_for_caches_is_bounded(folder):
    import nibble

    model = ServedText("tiny", str(folder), 2)
    with Running([model]) as running:
        size = running.text().session_bytes
        caches = 2 * 2 * 1024 * 2 * 16 * 4  # layers, keys and values, context, heads, width, bytes
        assert caches < size < 2 * caches
        assert running.text().pool.most == 4
    with Running([ServedText("tiny", str(folder), 2, session_memory=3 * size + 5)]) as running:
        assert running.text().pool.most == 3
        for number in range(6):
            running.post(CHAT, {**SHORT, "messages": [{"role": "user", "content": f"{number} is a number"}]})
        assert running.text().pool.idle == 3
    with pytest.raises(
        nibble.NibbleError, match=f"2 sessions of 'tiny' take {2 * size} bytes, but they may take {size}"
    ):
        Running([ServedText("tiny", str(folder), 2, session_memory=size)])
