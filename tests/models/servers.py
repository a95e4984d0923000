"""A server on loopback that answers each address as a script says, byte by byte, and notes what it was asked."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass


@dataclass(frozen=True)
class Request:
    """What was asked: the address as it stands in the request line, and the headers by lower-case name."""

    target: str
    headers: dict[str, str]


# Yields what is sent; the connection is closed at its end.
Script = Callable[[Request], Iterator[bytes]]


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 32

    def __init__(self, scripts: dict[str, Script]) -> None:
        self.scripts = scripts
        self.asked: list[Request] = []
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, *_: object) -> None:
        pass


class _Handler(socketserver.StreamRequestHandler):
    server: Server

    def handle(self) -> None:
        target = self.rfile.readline().decode().split(" ")[1]
        headers = {}
        while line := self.rfile.readline().decode().strip():
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        request = Request(target, headers)
        self.server.asked.append(request)
        script = self.server.scripts.get(target, missing)
        with suppress(OSError):
            for piece in script(request):
                self.wfile.write(piece)


@contextmanager
def serving(scripts: dict[str, Script]) -> Iterator[Server]:
    with Server(scripts) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server
        server.shutdown()


def head(status: str = "200 OK", **headers: object) -> bytes:
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status}\r\n{lines}Connection: close\r\n\r\n".encode()


def missing(_: Request) -> Iterator[bytes]:
    yield head("404 Not \x1b[31mFound", Content_Length=0)


def redirect(to: str) -> Script:
    return lambda _: iter([head("302 Found", Location=to, Content_Length=0)])


def whole(content: bytes, etag: str = '"one"', until: int | None = None, **headers: object) -> Script:
    """Sends ``content``, from where it is asked for, and breaks off at ``until``."""

    def script(request: Request) -> Iterator[bytes]:
        begin = 0
        if "range" in request.headers and request.headers.get("if-range") == etag:
            begin = int(request.headers["range"].removeprefix("bytes=").rstrip("-"))
        length = {"Content_Length": len(content) - begin, "ETag": etag, **headers}
        span = {"Content_Range": f"bytes {begin}-{len(content) - 1}/{len(content)}"}
        yield head("206 Partial Content", **length, **span) if begin else head(**length)
        yield content[begin:until]

    return script
