"""Receiving from servers with every fault there is: one of our errors, in bounded time and bytes."""

from __future__ import annotations

import itertools
import re
import socket
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from quantkit.errors import WeightsUnavailable
from quantkit.models import transfer
from quantkit.models.address import Address, check_address
from quantkit.models.transfer import BrokenOff, Limits, Patience, receive
from tests.models.servers import Request, Script, head, redirect, serving, whole

LARGEST = 1 << 20
LIMITS = Limits(answer=30.0, stall=30.0, total=60.0, largest=LARGEST)
# For those who keep one waiting.
SHORT = Limits(answer=1.0, stall=0.6, total=60.0, largest=LARGEST)


def dripping(before: bytes, piece: bytes, every: float) -> Script:
    def script(_: Request) -> Iterator[bytes]:
        yield before
        for _ in range(int(20 / every)):
            time.sleep(every)
            yield piece

    return script


def sent(*pieces: bytes) -> Script:
    return lambda _: iter(pieces)


def endless(before: bytes, piece: bytes) -> Script:
    return lambda _: itertools.chain([before], itertools.repeat(piece))


CHUNKED = head(Transfer_Encoding="chunked")
FAULTS: dict[str, tuple[Script, str]] = {
    "body-without-end": (endless(head(), bytes(1 << 16)), "more than the 1048576 bytes"),
    "chunks-without-end": (endless(CHUNKED, b"1000\r\n" + bytes(4096) + b"\r\n"), "more than the 1048576 bytes"),
    "trailers-without-end": (endless(CHUNKED + b"0\r\n", b"a: b\r\n"), "too slow|broke off"),
    "headers-without-end": (endless(b"HTTP/1.1 200 OK\r\n", b"a: b\r\n"), "cannot be reached"),
    "one-header-without-end": (endless(b"HTTP/1.1 200 OK\r\na: ", b"b" * 4096), "cannot be reached"),
    "continue-without-end": (endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), "cannot be reached"),
    "states-too-much": (sent(head(Content_Length=(1 << 20) + 1)), "more than the 1048576 allowed"),
    "breaks-off": (sent(head(Content_Length=1000), b"x" * 10), "broke off"),
    "more-than-stated": (sent(head(Content_Length=4), b"x" * 10), ""),
    "chunk-breaks-off": (sent(CHUNKED, b"1000\r\nxx"), "broke off"),
    "chunk-of-no-length": (sent(CHUNKED, b"zz\r\nxx"), "broke off"),
    "gzip": (sent(head(Content_Encoding="gzip", Content_Length=20), bytes(20)), "not asked for"),
    "silent": (dripping(b"", b"", 0.2), "cannot be reached"),
    "drips-headers": (dripping(b"HTTP/1.1 200 OK\r\n", b"a", 0.1), "cannot be reached"),
    "falls-silent": (dripping(head(Content_Length=10), b"", 0.2), "too slow.*64 KiB|broke off"),
    "drips": (dripping(head(Content_Length=1000), b"x", 0.05), "too slow.*64 KiB"),
    "not-found": (sent(head("404 Not Found")), "answers 404 Not Found$"),
    "own-words": (sent(head("404 \x1b[31mred")), "answers 404 Not Found$"),
    "unknown-status": (sent(head("299 Odd")), "answers 299$"),
    "error": (sent(head("503 Later")), "answers 503"),
    "part-unasked": (sent(head("206 Partial Content", Content_Range="bytes 5-9/10"), b"xxxxx"), "another part"),
    "part-unnamed": (sent(head("206 Partial Content"), b"xxxxx"), "another part"),
    "no-http": (sent(b"SSH-2.0-x\r\n\r\n"), "cannot be reached .*Error"),
    "nothing": (sent(), "cannot be reached .*Error"),
    "to-file": (redirect("file:///etc/passwd"), "only https:// and http://"),
    "to-ftp": (redirect("ftp://127.0.0.1/x"), "only https:// and http://"),
    "to-nowhere": (redirect("http://"), "more than 5 times"),
    "to-no-address": (redirect("http://[::1"), "not an address|cannot be reached"),
    "to-plain-http": (redirect("http://hub.invalid/x"), "not encrypted"),
    "round-and-round": (redirect("/round-and-round"), "more than 5 times"),
}


def with_login(url: str) -> Address:
    return Address(url.replace("//", "//me:secret@"))


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_is_one_of_our_errors_in_bounded_time_and_bytes(fault: str) -> None:
    script, complaint = FAULTS[fault]
    limits = SHORT if "too slow" in complaint or complaint == "cannot be reached" else LIMITS
    received = 0
    with serving({f"/{fault}": script}) as server:
        began = time.monotonic()
        try:
            _, blocks = receive(with_login(f"{server.url}/{fault}"), 0, "", Patience(60.0), limits, verified=False)
            for block in blocks:
                received += len(block)
        except WeightsUnavailable as error:
            assert complaint
            assert re.search(complaint, str(error))
            assert "secret" not in str(error)
        else:
            # HTTP itself ends a body at the length that is stated.
            assert (fault, received) == ("more-than-stated", 4)
        assert time.monotonic() - began < 15.0
    assert received <= LARGEST


def test_a_file_that_comes_steadily_but_not_in_time() -> None:
    """Of the two limits, ``total`` alone can be reached."""
    limits = Limits(answer=30.0, stall=60.0, total=1.0, largest=LARGEST)
    with serving({"/": dripping(head(Content_Length=LARGEST), bytes(1 << 12), 0.1)}) as server:
        _, blocks = receive(Address(server.url + "/"), 0, "", Patience(60.0), limits, verified=False)
        with pytest.raises(BrokenOff, match=r"too slow \(allowed: 1 s\)"):
            list(blocks)


def test_a_slow_disk_is_not_the_servers_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = 0.0
    monkeypatch.setattr(transfer, "time", SimpleNamespace(monotonic=lambda: seconds))
    content = bytes(LARGEST)
    with serving({"/": whole(content)}) as server:
        _, blocks = receive(Address(server.url + "/"), 0, "", Patience(60.0), LIMITS, verified=False)
        written = b""
        for block in blocks:
            written += block
            seconds += 10 * LIMITS.total
    assert written == content


@pytest.mark.parametrize(
    ("status", "may_do_later"),
    [("404 Not Found", False), ("499 Odd", False), ("500 Internal Server Error", True), ("503 Later", True)],
)
def test_a_fault_of_the_server_may_be_over_later(status: str, may_do_later: bool) -> None:
    with serving({"/": sent(head(status))}) as server, pytest.raises(WeightsUnavailable, match="answers") as raised:
        receive(Address(server.url + "/"), 0, "", Patience(60.0), LIMITS, verified=False)
    assert isinstance(raised.value, BrokenOff) == may_do_later


def test_a_login_is_sent_to_its_own_server() -> None:
    with serving({"/": whole(b"content")}) as server:
        _, blocks = receive(with_login(server.url + "/"), 0, "", Patience(60.0), LIMITS, verified=False)
        assert b"".join(blocks) == b"content"
        assert server.asked[0].headers["authorization"] == "Basic " + b64encode(b"me:secret").decode()


@pytest.mark.parametrize(
    ("full", "shown"),
    [
        ("https://me:secret@hub.example/x", "https://hub.example/x"),
        ("https://me:s@cr:t@hub.example:8/x?y=@#@", "https://hub.example:8/x?y=@#@"),
        ("https://hub.example/x//me@y", "https://hub.example/x//me@y"),
        ("https://hub.example?x//me@y", "https://hub.example?x//me@y"),
        ("http://me:secret@[::1", "http://[::1"),
    ],
)
def test_an_address_is_shown_without_its_login(full: str, shown: str) -> None:
    assert str(Address(full)) == shown
    assert full not in repr(Address(full))


def test_bytes_and_what_is_said_of_them() -> None:
    commit, sha256 = "c" * 40, "5" * 64
    with serving(
        {
            "/hub": lambda _: iter(
                [
                    head(
                        "302 Found",
                        Location="/cdn",
                        X_Repo_Commit=commit,
                        X_Linked_Etag=f'"{sha256}"',
                        Content_Length=0,
                    )
                ]
            ),
            "/cdn": whole(b"content"),
        }
    ) as server:
        said, blocks = receive(Address(f"{server.url}/hub"), 0, "", Patience(60.0), LIMITS, verified=False)
        assert b"".join(blocks) == b"content"
        assert (said.begin, said.total, said.version) == (0, 7, '"one"')
        assert (said.commit, said.sha256) == (commit, sha256)
        assert server.asked[0].headers["accept-encoding"] == "identity"
        said, blocks = receive(Address(f"{server.url}/hub"), 3, '"one"', Patience(60.0), LIMITS, verified=False)
        assert (said.begin, said.total, b"".join(blocks)) == (3, 7, b"tent")
        said, blocks = receive(Address(f"{server.url}/hub"), 3, '"two"', Patience(60.0), LIMITS, verified=False)
        assert (said.begin, said.total, b"".join(blocks)) == (0, 7, b"content")


@pytest.mark.parametrize(
    ("url", "here", "verified", "complaint"),
    [
        ("https://hub.example/x", "https://cdn.example/y", False, ""),
        ("http://127.0.0.1/x", "http://127.0.0.1:8080/x", False, ""),
        ("http://10.0.0.1/x", "http://10.0.0.2/x", True, ""),
        ("http://hub.example/x", "http://hub.example/x", True, ""),
        ("http://hub.example/x", "http://hub.example/x", False, "no hash"),
        ("http://10.0.0.1/x", "http://10.0.0.1/x", False, "no hash"),
        ("https://hub.example/x", "http://hub.example/x", True, "not encrypted"),
        ("https://hub.example/x", "http://localhost/x", True, "own network"),
        ("https://hub.example/x", "https://127.0.0.1/x", True, "own network"),
        ("https://hub.example/x", "https://169.254.169.254/x", True, "own network"),
        ("https://hub.example/x", "https://[::1]/x", True, "own network"),
        ("https://hub.example/x", "https://[::ffff:127.0.0.1]/x", True, "own network"),
        ("https://hub.example/x", "https://192.168.0.1/x", True, "own network"),
        ("https://hub.example/x", "https://127.1/x", True, "own network"),
        ("https://hub.example/x", "https://2130706433/x", True, "own network"),
        ("https://hub.example/x", "https://0x7f.1/x", True, "own network"),
        ("https://hub.example/x", "https://10.0.0.1./x", True, "own network"),
        ("https://hub.example/x", "https://localhost./x", True, "own network"),
        ("https://hub.example/x", "file:///etc/passwd", True, "only https"),
        ("https://hub.example/x", "data:,x", True, "only https"),
        ("ftp://hub.example/x", "ftp://hub.example/x", True, "only https"),
    ],
)
def test_addresses_that_are_followed(url: str, here: str, verified: bool, complaint: str) -> None:
    if complaint:
        with pytest.raises(WeightsUnavailable, match=complaint):
            check_address(Address(here), Address(url), verified)
    else:
        check_address(Address(here), Address(url), verified)


@pytest.mark.parametrize("url", ["https://[::1/x", "https://[not-an-address]/x", "hub.example/x"])
def test_what_is_no_address_is_refused_before_anything_is_sent(url: str) -> None:
    with pytest.raises(WeightsUnavailable, match=r"not an address|only https"):
        receive(Address(url), 0, "", Patience(60.0), LIMITS, verified=True)


def test_proxies_of_the_environment_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with serving(
        {"http://hub.example/x": whole(b"by proxy"), "http://hub.example/in": redirect("http://127.0.0.1/")}
    ) as s:
        monkeypatch.setenv("http_proxy", s.url)
        _, blocks = receive(Address("http://hub.example/x"), 0, "", Patience(60.0), LIMITS, verified=True)
        assert b"".join(blocks) == b"by proxy"
        with pytest.raises(WeightsUnavailable, match="own network"):
            receive(Address("http://hub.example/in"), 0, "", Patience(60.0), LIMITS, verified=True)


def test_silent_server_is_given_up_in_time_and_not_asked_again() -> None:
    patience = Patience(0.5)
    with serving({"/": FAULTS["silent"][0]}) as server:
        began = time.monotonic()
        for _ in range(3):
            with pytest.raises(BrokenOff, match="cannot be reached"):
                receive(Address(server.url + "/"), 0, "", patience, LIMITS, verified=False)
        assert time.monotonic() - began < 7.0
        assert len(server.asked) == 1
    with pytest.raises(BrokenOff, match=r"^127\.0\.0\.2:1 was not tried"):
        receive(with_login("http://127.0.0.2:1/x"), 0, "", patience, LIMITS, verified=False)


def test_name_servers_that_never_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()

    def hang(*_: object, **__: object) -> list[object]:
        over.wait(8)
        raise socket.gaierror("no answer")

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    began = time.monotonic()
    with pytest.raises(BrokenOff, match=r"hub\.invalid cannot be reached"):
        receive(Address("https://hub.invalid/x"), 0, "", Patience(0.5), LIMITS, verified=False)
    assert time.monotonic() - began < 7.0
    over.set()


@pytest.mark.parametrize("fault", ["body-without-end", "trailers-without-end", "continue-without-end", "drips"])
def test_a_transfer_that_is_given_up_leaves_no_thread_behind(fault: str) -> None:
    with serving({"/": FAULTS[fault][0]}) as server:
        with pytest.raises(WeightsUnavailable):
            list(receive(Address(server.url + "/"), 0, "", Patience(60.0), SHORT, verified=False)[1])
        deadline = time.monotonic() + 15.0
        while any(thread.name == "quantkit-download" for thread in threading.enumerate()):
            assert time.monotonic() < deadline
            time.sleep(0.05)
