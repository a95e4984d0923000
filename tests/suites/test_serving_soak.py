"""The soak of a server: its verdict, its page, and one short load of each kind."""

from __future__ import annotations

import itertools
import threading
from dataclasses import asdict, replace
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Any

import pytest


def minutes(**last: Any) -> list[Any]:
    """An hour in which nothing happens but ``last``, in its last minute."""
    from serving_soak import Minute

    usual = {"answered": 1000, "others": {}, "p50": 1.0, "p99": 2.0, "largest": 3.0}
    usual |= {"memory": 10**8, "descriptors": 50, "threads": 20, "processes": [1, 2]}
    kinds = ("bytes", "files", "JSON")
    found = [{**usual, "kind": kinds[number % 3]} for number in range(60)]
    return [Minute(**each) for each in [*found[:-1], {**found[-1], **last}]]


@pytest.mark.parametrize(
    ("last", "well"),
    [
        ({}, True),
        ({"others": {"503": 1}}, False),
        ({"descriptors": 51}, False),
        ({"threads": 21}, False),
        ({"processes": [1, 3]}, False),
    ],
)
def test_a_server_is_well_where_all_is_answered_and_nothing_grows(last: dict[str, Any], well: bool) -> None:
    from serving_soak import is_well

    assert is_well(minutes(**last)) == well


@pytest.mark.parametrize(("each", "well"), [(8, True), (25, False)])
def test_memory_may_grow_by_less_than_a_block_for_two_requests(each: int, well: bool) -> None:
    from serving_soak import is_well

    grown = [replace(minute, memory=10**8 + 1000 * each * place) for place, minute in enumerate(minutes())]
    assert is_well(grown) == well


def test_the_page_tells_answers_and_growth() -> None:
    from serving_soak import page

    document = {"command": "python x", "host": {"cpu": "y"}, "capacity": {"bytes": 500.0, "files": 400.0, "JSON": 90.0}}
    written = page({**document, "minutes": [asdict(each) for each in minutes(others={"503": 2})]}).splitlines()
    assert "| bytes | 500 | 20000 | none | 1.0 | 2.0 | 3.0 |" in written
    assert "| JSON | 90 | 20000 | 2 of 503 | 1.0 | 2.0 | 3.0 |" in written
    assert "| memory, MB | 100.0 | 100.0 | 100.0 | +0.00 [+0.00, +0.00] | flat |" in written
    assert "| threads | 20 | 20 | 20 | at most 20 | flat |" in written


@pytest.mark.timing
def test_each_kind_of_request_is_answered(int8_engine: None, digits_usual: Path, tmp_path: Path) -> None:
    from serving import served
    from serving_soak import _bodies, _minute

    monitor = ["--monitor", "--events", str(tmp_path / "events")]
    with served(digits_usual, monitor) as (url, process):
        for kind, body in _bodies(digits_usual, tmp_path).items():
            minute = _minute(f"{url}/v2/models/{digits_usual.name}/infer", kind, body, 24.0, process, 4.0)
            assert (minute.kind, minute.others) == (kind, {})
            assert minute.answered > 0.7 * 4 * 24
            assert len(minute.processes) == 2
            # One of them alone has this much.
            assert minute.memory > 100e6
            assert minute.threads > 2


@pytest.mark.parametrize("cut", [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf"])
def test_requests_without_a_whole_answer_are_counted(cut: bytes, tmp_path: Path) -> None:
    from paced_callers import UNANSWERED, ask

    class Answer(StreamRequestHandler):
        asked = itertools.count()

        def handle(self) -> None:
            while self.rfile.readline():
                while self.rfile.readline().strip():
                    pass
                if next(self.asked) % 3 == 2:
                    self.wfile.write(cut)
                    return
                self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")

    (tmp_path / "body").write_bytes(b"")
    with ThreadingTCPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        found = ask(f"http://127.0.0.1:{server.server_address[1]}/", tmp_path / "body", {}, 1, 1.0, 60.0)
        server.shutdown()
    asked = len(found.latencies) + found.others[UNANSWERED]
    assert asked > 30
    assert found.others == {UNANSWERED: asked // 3}
