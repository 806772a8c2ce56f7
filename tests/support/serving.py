"""A server in this process, in a thread of its own, so that tests see what it is made of."""

import io
import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any

from nibble._serve.context import Limits
from nibble._serve.logs import Log
from nibble._serve.served import Served, ServedText
from nibble._serve.server import Server, Settings


class Running:
    """Serves from when it is made until close()."""

    def __init__(self, models: Sequence[Served], *, limits: dict | None = None, send_buffer: int = 0, **settings: Any):
        """send_buffer: bytes that the system takes from the server before a client reads them."""
        self.lines = io.StringIO()
        made = Settings(port=0, limits=Limits(**(limits or {})), **{"drain_seconds": 2, **settings})
        self.server = Server(models, made, log=Log(self.lines))
        listener = self.server.listen()
        if send_buffer:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
        self.server.serving.open()
        self.url = self.server.url
        self._thread = threading.Thread(target=self.server.run, args=(listener,))
        self._thread.start()

    @property
    def logs(self) -> list[dict]:
        return [json.loads(line) for line in self.lines.getvalue().splitlines()]

    def text(self, id: str = "tiny") -> ServedText:
        return self.server.serving.models[id]

    def __enter__(self) -> "Running":
        return self

    def __exit__(self, *_exception) -> None:
        self.close()

    def close(self) -> None:
        self.server.stop()
        self._thread.join()

    def get(self, path: str, **headers: str) -> "Answer":
        return ask(urllib.request.Request(self.url + path, headers=headers))

    def post(self, path: str, body: Any, **headers: str) -> "Answer":
        """body: what becomes JSON, or bytes as they are."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", **{name.replace("_", "-"): v for name, v in headers.items()}}
        return ask(urllib.request.Request(self.url + path, data, headers))


class Wire:
    """A request on a socket of its own, for clients that behave badly."""

    def __init__(self, running: Running, path: str, body: dict, receive_buffer: int = 0):
        host, port = running.url.removeprefix("http://").split(":")
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(120)
        self.socket.connect((host, int(port)))
        data = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Type: application/json\r\n"
        self.socket.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        self.seen = b""

    def read_some(self) -> bytes:
        data = self.socket.recv(65536)
        self.seen += data
        return data

    def read_until(self, text: bytes) -> bytes:
        while text not in self.seen:
            assert self.read_some(), self.seen
        return self.seen

    def read_all(self) -> bytes:
        while self.read_some():
            pass
        return self.seen

    def leave(self) -> None:
        self.socket.close()


def wait_for(condition, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


class Answer:
    def __init__(self, status: int, headers: Any, body: bytes):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def chunks(self) -> list[dict]:
        """Of a stream; the last line must be the protocol's."""
        *lines, last = [line for line in self.body.decode().split("\n\n") if line]
        assert last == "data: [DONE]"
        return [json.loads(line.removeprefix("data: ")) for line in lines]


def ask(request: urllib.request.Request) -> Answer:
    try:
        with urllib.request.urlopen(request, timeout=120) as response:
            return Answer(response.status, response.headers, response.read())
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, error.headers, error.read())
