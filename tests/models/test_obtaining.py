"""Weights that several processes fetch at once, that a killed one has left, and that the disk has no room for."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.models.servers import Request, Server, head, serving, whole
from tests.models.test_download import CONTENT, HALF, SHA256, begun_at, names

# A process that obtains one source of a card: its outcome is the last line that it prints.
OBTAIN = """
import sys
from pathlib import Path
from quantkit.errors import QuantkitError
from quantkit.models.card import Card, WeightSource
from quantkit.models.transfer import Limits, Patience
from quantkit.models.weight_store import obtain

url, sha256 = sys.argv[1:]
source = WeightSource("url", url, sha256=sha256)
card = Card("net", Path("."), (3, 8, 8), 2, network="net", sources=(source,))
try:
    found = obtain(card, source, Patience(20.0), Limits(answer=10.0, stall=20.0), quiet=True)
    print("obtained", found.path.stat().st_size)
except QuantkitError as error:
    print(type(error).__name__, error)
"""


def obtaining(server: Server, home: Path, **options: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", OBTAIN, f"{server.url}/file.params", SHA256]
    environment = {**os.environ, "QUANTKIT_HOME": str(home)}
    return subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, **options)  # type: ignore[call-overload]


def cached(home: Path) -> Path | None:
    return next(home.glob("weights/url/*/file.params"), None)


def test_of_many_processes_one_fetches_and_nobody_sees_half_a_file(tmp_path: Path) -> None:
    def slowly(request: Request) -> Iterator[bytes]:
        answer = b"".join(whole(CONTENT)(request))
        for begin in range(0, len(answer), 1 << 16):
            yield answer[begin : begin + (1 << 16)]
            time.sleep(0.15)

    # The first is cut short, the second gets another file, and only the third brings what is wanted.
    answers = [whole(CONTENT, until=HALF), whole(CONTENT[::-1], etag='"two"'), slowly]
    given = iter([*answers, *[missing_now] * 20])
    seen = set()
    with serving({"/file.params": lambda request: next(given)(request)}) as server:
        processes = [obtaining(server, tmp_path) for _ in range(6)]
        while any(process.poll() is None for process in processes):
            path = cached(tmp_path)
            if path is not None:
                seen.add(path.read_bytes() == CONTENT)
            time.sleep(0.01)
        outcomes = sorted(str(process.communicate()[0]).split()[0] for process in processes)
        assert len(server.asked) == 3
    assert outcomes == ["BrokenOff", "WeightsUnavailable", *["obtained"] * 4]
    assert seen <= {True}
    path = cached(tmp_path)
    assert path is not None
    assert names(path.parent) == [".file.params.lock", "file.params"]


def missing_now(_: Request) -> Iterator[bytes]:
    yield head("404 Not Found", Content_Length=0)


def test_what_a_killed_process_left_is_gone_on_with(tmp_path: Path) -> None:
    def stops(request: Request) -> Iterator[bytes]:
        yield b"".join(whole(CONTENT, until=HALF)(request))
        time.sleep(30)

    with serving({"/file.params": stops}) as server:
        process = obtaining(server, tmp_path)
        part = None
        while part is None or part.stat().st_size < HALF - (1 << 17):
            part = next(tmp_path.glob("weights/url/*/.file.params.part"), None)
            assert process.poll() is None
            time.sleep(0.01)
        process.kill()
        process.wait()
        process.stdout.close()  # type: ignore[union-attr]
        assert cached(tmp_path) is None
        server.scripts["/file.params"] = whole(CONTENT)
        assert str(obtaining(server, tmp_path).communicate()[0]).split()[0] == "obtained"
        assert begun_at(server).startswith("bytes=")
    assert names(part.parent) == [".file.params.lock", "file.params"]


def test_a_full_disk_is_told_with_the_remedy_and_emptied_again(tmp_path: Path) -> None:
    def full() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (HALF, HALF))

    with serving({"/file.params": whole(CONTENT)}) as server:
        outcome = str(obtaining(server, tmp_path, preexec_fn=full).communicate()[0])
    assert outcome.startswith("QuantkitError cannot write")
    assert "free space, or set QUANTKIT_HOME" in outcome
    assert names(next(tmp_path.glob("weights/url/*"))) == [".file.params.lock"]
