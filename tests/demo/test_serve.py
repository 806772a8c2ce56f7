"""scripts/serve.py: what ./run --web serves the page with."""

import threading
from http.client import HTTPConnection

import pytest

import serve

BODY = bytes(range(256)) * 40


@pytest.fixture
def ask(tmp_path):
    """Sends a request to a server with one file, and gives (status, headers, body)."""
    folder = tmp_path / "page"
    folder.mkdir()
    (folder / "file.wasm").write_bytes(BODY)
    (folder / "empty.txt").write_bytes(b"")
    (folder / "index.html").write_text("<p>hello</p>")
    (tmp_path / "secret.txt").write_text("not for you")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "outside").symlink_to(tmp_path)
    (folder / "circle").symlink_to(folder / "circle")
    (folder / "inside.wasm").symlink_to(folder / "file.wasm")
    with serve.open_server(folder, 0) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        connection = HTTPConnection("127.0.0.1", server.server_port)

        def send(path: str, method: str = "GET", **headers: str):
            given = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, headers={"Host": "localhost"} | given)
            response = connection.getresponse()
            return response.status, response.headers, response.read()

        yield send
        connection.close()
        server.shutdown()


def test_a_file_comes_whole(ask):
    status, headers, body = ask("/file.wasm")
    assert (status, body) == (200, BODY)
    assert headers["Content-Type"] == "application/wasm"
    assert headers["Accept-Ranges"] == "bytes"


@pytest.mark.parametrize(
    ("asked", "begin", "end"),
    [
        ("0-9", 0, 10),
        ("100-299", 100, 300),
        ("10000-", 10000, 10240),
        ("-40", 10200, 10240),
        ("10200-99999", 10200, 10240),
        ("10200-" + "9" * 5000, 10200, 10240),
        ("0" * 5000 + "1-2", 1, 3),
    ],
)
def test_a_range_comes_as_asked(ask, asked, begin, end):
    status, headers, body = ask("/file.wasm", Range=f"bytes={asked}")
    assert (status, body) == (206, BODY[begin:end])
    assert headers["Content-Range"] == f"bytes {begin}-{end - 1}/{len(BODY)}"


@pytest.mark.parametrize("asked", ["10240-", "20000-20001", "9-5", "9" * 5000 + "-"])
def test_a_range_past_the_end_is_refused(ask, asked):
    status, headers, body = ask("/file.wasm", Range=f"bytes={asked}")
    assert (status, body) == (416, b"")
    assert headers["Content-Range"] == f"bytes */{len(BODY)}"


@pytest.mark.parametrize("asked", ["bytes=-", "bytes=0-1,5-6", "lines=1-2"])
def test_what_is_no_single_range_gives_the_whole_file(ask, asked):
    status, _, body = ask("/file.wasm", Range=asked)
    assert (status, body) == (200, BODY)


def test_a_copy_that_is_still_good_is_not_sent_again(ask):
    tag = ask("/file.wasm")[1]["ETag"]
    status, _, body = ask("/file.wasm", If_None_Match=tag)
    assert (status, body) == (304, b"")
    assert ask("/file.wasm", Range="bytes=0-9", If_Range=tag)[0] == 206
    assert ask("/file.wasm", Range="bytes=0-9", If_Range='"another"')[0] == 200


def test_a_folder_is_its_index_and_nothing_outside_is_served(ask):
    assert ask("/")[2] == b"<p>hello</p>"
    assert ask("/empty.txt")[0] == 200
    assert ask("/missing.txt")[0] == 404
    assert ask("/../secret.txt")[0] == 404
    status, headers, body = ask("/file.wasm", "HEAD")
    assert (status, headers["Content-Length"], body) == (200, str(len(BODY)), b"")


@pytest.mark.parametrize("path", ["/file.wasm%00", "/%00", "/" + "a" * 5000, "/a" * 5000, "/circle"])
def test_a_name_that_no_file_can_have_is_not_found(ask, path):
    assert ask(path)[0] == 404
    assert ask("/file.wasm")[0] == 200


def test_a_link_leads_nowhere_outside(ask):
    assert ask("/inside.wasm")[2] == BODY
    assert ask("/link.txt")[0] == 404
    assert ask("/outside/secret.txt")[0] == 404


@pytest.mark.parametrize("host", ["example.com", "localhost.example.com", "localhost:80x", "192.168.0.1:8080", ""])
def test_another_host_is_refused(ask, host):
    assert ask("/file.wasm", Host=host)[0] == 421


@pytest.mark.parametrize("host", ["localhost:8080", "LOCALHOST", "127.0.0.1:9", "[::1]:8080"])
def test_this_host_may_have_any_port(ask, host):
    assert ask("/file.wasm", Host=host)[0] == 200
