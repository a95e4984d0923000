"""What requests may take: more of them, larger ones, and slower ones than a server bears."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from quantkit.deployment.serving.limits import Limits
from quantkit.deployment.serving.messages import JSON_LENGTH
from quantkit.deployment.serving.served import Served
from tests.deployment.serving.conftest import PATIENCE, Held, ask
from tests.deployment.serving.test_server import (
    FLOATS,
    INFER,
    figures,
    file_of,
    head,
    of_files,
    opened,
    request,
    until,
)

Serve = Callable[..., str]


def test_time_that_a_request_gives_itself(server: str) -> None:
    answer = ask(server, INFER, request(FLOATS, parameters={"timeout": 1}))
    assert (answer.status, answer.error) == (504, "the request was not answered in its time")


def test_large_requests_are_refused(served: Serve) -> None:
    small = served(Limits(body=1000))
    assert "1001 bytes; this server takes 1000" in ask(small, INFER, b"x" * 1001).error
    assert ask(small, INFER, b"x" * 1000).status == 400
    with opened(small) as connection:
        connection.sendall(head("Transfer-Encoding: chunked") + b"3e9\r\n" + b"x" * 1001 + b"\r\n")
        assert b" 413 " in connection.recv(100)


@pytest.mark.parametrize("shape", [[100], [1, 100]])
def test_files_count_one_by_one_whatever_their_shape(served: Serve, shape: list[int]) -> None:
    small = served(Limits(body=50_000, memory=600_000))
    body, length = of_files(*[file_of(np.zeros((32, 32, 3), np.uint8))] * 100)
    document = json.loads(body[: int(length)])
    document["inputs"][0]["shape"] = shape
    text = json.dumps(document).encode()
    answer = ask(small, INFER, text + body[int(length) :], **{JSON_LENGTH: str(len(text))})
    assert (answer.status, answer.error) == (413, "the request takes too much memory; send fewer samples at a time")


def test_requests_beyond_the_most_are_refused(served: Serve, held: Held) -> None:
    busy = served(Limits(requests=1))
    with ThreadPoolExecutor(1) as executor:
        first = executor.submit(ask, busy, INFER, request(FLOATS))
        assert held.entered.wait(PATIENCE)
        assert "quantkit_requests_running 1.0" in figures(busy)
        answer = ask(busy, INFER, request(FLOATS))
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert answer.error == "as many requests as this server takes are being served; try again later"
        assert ask(busy, "/v2/health/live").status == 200
        held.free.set()
        assert first.result().status == 200
    assert ask(busy, INFER, request(FLOATS)).status == 200


def test_requests_that_are_still_sent_take_no_place(served: Serve) -> None:
    quick = served(Limits(requests=1))
    with opened(quick) as connection:
        connection.sendall(head("Content-Length: 10") + b"half")
        assert ask(quick, INFER, request(FLOATS)).status == 200


def test_all_requests_together_have_a_bound_of_memory(served: Serve) -> None:
    busy = served(Limits(body=1000, memory=2000))
    with opened(busy) as one, opened(busy) as other:
        for connection in (one, other):
            connection.sendall(head("Content-Length: 1000") + b"x" * 900)
        until(lambda: ask(busy, INFER, b"x" * 300).status == 503)
    until(lambda: ask(busy, INFER, b"x" * 300).status == 400)


def test_small_requests_for_many_samples_are_refused(served: Serve) -> None:
    bounded = served(Limits(body=100_000, memory=200_000))
    assert ask(bounded, INFER, request(np.zeros((10, 1, 1, 3)), "UINT8")).status == 200
    answer = ask(bounded, INFER, request(np.zeros((20, 1, 1, 3)), "UINT8"))
    assert (answer.status, answer.error) == (413, "the request takes too much memory; send fewer samples at a time")


def test_images_that_grow_count_as_they_are_scaled(server: str) -> None:
    thin = np.zeros((1, 2000, 3), np.uint8)
    body, length = of_files(file_of(thin))
    assert (
        "pixels together, in the files or as they are scaled to"
        in ask(server, INFER, body, **{JSON_LENGTH: length}).error
    )


def test_long_lists_are_refused(server: str) -> None:
    size = {"binary_data_size": 90_000}
    tensor = {"name": "data", "datatype": "UINT8", "shape": [30_000, 1, 1, 3], "parameters": size}
    text = json.dumps({"inputs": [tensor]}).encode()
    answer = ask(server, INFER, text + bytes(90_000), **{JSON_LENGTH: str(len(text))})
    assert answer.status == 400
    assert "would list 300000 values, and this server lists 250000; ask for the outputs as bytes" in answer.error


def test_a_thread_is_waited_for_where_the_time_is_up(served: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()

    def slow(*given: Any) -> list[np.ndarray]:
        time.sleep(1.0)
        ended.set()
        return []

    hasty = served(Limits(seconds=0.2))
    monkeypatch.setattr(Served, "batches", slow)
    assert ask(hasty, INFER, request(FLOATS)).status == 504
    # Until then it counts as running, with its memory.
    assert ended.is_set()


def test_large_documents_and_compressed_requests_are_refused(served: Serve) -> None:
    bounded = served(Limits(json=1000))
    answer = ask(bounded, INFER, request(FLOATS))
    assert answer.status == 400
    assert "and this server reads 1000; send tensors as bytes" in answer.error
    assert ask(bounded, INFER, b"x", Content_Encoding="gzip").status == 415


def test_who_goes_away_is_not_served(served: Serve, held: Held) -> None:
    busy = served()
    with opened(busy) as connection:
        body = json.dumps(request(FLOATS)).encode()
        connection.sendall(head(f"Content-Length: {len(body)}") + body)
        assert held.entered.wait(PATIENCE)
    until(lambda: "quantkit_requests_running 0.0" in figures(busy))
    assert 'status="499"' in figures(busy)


@pytest.mark.parametrize("error", [ValueError("inside"), MemoryError("inside")])
def test_whatever_fails_gets_an_answer(
    server: str, monkeypatch: pytest.MonkeyPatch, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*given: Any) -> None:
        raise error

    monkeypatch.setattr(Served, "batches", fail)
    answer = ask(server, INFER, request(FLOATS))
    assert (answer.status, answer.error) == (500, "the model failed; the server's log says why")
    assert "inside" in caplog.text


def test_bodies_that_do_not_come_are_not_waited_for(served: Serve) -> None:
    hasty = served(Limits(seconds=0.2))
    with opened(hasty) as connection:
        connection.sendall(head("Content-Length: 10") + b"half")
        assert b" 504 " in connection.recv(100)
