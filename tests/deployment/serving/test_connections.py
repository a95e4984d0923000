"""Connections that hold a server up."""

from __future__ import annotations

import os
import resource
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from quantkit.deployment.serving import server
from quantkit.deployment.serving.limits import Limits
from quantkit.deployment.serving.listener import Address
from quantkit.deployment.serving.models import Models
from tests.deployment.serving.conftest import ask, started
from tests.deployment.serving.process import make_certificate
from tests.deployment.serving.test_server import opened, until

Serve = Callable[..., str]


def closed(connection: socket.socket) -> bool:
    """Whether the other end closes a connection, within the patience of its socket."""
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


@pytest.mark.parametrize(("hard", "connections"), [(1024, 384), (100, 1), (10_000, 1024)])
def test_no_more_connections_than_files_may_be_open(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, hard: int, connections: int
) -> None:
    raised: list[tuple[int, int]] = []
    monkeypatch.setattr(server.resource, "getrlimit", lambda kind: (min(256, hard), hard))
    monkeypatch.setattr(server.resource, "setrlimit", lambda kind, limits: raised.append(limits))
    assert server._within_descriptors(Limits()).connections == connections
    # For each connection two, and 256 for the rest.
    assert raised == [(min(hard, 2304), hard)]
    assert [record.message.startswith("at most") for record in caplog.records] == [True] * (connections < 1024)


@pytest.mark.parametrize("sent", [b"", b"GET /v2 HTTP/1.1\r\nHost: x\r\n"])
def test_who_says_nothing_or_half_is_not_waited_for(served: Serve, sent: bytes) -> None:
    url = served(Limits(head_seconds=0.3))
    with opened(url) as connection:
        connection.sendall(sent)
        assert closed(connection)


def test_a_head_that_comes_byte_by_byte_has_no_more_time(served: Serve) -> None:
    url = served(Limits(head_seconds=0.5))
    begun = time.monotonic()
    with opened(url) as connection, pytest.raises(ConnectionError):
        connection.sendall(b"GET /v2 HTTP/1.1\r\n")
        while time.monotonic() - begun < 10:
            connection.sendall(b"a: b\r\n")
            time.sleep(0.05)


def test_the_time_begins_anew_with_each_request(served: Serve) -> None:
    url = served(Limits(head_seconds=2.0))
    with opened(url) as connection:
        for _ in range(4):
            time.sleep(0.7)
            connection.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
            assert connection.recv(1000).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("start", [b"GET /", b"GET / HTTP/1.1\r\nname: ", b"GET / HTTP/1.1\r\n"])
def test_large_heads_are_refused(served: Serve, start: bytes) -> None:
    with opened(served()) as connection:
        with suppress(ConnectionError):
            connection.sendall(start)
            for _ in range(1000):
                connection.sendall(b"a" * 100_000)
            raise AssertionError("100 MB were taken")
        assert received(connection) < 10_000


def test_requests_are_read_one_after_the_other(served: Serve) -> None:
    url = served(Limits(head_seconds=0.5))
    with opened(url) as connection, pytest.raises((ConnectionError, TimeoutError)):
        # Nobody reads the answers, so that these are taken in no further than they are answered.
        connection.settimeout(5.0)
        for _ in range(1000):
            connection.sendall(b"GET /v2 HTTP/1.1\r\nHost: x\r\n\r\n" * 3000)


def test_offers_of_other_protocols_are_not_taken_up(served: Serve) -> None:
    with opened(served()) as connection:
        offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n"
        body = b"GET /v2 HTTP/1.1\r\nHost: x\r\n\r\n"
        size = str(len(body)).encode()
        connection.sendall(
            b"POST /v2 HTTP/1.1\r\nHost: x\r\nContent-Length: " + size + b"\r\n" + offer + b"\r\n" + body
        )
        answer = connection.recv(10_000)
        connection.settimeout(0.5)
        with suppress(TimeoutError):
            answer += connection.recv(10_000)
        # The body is no request of its own.
        assert answer.count(b"HTTP/1.1 ") == 1
        assert answer.startswith(b"HTTP/1.1 405")


def test_idle_connections_make_room_for_others(served: Serve) -> None:
    url = served(Limits(connections=20))
    with ExitStack() as stack:
        idle = [stack.enter_context(opened(url)) for _ in range(60)]
        # Of these the first are closed, and the last ones wait.
        assert ask(url, "/v2/health/live").status == 200
        assert all(map(closed, idle[:40]))
        idle[-1].sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
        assert idle[-1].recv(1000).startswith(b"HTTP/1.1 200")


def test_ten_thousand_silent_connections(served: Serve) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    number = 10_000 if hard == resource.RLIM_INFINITY else min(10_000, hard - 2_000)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, number + 2_000), hard))
    url = served(Limits(head_seconds=60.0))
    with ExitStack() as stack:
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(number):
            stack.enter_context(opened(url))
        assert ask(url, "/v2/health/ready").status == 200
        # Its own ends of those that are not closed, and ours.
        until(lambda: len(os.listdir("/proc/self/fd")) - before - number <= Limits().connections + 10)


def test_handshakes_that_do_not_come_are_not_waited_for(models: Models, tmp_path: Path) -> None:
    make_certificate(tmp_path)
    address = Address(port=0, certificate=tmp_path / "cert.pem", key=tmp_path / "key.pem")
    with started(models, Limits(head_seconds=0.3), address=address) as url, opened(url) as connection:
        assert closed(connection)


def test_who_does_not_read_is_not_waited_for(served: Serve) -> None:
    url = served(Limits(head_seconds=0.3))
    with opened(url) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        # The answers are more than the system's buffers take.
        connection.sendall(b"GET /static-offline-docs/swagger-ui-bundle.js HTTP/1.1\r\nHost: x\r\n\r\n" * 20)
        until(lambda: refuses(connection))


def refuses(connection: socket.socket) -> bool:
    """Whether the other end takes no more."""
    try:
        connection.sendall(b"\r\n")
    except ConnectionError:
        return True
    return False


@pytest.mark.parametrize("line", ["Connection: close", "Connection: keep-alive"])
def test_who_reads_slowly_gets_all(served: Serve, line: str) -> None:
    url = served(Limits(head_seconds=0.5))
    path = "/static-offline-docs/swagger-ui-bundle.js"
    size = len(ask(url, path).content)
    with opened(url) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        # More than the system's buffers take, one answer after the other.
        for _ in range(9):
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n{line}\r\n\r\n".encode())
        assert received(connection, 0.004) > 10 * size


def test_what_is_no_request_after_an_early_answer_is_not_told_to_the_log(
    served: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(served(token="0123456789abcdef")) as connection:
        connection.sendall(b"POST /v2 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        assert b" 401 " in connection.recv(1000)
        with suppress(ConnectionError):
            connection.sendall(b"no chunk\r\n")
            until(lambda: refuses(connection))
    assert not caplog.text


def received(connection: socket.socket, pause: float = 0.0) -> int:
    """The bytes that still come, read in small parts."""
    size = 0
    with suppress(ConnectionError):
        while part := connection.recv(16384):
            size += len(part)
            time.sleep(pause)
    return size
