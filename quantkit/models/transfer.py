"""Receiving a file over HTTP from a server that may be slow, endless or hostile.

All network access runs in a separate thread, and the caller waits on a queue: no time-out bounds the lookup of a name
or a server that drips byte by byte.
"""

from __future__ import annotations

import http.client
import queue
import re
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional, Union
from urllib.parse import urljoin, urlsplit

from quantkit.errors import WeightsUnavailable
from quantkit.models.address import Address, check_address

if TYPE_CHECKING:
    import requests

_CONNECT = 3.0
_REDIRECTIONS = 5
_BLOCK = 1 << 16
# Blocks received ahead of the one that is being written.
_AHEAD = 16
_STATUSES = {status.value for status in http.HTTPStatus}


@dataclass(frozen=True)
class Limits:
    """The limits of one transfer.

    ``answer``: seconds until the response begins, including name lookups and redirections. ``stall``: seconds in
    which at least 64 KiB must arrive. ``total``: seconds for everything. ``largest``: bytes, of the file and of an
    archive around it.
    """

    answer: float = 4.0
    stall: float = 20.0
    total: float = 7200.0
    largest: int = 2 << 30


LIMITS = Limits()


class BrokenOff(WeightsUnavailable):
    """A transfer was interrupted and may be resumed later."""


class Patience:
    """The time left for waiting for all hosts together, and the hosts that did not respond."""

    def __init__(self, seconds: float) -> None:
        """``seconds``: the time for all hosts together."""
        self._left = seconds
        self._silent: dict[str, str] = {}

    def wait_for(self, host: str, most: float) -> float:
        """Seconds that ``host`` may take to respond.

        Raises:
            BrokenOff: it did not respond before, or no time is left.
        """
        if host in self._silent:
            raise BrokenOff(self._silent[host])
        if self._left <= 0.0:
            raise BrokenOff(f"{host} was not tried: no time was left after the hosts before it")
        return min(most, self._left)

    def spend(self, seconds: float) -> None:
        """Subtract time that was spent waiting."""
        self._left -= seconds

    def give_up(self, host: str, reason: str) -> BrokenOff:
        """Never wait for ``host`` again; returns the error to raise."""
        self._silent[host] = f"{host} cannot be reached ({reason})"
        return BrokenOff(self._silent[host])


@dataclass(frozen=True)
class Head:
    """A server's description of a file, from the headers of its response.

    ``begin`` is the offset of the first byte that follows, ``total`` the size of the whole file if it
    is stated, ``version`` a strong ETag or empty. ``commit`` and ``sha256`` come from the Hugging Face hub.
    """

    begin: int
    total: Optional[int]
    version: str
    commit: str
    sha256: Optional[str]


_Item = Union[Head, bytes, Exception, None]


class _Unread(Exception):
    """The caller has stopped waiting for the transfer."""


class _Line:
    """The connections of one transfer, which the caller can cut."""

    def __init__(self) -> None:
        self.cut = threading.Event()
        self._sockets: list[socket.socket] = []

    def hang_up(self) -> None:
        """End the transfer, whatever it is doing: http.client reads interim answers and trailers without end."""
        self.cut.set()
        for connection in self._sockets:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def session(self) -> requests.Session:
        """A session whose connections all belong to this line."""
        import requests

        line = self

        class Adapter(requests.adapters.HTTPAdapter):
            def get_connection_with_tls_context(self, *arguments: Any, **named: Any) -> Any:
                pool = super().get_connection_with_tls_context(*arguments, **named)
                base: Any = pool.ConnectionCls

                class Connection(base):  # type: ignore[misc]
                    def connect(self) -> None:
                        super().connect()
                        line._sockets.append(self.sock)
                        if line.cut.is_set():
                            raise _Unread

                pool.ConnectionCls = Connection
                return pool

        session = requests.Session()
        session.mount("http://", Adapter())
        session.mount("https://", Adapter())
        return session


def receive(
    url: Address, begin: int, version: str, patience: Patience, limits: Limits, verified: bool
) -> tuple[Head, Iterator[bytes]]:
    """Request a file, from byte ``begin`` on if it still has this ``version``; returns its headers and its bytes.

    ``verified`` says whether the bytes will be compared with a known hash: only then may they come by plain http.

    Raises:
        WeightsUnavailable: the address or a redirection is rejected; the host does not respond with the file;
            later, from the iterator: the file is larger than ``limits`` allow or the server stated.
        BrokenOff: the host cannot be reached within ``patience`` or fails; later, from the iterator: the transfer
            is interrupted or too slow.
    """
    check_address(url, url, verified)
    host = urlsplit(str(url)).netloc
    seconds = patience.wait_for(host, limits.answer)
    headers = {"Accept-Encoding": "identity"}
    if begin:
        # If the file has changed since, the server sends the new one whole.
        headers.update({"Range": f"bytes={begin}-", "If-Range": version})
    items: queue.Queue[_Item] = queue.Queue(_AHEAD)
    line = _Line()
    began = time.monotonic()
    threading.Thread(
        target=_read, args=(url, begin, headers, verified, limits, items, line), daemon=True, name="quantkit-download"
    ).start()
    try:
        head = items.get(timeout=seconds)
    except queue.Empty:
        line.hang_up()
        raise patience.give_up(host, f"no answer within {seconds:.0f} s") from None
    except BaseException:
        line.hang_up()
        raise
    finally:
        patience.spend(time.monotonic() - began)
    if isinstance(head, WeightsUnavailable):
        raise head
    if not isinstance(head, Head):
        raise patience.give_up(host, type(head).__name__) from (head if isinstance(head, Exception) else None)
    return head, _blocks(url, head, items, line, limits)


def _blocks(url: Address, head: Head, items: queue.Queue[_Item], line: _Line, limits: Limits) -> Iterator[bytes]:
    have, fresh = head.begin, 0
    most = limits.largest if head.total is None else head.total
    now = time.monotonic()
    end, due = now + limits.total, now + limits.stall
    try:
        while True:
            try:
                item = items.get(timeout=max(0.0, min(end, due) - time.monotonic()))
            except queue.Empty:
                item = b""
            now = time.monotonic()
            if item is None:
                return
            if isinstance(item, Exception):
                raise BrokenOff(f"{url} broke off after {have} of {head.total or 'unknown'} bytes") from item
            if not isinstance(item, bytes) or now >= min(end, due):
                limit = f"{limits.total:.0f} s" if now >= end else f"64 KiB in {limits.stall:.0f} s"
                raise BrokenOff(f"{url} is too slow (allowed: {limit}): {have} of {head.total or 'unknown'} bytes came")
            have += len(item)
            fresh += len(item)
            if have > most:
                raise WeightsUnavailable(f"{url} delivers more than the {most} bytes that are stated or allowed")
            if fresh >= _BLOCK:
                due, fresh = now + limits.stall, 0
            yield item
            # A slow disk is not the server's fault.
            busy = time.monotonic() - now
            end, due = end + busy, due + busy
    finally:
        line.hang_up()


def _read(
    url: Address,
    begin: int,
    headers: Mapping[str, str],
    verified: bool,
    limits: Limits,
    items: queue.Queue[_Item],
    line: _Line,
) -> None:
    """Put the head, the blocks and None into the queue; an exception ends them early."""
    import requests
    import urllib3

    def put(item: _Item) -> None:
        while not line.cut.is_set():
            with suppress(queue.Full):
                return items.put(item, timeout=0.1)
        raise _Unread

    with suppress(_Unread), line.session() as session:
        try:
            answer, hub = _answer(session, url, headers, verified, limits)
            with closing(answer):
                put(_head(url, begin, answer, hub, limits))
                # Undecoded: decoding could make a large file of a small response.
                while block := answer.raw.read1(_BLOCK, decode_content=False):
                    put(block)
            put(None)
        except (
            WeightsUnavailable,
            requests.RequestException,
            urllib3.exceptions.HTTPError,
            http.client.HTTPException,
            OSError,
            ValueError,
        ) as error:
            put(error)


def _answer(
    session: requests.Session, url: Address, headers: Mapping[str, str], verified: bool, limits: Limits
) -> tuple[requests.Response, Mapping[str, str]]:
    """The response after all redirections, its content unread, and the headers of the first response."""
    here, hub = url, None
    for _ in range(_REDIRECTIONS + 1):
        check_address(here, url, verified)
        answer = session.get(
            here.full, headers=dict(headers), stream=True, timeout=(_CONNECT, limits.stall), allow_redirects=False
        )
        hub = answer.headers if hub is None else hub
        if not answer.is_redirect:
            return answer, hub
        answer.close()
        here = Address(urljoin(here.full, answer.headers["Location"]))
    raise WeightsUnavailable(f"{url} redirects more than {_REDIRECTIONS} times")


def _head(url: Address, begin: int, answer: requests.Response, hub: Mapping[str, str], limits: Limits) -> Head:
    if answer.status_code not in (200, 206):
        # The standard phrase: the server's own text is untrusted.
        reason = http.HTTPStatus(answer.status_code).phrase if answer.status_code in _STATUSES else ""
        kind = BrokenOff if answer.status_code >= 500 else WeightsUnavailable
        raise kind(f"{url} answers {answer.status_code} {reason}".rstrip())
    if answer.headers.get("Content-Encoding", "identity").strip().lower() not in ("", "identity"):
        raise WeightsUnavailable(f"{url} answers in an encoding that was not asked for")
    total, start = _number(answer.headers.get("Content-Length")), 0
    if answer.status_code == 206:
        span = re.fullmatch(r"bytes (\d{1,18})-\d{1,18}/(\d{1,18})", answer.headers.get("Content-Range", ""))
        if span is None or int(span[1]) != begin:
            raise WeightsUnavailable(f"{url} answers with another part of the file than was asked for")
        start, total = begin, int(span[2])
    if total is not None and total > limits.largest:
        raise WeightsUnavailable(f"{url} has {total} bytes, more than the {limits.largest} allowed")
    tag = answer.headers.get("ETag", "")
    linked = re.fullmatch(r'"?([0-9a-f]{64})"?', hub.get("X-Linked-Etag", ""))
    commit = re.fullmatch(r"[0-9a-f]{40}", hub.get("X-Repo-Commit", ""))
    return Head(
        begin=start,
        total=total,
        version=tag if re.fullmatch(r'"[!-~]{1,200}"', tag) else "",
        commit=commit[0] if commit else "",
        sha256=linked[1] if linked else None,
    )


def _number(text: Optional[str]) -> Optional[int]:
    return int(text) if text is not None and re.fullmatch(r"\d{1,18}", text) else None
