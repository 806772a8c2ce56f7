"""Serves a folder on localhost, with byte ranges: serve.py FOLDER [--port N] [--open PAGE]."""

import argparse
import errno
import functools
import os
import re
import sys
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import BinaryIO

# The same port each time where possible: browsers keep their caches by address.
FIRST_PORT = 8080
PORTS_TO_TRY = 20
CHUNK = 1 << 18
LOCAL_HOST = r"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]+)?"


class Handler(SimpleHTTPRequestHandler):
    """Files, whole or one range of them, with a tag by which a browser asks whether its copy is still good."""

    protocol_version = "HTTP/1.1"
    extensions_map = SimpleHTTPRequestHandler.extensions_map | {
        ".html": "text/html; charset=utf-8",
        ".css": "text/css; charset=utf-8",
        ".js": "text/javascript; charset=utf-8",
        ".json": "application/json",
        ".txt": "text/plain; charset=utf-8",
        ".wasm": "application/wasm",
    }

    def do_GET(self) -> None:
        self.answer(with_body=True)

    def do_HEAD(self) -> None:
        self.answer(with_body=False)

    def answer(self, with_body: bool) -> None:
        # A page from elsewhere can have its own name point here; it must not read what lies here.
        if not re.fullmatch(LOCAL_HOST, self.headers.get("Host") or "", re.IGNORECASE):
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST)
            return
        path = self.wanted_file()
        try:
            file = path.open("rb") if path else None
        except OSError:
            file = None
        if file is None:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        with file:
            status = os.fstat(file.fileno())
            tag = f'"{status.st_mtime_ns:x}-{status.st_size:x}"'
            if tag in (self.headers.get("If-None-Match") or ""):
                self.send_head(HTTPStatus.NOT_MODIFIED, {"ETag": tag})
                return
            begin, end = self.wanted_range(status.st_size, tag)
            if begin >= end and status.st_size > 0:
                headers = {"Content-Range": f"bytes */{status.st_size}", "Content-Length": "0"}
                self.send_head(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, headers)
                return
            headers = {"ETag": tag, "Content-Type": self.guess_type(path), "Content-Length": str(end - begin)}
            is_part = end - begin < status.st_size
            if is_part:
                headers["Content-Range"] = f"bytes {begin}-{end - 1}/{status.st_size}"
            self.send_head(HTTPStatus.PARTIAL_CONTENT if is_part else HTTPStatus.OK, headers)
            if with_body:
                self.send_bytes(file, begin, end)

    def wanted_file(self) -> Path | None:
        """The file that was asked for, if it is one and lies in the folder, links followed."""
        try:
            path = Path(self.translate_path(self.path)).resolve()
            if path.is_dir():
                path = (path / "index.html").resolve()
            return path if path.is_file() and path.is_relative_to(self.directory) else None
        except (OSError, RuntimeError, ValueError):  # too long a name, a circle of links, a NUL
            return None

    def wanted_range(self, size: int, tag: str) -> tuple[int, int]:
        """The range that was asked for, or the whole file; an empty one cannot be had."""
        match = re.fullmatch(r"bytes=([0-9]*)-([0-9]*)", self.headers.get("Range") or "")
        condition = self.headers.get("If-Range")
        if not match or match.groups() == ("", "") or condition not in (None, tag):
            return 0, size
        first, last = match.groups()
        if not first:
            return max(0, size - number_of(last)), size
        return number_of(first), min(size, number_of(last) + 1) if last else size

    def send_head(self, status: HTTPStatus, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Cache-Control", "no-cache")
        self.end_headers()

    def send_bytes(self, file: BinaryIO, begin: int, end: int) -> None:
        file.seek(begin)
        left = end - begin
        try:
            while left > 0 and (piece := file.read(min(left, CHUNK))):
                self.wfile.write(piece)
                left -= len(piece)
        except (BrokenPipeError, ConnectionResetError):
            left = 1  # the browser has enough: a page was closed, a load was aborted
        # A connection on which less came than was promised is of no more use.
        self.close_connection = self.close_connection or left > 0

    def log_message(self, *_) -> None:
        """Says nothing: the terminal is for the address."""


def number_of(digits: str) -> int:
    """Python refuses to read thousands of digits; so many mean: past any end."""
    digits = digits.lstrip("0")
    return int(digits or "0") if len(digits) < 19 else sys.maxsize


def open_server(folder: Path, port: int | None) -> ThreadingHTTPServer:
    handler = functools.partial(Handler, directory=str(folder.resolve()))
    ports = [port] if port is not None else range(FIRST_PORT, FIRST_PORT + PORTS_TO_TRY)
    for number in ports:
        try:
            return ThreadingHTTPServer(("127.0.0.1", number), handler)
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
    tried = f"port {port}" if port is not None else f"the ports {FIRST_PORT} to {FIRST_PORT + PORTS_TO_TRY - 1}"
    raise SystemExit(f"serve: {tried} cannot be had; choose another with --port")


def main() -> int:
    parser = argparse.ArgumentParser(prog="serve", description="Serves a folder on localhost.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", type=int, metavar="N", help=f"default: the first free one from {FIRST_PORT} on")
    parser.add_argument("--open", default="", metavar="PAGE", help="the page in it whose address is told")
    arguments = parser.parse_args()
    if not arguments.folder.is_dir():
        parser.error(f"'{arguments.folder}' is no folder")
    if arguments.port is not None and not 0 <= arguments.port < 65536:
        parser.error(f"--port must be from 0 to 65535, but is {arguments.port}")
    with open_server(arguments.folder, arguments.port) as server:
        print(f"http://localhost:{server.server_port}/{arguments.open}  (Ctrl-C ends it)", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
