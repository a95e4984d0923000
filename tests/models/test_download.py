"""Downloads, from a server in this process that can be told to misbehave."""

from __future__ import annotations

import hashlib
import io
import socket
import threading
import time
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from quantkit.errors import QuantkitError, WeightsUnavailable
from quantkit.models.download import Patience, fetch

CONTENT = bytes(range(256)) * 2000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Server:
    """Serves CONTENT at /whole; /short breaks off half-way, /hang never answers, all else is not found."""

    def __init__(self) -> None:
        self.begun_at: list[int] = []
        self.etag, self.content = '"one"', CONTENT
        server = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *args: Any) -> None:
                pass

            def do_GET(self) -> None:
                if self.path == "/hang":
                    time.sleep(8)
                    return
                if self.path not in ("/whole", "/short", "/zipped.zip"):
                    self.send_error(404)
                    return
                content = zipped(server.content) if self.path.endswith("zip") else server.content
                wanted = self.headers.get("Range")
                begin = 0
                if wanted and self.headers.get("If-Range") == server.etag:
                    begin = int(wanted.removeprefix("bytes=").rstrip("-"))
                server.begun_at.append(begin)
                self.send_response(206 if begin else 200)
                self.send_header("Content-Length", str(len(content) - begin))
                self.send_header("ETag", server.etag)
                self.end_headers()
                self.wfile.write(content[begin : len(content) // 2 if self.path == "/short" else None])

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


def zipped(content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("x.params", content)
    return file.getvalue()


@pytest.fixture
def server() -> Iterator[Server]:
    started = Server()
    yield started
    started.http.shutdown()
    started.http.server_close()


def get(server: Server, path: str, destination: Path, **hashes: str) -> None:
    fetch(server.url + path, destination, Patience(8.0), quiet=True, **hashes)


def test_whole_file(server: Server, tmp_path: Path) -> None:
    destination = tmp_path / "deep" / "file.params"
    get(server, "/whole", destination, sha256=SHA256)
    assert destination.read_bytes() == CONTENT
    assert [path.name for path in destination.parent.iterdir()] == ["file.params"]


def test_single_file_in_an_archive(server: Server, tmp_path: Path) -> None:
    destination = tmp_path / "file.params"
    get(server, "/zipped.zip", destination, sha1=hashlib.sha1(CONTENT).hexdigest())
    assert destination.read_bytes() == CONTENT


def test_broken_download_is_resumed(server: Server, tmp_path: Path) -> None:
    destination = tmp_path / "file.params"
    with pytest.raises(WeightsUnavailable, match=r"broke off|ended after"):
        get(server, "/short", destination)
    assert not destination.exists()
    half = (tmp_path / "file.params.part").stat().st_size
    assert 0 < half <= len(CONTENT) // 2
    get(server, "/whole", destination, sha256=SHA256)
    assert server.begun_at[-1] == half
    assert destination.read_bytes() == CONTENT


def test_a_changed_file_is_not_glued_to_the_old_half(server: Server, tmp_path: Path) -> None:
    destination = tmp_path / "file.params"
    with pytest.raises(WeightsUnavailable):
        get(server, "/short", destination)
    server.etag, server.content = '"two"', CONTENT[::-1]
    get(server, "/whole", destination)
    assert destination.read_bytes() == CONTENT[::-1]


def test_wrong_hash_leaves_nothing(server: Server, tmp_path: Path) -> None:
    with pytest.raises(WeightsUnavailable, match="another hash"):
        get(server, "/whole", tmp_path / "file.params", sha256="0" * 64)
    assert list(tmp_path.iterdir()) == []


def test_not_found(server: Server, tmp_path: Path) -> None:
    with pytest.raises(WeightsUnavailable, match="answers 404"):
        get(server, "/none", tmp_path / "file.params")


def test_silent_server_is_given_up_in_time_and_not_asked_again(server: Server, tmp_path: Path) -> None:
    patience = Patience(0.5)
    began = time.monotonic()
    for _ in range(3):
        with pytest.raises(WeightsUnavailable, match="cannot be reached"):
            fetch(server.url + "/hang", tmp_path / "file.params", patience, quiet=True)
    assert time.monotonic() - began < 2.0
    with pytest.raises(WeightsUnavailable, match="not tried"):
        fetch("http://127.0.0.2:1/x", tmp_path / "file.params", patience, quiet=True)


def test_name_servers_that_never_answer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    over = threading.Event()

    def hang(*_: object, **__: object) -> list[object]:
        over.wait(8)
        raise socket.gaierror("no answer")

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    began = time.monotonic()
    with pytest.raises(WeightsUnavailable, match=r"hub\.invalid cannot be reached"):
        fetch("http://hub.invalid/x", tmp_path / "file.params", Patience(0.5), quiet=True)
    assert time.monotonic() - began < 2.0
    over.set()


def test_no_server_at_all(tmp_path: Path) -> None:
    with pytest.raises(WeightsUnavailable, match="cannot be reached"):
        fetch("http://127.0.0.1:1/x", tmp_path / "file.params", Patience(8.0), quiet=True)


def test_destination_that_cannot_be_written(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(QuantkitError, match="QUANTKIT_HOME"):
        get(server, "/whole", tmp_path / "file" / "x.params")
