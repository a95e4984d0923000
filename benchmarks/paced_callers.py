"""Load on an HTTP server, from threads of this process, which know of each request what became of it."""

from __future__ import annotations

import http.client
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional
from urllib.parse import urlsplit

# Seconds after which nobody waits for an answer.
_PATIENCE = 60.0

UNANSWERED = "none"
"""The status of requests without a whole answer."""

_ERRORS = (OSError, http.client.HTTPException)


@dataclass
class Found:
    """What came of the requests of a caller: the times of those answered with 200, in ms, and how many were others."""

    latencies: list[float] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)


def ask(
    url: str, body: Path, headers: Mapping[str, str], callers: int, seconds: float, rate: Optional[float] = None
) -> Found:
    """Send the same request again and again, each caller over a connection that it keeps.

    Args:
        url: where to.
        body: the request.
        headers: of it.
        callers: how many there are.
        seconds: for how long.
        rate: requests per second of all callers together, evenly spaced; one that is late sends at once. None: as fast
            as they are answered.
    """
    begun, content = time.monotonic(), body.read_bytes()

    def call(number: int) -> Found:
        found, connection = Found(), _connection(url)
        pause = 0.0 if rate is None else callers / rate
        due = begun + number * pause / callers
        while due < begun + seconds and time.monotonic() < begun + seconds:
            time.sleep(max(0.0, due - time.monotonic()))
            due += pause
            sent = time.perf_counter()
            try:
                connection.request("POST", urlsplit(url).path, content, dict(headers))
                answer = connection.getresponse()
                answer.read()
            except _ERRORS:
                found.others[UNANSWERED] += 1
                connection.close()
                connection = _connection(url)
                continue
            if answer.status == 200:
                found.latencies.append(1e3 * (time.perf_counter() - sent))
            else:
                found.others[str(answer.status)] += 1
        connection.close()
        return found

    whole = Found()
    with ThreadPoolExecutor(callers) as threads:
        for each in threads.map(call, range(callers)):
            whole.latencies += each.latencies
            whole.others += each.others
    return whole


def _connection(url: str) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(urlsplit(url).netloc, timeout=_PATIENCE)
