"""Clients that mean harm: bytes that are hardly HTTP, connections that keep silent, what would keep others waiting."""

import asyncio
import json
import select
import socket

import pytest

from nibble._serve.events import Done, Mailbox
from nibble._serve.json_text import as_json, as_long_json
from nibble._serve.served import ServedText
from nibble._serve.unread import Unread
from support.served_model import endless
from support.serving import Running, Wire, wait_for

CHAT = "/v1/chat/completions"
SHORT = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 3, "temperature": 0}
GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
POST = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n".encode()
BODY = json.dumps(SHORT).encode()


def connect(running: Running) -> socket.socket:
    host, port = running.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=120)


def talk(running: Running, data: bytes) -> bytes:
    """What comes back until the server closes the connection."""
    with connect(running) as made:
        made.sendall(data)
        found = b""
        try:
            while piece := made.recv(65536):
                found += piece
        except ConnectionResetError:
            pass  # it has not read all
        return found


def statuses(answers: bytes) -> list[int]:
    return [int(part[:3]) for part in answers.split(b"HTTP/1.1 ")[1:]]


WRONG = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET /\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    GET + b"Host: localhost\r\n\r\n",
    GET + b"A: \x00\r\n\r\n",
    GET + b"A b: c\r\n\r\n",
    POST + b"Content-Length: -1\r\n\r\n",
    POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
    POST + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n",
    POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
    POST + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n",
    GET + b"A: " + b"b" * 40000 + b"\r\n\r\n",
    GET + b"a:b\n" * 20000 + b"\n",
    POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\n \r\n" * 2000,
]


@pytest.mark.parametrize("data", WRONG, ids=[f"{data[-24:]}" for data in WRONG])
def test_what_is_no_http_is_refused_in_the_form_of_all_errors(served, data):
    head, _, body = talk(served, data).partition(b"\r\n\r\n")
    assert statuses(head) == [400]
    assert json.loads(body)["error"]["code"] == "invalid_http"


HOSTS = [b"[localhost", b"localhost]", b"[[::1]", b"localhost:99999999", b"LOCALHOST", b"127.0.0.1:", b"user@localhost"]


@pytest.mark.parametrize("host", HOSTS, ids=[host.decode() for host in HOSTS])
def test_odd_names_of_the_server_are_no_failure(served, host):
    for path in (b"/v1/models", b"/v1/nothing", b"/v1/models/", b"//v1/models", b"http://evil.example/v1/models"):
        answer = talk(served, b"GET " + path + b" HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n")
        assert statuses(answer)[0] in (200, 404, 421), answer
        assert b"ocation:" not in answer


def test_a_body_may_come_in_pieces_and_two_requests_at_once(served):
    pieces = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (BODY[:9], BODY[9:10], BODY[10:])) + b"0\r\n\r\n"
    whole = b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
    both = POST + b"Transfer-Encoding: chunked\r\n\r\n" + pieces + POST + b"Connection: close\r\n" + whole
    assert statuses(talk(served, both)) == [200, 200]
    asked = POST + b"Connection: close\r\nExpect: 100-continue\r\n" + whole
    assert statuses(talk(served, asked)) == [100, 200]


@pytest.fixture(scope="module")
def narrow(folder):
    limits = {"connections": 8, "body_seconds": 2, "body_bytes": 1000}
    with Running([ServedText("tiny", str(folder), 1)], limits=limits) as running:
        yield running


def test_a_further_connection_closes_the_one_that_was_silent_longest_and_no_busy_one(narrow):
    busy = Wire(narrow, CHAT, endless(stream=True))
    busy.read_until(b'"delta":{"content":"')
    silent = [connect(narrow) for _ in range(8)]
    assert narrow.get("/health").status == 200
    assert silent[0].recv(1) == b""
    assert busy.read_some()
    busy.leave()
    for one in silent:
        one.close()
    wait_for(lambda: narrow.server.scheduler.admitted == 0)


@pytest.mark.parametrize("begun", [b"", GET, GET + b"\r\n" + GET], ids=["nothing", "half", "second"])
def test_a_connection_without_a_request_is_closed(narrow, begun):
    assert statuses(talk(narrow, begun)) == ([200] if b"\r\n\r\n" in begun else [])


def test_bodies_that_come_slowly_have_a_bounded_room(folder):
    with Running([ServedText("tiny", str(folder), 1)], limits={"body_bytes": 1000}) as running:
        slow = [connect(running) for _ in range(20)]
        for one in slow:
            one.sendall(POST + b"Content-Length: 1000\r\n\r\n" + b" " * 999)
        (first, *_), _, _ = select.select(slow, [], [], 120)
        refused = b""
        while not refused.endswith(b"}}"):
            refused += first.recv(65536)
        assert statuses(refused) == [429]
        assert b"longer than 16000 bytes" in refused
        assert b"retry-after" in refused
        for one in slow:
            one.close()
        wait_for(lambda: running.post(CHAT, SHORT).status == 200)


def test_requests_that_are_given_up_at_once_leave_nothing(served):
    wanted = served.post(CHAT, SHORT).json["choices"]
    for number in range(60):
        wire = Wire(served, CHAT, endless(stream=bool(number % 2)))
        if number % 3 == 0:
            wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")  # a reset
        wire.leave()
    scheduler = served.server.scheduler
    wait_for(lambda: scheduler.admitted == 0)
    assert (scheduler.running, served.text().pool.in_use) == (0, 0)
    assert scheduler.steps_after_cancel <= 1
    assert served.post(CHAT, SHORT).json["choices"] == wanted


async def turns_of_others(work) -> tuple[object, int]:
    """What it gives, and how often the event loop came to others meanwhile."""
    turns, task = 0, asyncio.ensure_future(work)
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
    return task.result(), turns


def test_a_long_answer_is_written_bit_by_bit():
    tokens = [{"token": "é\ud800", "top_logprobs": [{"token": "x", "bytes": [1, 2]}] * 20}] * 10000
    value = {"choices": [{"logprobs": {"content": tokens, "refusal": None}, "none": {}, "no": []}], "usage": 1}
    text, turns = asyncio.run(turns_of_others(as_long_json(value)))
    assert turns > 3
    assert text == as_json(value)


def test_a_reader_that_is_far_behind_gets_a_part_at_a_time():
    async def read() -> tuple[list[int], int]:
        mailbox = Mailbox(asyncio.get_running_loop(), Unread(1 << 24), lambda why: None)
        for _ in range(1000):
            mailbox.post(Done())

        async def all_of_it() -> list[int]:
            sizes = []
            while sum(sizes) < 1000:
                sizes.append(len(await mailbox.take()))
            return sizes

        return await turns_of_others(all_of_it())

    sizes, turns = asyncio.run(read())
    assert max(sizes) < 100
    assert turns >= len(sizes)
