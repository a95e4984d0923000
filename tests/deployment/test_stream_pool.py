"""A predictor whose network runs in streams of this process."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantkit.deployment import stream_pool
from quantkit.deployment.loading import load
from quantkit.deployment.network import RunningNetwork
from quantkit.deployment.predictor import Predictor
from quantkit.deployment.request import Piece
from quantkit.deployment.runner import RunnerStatus
from quantkit.deployment.stream_pool import StreamPool
from quantkit.deployment.streams import Streams
from quantkit.errors import DeadlineExceeded, EngineError, ForkError, UserError
from tests.requirements import requires

requires("onnx", "onnxruntime", "openvino")

LIMIT = 60.0


ENGINES = ("onnxruntime", "openvino")


@pytest.fixture(scope="module", params=ENGINES)
def single(digits_onnx: Path, request: pytest.FixtureRequest) -> Predictor:
    """The network once at a time."""
    return load(digits_onnx, engine=request.param)


@pytest.fixture
def predictor(digits_onnx: Path, single: Predictor) -> Iterator[Predictor]:
    with load(digits_onnx, engine=single.engine, instances=Streams(2, batch=4)) as loaded:
        yield loaded


@pytest.fixture
def expected(single: Predictor, inputs: np.ndarray) -> np.ndarray:
    return single.predict(inputs)


def same(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4 * np.abs(expected).max())


def samples(status: RunnerStatus) -> int:
    """How many have been begun with."""
    return sum(size * number for size, number in status.batches.items())


def test_results_are_those_of_one_network(predictor: Predictor, inputs: np.ndarray, expected: np.ndarray) -> None:
    assert "2 streams" in repr(predictor)
    same(predictor.predict(inputs), expected)
    same(np.stack([*predictor.stream(inputs)]), expected)
    same(asyncio.run(predictor.predict_async(inputs)), expected)


def test_any_thread_may_ask(predictor: Predictor, inputs: np.ndarray, expected: np.ndarray) -> None:
    with ThreadPoolExecutor(8) as threads:
        found = [*threads.map(lambda one: predictor.predict(one, timeout=LIMIT), inputs)]
    same(np.concatenate(found), expected)


def test_streams_of_several_threads(
    digits_onnx: Path, single: Predictor, inputs: np.ndarray, expected: np.ndarray
) -> None:
    with load(digits_onnx, engine=single.engine, instances=Streams(2, threads=2)) as predictor:
        same(predictor.predict(inputs), expected)


def test_streams_run_at_the_same_time(
    predictor: Predictor, inputs: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = threading.Barrier(2, timeout=LIMIT)
    compute = stream_pool._compute

    def together(network: RunningNetwork, pieces: Sequence[Piece]) -> None:
        both.wait()
        compute(network, pieces)

    monkeypatch.setattr(stream_pool, "_compute", together)
    # One stream alone would wait for the other until the barrier breaks.
    predictor.predict(inputs[:8], timeout=LIMIT)
    predictor.predict(inputs[:2], timeout=LIMIT)


def test_requests_that_wait_are_put_together(
    predictor: Predictor, inputs: np.ndarray, expected: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = threading.Event()
    compute = stream_pool._compute

    def held(network: RunningNetwork, pieces: Sequence[Piece]) -> None:
        free.wait(LIMIT)
        compute(network, pieces)

    monkeypatch.setattr(stream_pool, "_compute", held)
    with ThreadPoolExecutor(10) as threads:
        found = [threads.submit(predictor.predict, one, LIMIT) for one in inputs[:10]]
        while (status := predictor.status()).waiting + samples(status) < 10:
            time.sleep(0.001)
        free.set()
        same(np.concatenate([each.result() for each in found]), expected[:10])
    batches = predictor.status().batches
    assert samples(predictor.status()) == 10
    assert sum(batches.values()) < 10
    assert max(batches) <= 4


def threads_of(predictor: Predictor) -> list[str]:
    """The names of the threads that compute from now on."""
    pool, names = predictor._runner, list[str]()
    assert isinstance(pool, StreamPool)

    def noted(network: RunningNetwork) -> RunningNetwork:
        def run(batch: np.ndarray) -> list[np.ndarray]:
            names.append(threading.current_thread().name)
            return network.run(batch)

        return replace(network, run=run)

    pool._idle[:] = map(noted, pool._idle)
    return names


def test_a_single_sample_is_computed_in_the_callers_thread(
    predictor: Predictor, inputs: np.ndarray, expected: np.ndarray
) -> None:
    names, own = threads_of(predictor), threading.current_thread().name
    same(predictor.predict(inputs[0]), expected[:1])
    assert names == [own]
    same(predictor.predict(inputs[0], timeout=LIMIT), expected[:1])
    same(asyncio.run(predictor.predict_async(inputs[0])), expected[:1])
    same(predictor.predict(inputs[:3]), expected[:3])
    assert set(names[1:]) == {"quantkit stream"}
    assert predictor.status().batches[1] >= 3


def test_a_single_sample_waits_where_a_window_is_to_fill_batches(
    digits_onnx: Path, single: Predictor, inputs: np.ndarray, expected: np.ndarray
) -> None:
    with load(digits_onnx, engine=single.engine, instances=Streams(2, window=0.01)) as predictor:
        names = threads_of(predictor)
        same(predictor.predict(inputs[0]), expected[:1])
    assert names == ["quantkit stream"]


def test_a_single_sample_waits_while_no_stream_is_idle(
    predictor: Predictor, inputs: np.ndarray, expected: np.ndarray
) -> None:
    pool = predictor._runner
    assert isinstance(pool, StreamPool)
    names, queue = threads_of(predictor), pool._requests.queue
    assert [queue.pass_by(1) for _ in range(pool.streams)] == pool.streams * [True]
    with ThreadPoolExecutor(1) as threads:
        found = threads.submit(predictor.predict, inputs[0])
        while not predictor.status().waiting and not found.done():
            time.sleep(0.001)
        queue.give_back()
        same(found.result(LIMIT), expected[:1])
    assert names == ["quantkit stream"]


def test_a_single_sample_that_fails_gives_its_stream_back(
    predictor: Predictor, inputs: np.ndarray, expected: np.ndarray
) -> None:
    pool = predictor._runner
    assert isinstance(pool, StreamPool)
    sound = list(pool._idle)

    def failing(batch: np.ndarray) -> list[np.ndarray]:
        raise EngineError("broken")

    pool._idle[:] = [replace(network, run=failing) for network in sound]
    for _ in range(2 * pool.streams):
        with pytest.raises(EngineError, match="broken"):
            predictor.predict(inputs[0])
    pool._idle[:] = sound
    same(predictor.predict(inputs[0]), expected[:1])


def test_callers_of_all_kinds_at_once(predictor: Predictor, inputs: np.ndarray, expected: np.ndarray) -> None:
    def ask(number: int) -> np.ndarray:
        if number % 3 == 2:
            return asyncio.run(predictor.predict_async(inputs[number % 30 : number % 30 + 2]))
        return predictor.predict(inputs[number % 30], timeout=LIMIT if number % 3 else None)

    with ThreadPoolExecutor(6) as threads:
        found = [*threads.map(ask, range(200))]
    for number, each in enumerate(found):
        same(each, expected[number % 30 :][: len(each)])
    assert predictor.status().waiting == 0


def test_the_threads_end_with_the_predictor(predictor: Predictor) -> None:
    threads = [thread for thread in threading.enumerate() if thread.name == "quantkit stream"]
    assert len(threads) >= 2
    predictor.close()
    assert sum(thread.is_alive() for thread in threads) <= len(threads) - 2


def test_a_fork_does_not_use_them(predictor: Predictor, inputs: np.ndarray, expected: np.ndarray) -> None:
    child = os.fork()
    if child == 0:
        try:
            predictor.predict(inputs[:1], timeout=LIMIT)
        except ForkError:
            os._exit(7)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    same(predictor.predict(inputs), expected)


def test_errors_reach_the_caller_and_the_streams_go_on(
    predictor: Predictor, inputs: np.ndarray, expected: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*given: Any) -> None:
        raise EngineError("broken")

    with monkeypatch.context() as patch:
        patch.setattr(stream_pool, "_compute", failing)
        with pytest.raises(EngineError, match="broken"):
            predictor.predict(inputs, timeout=LIMIT)
    same(predictor.predict(inputs), expected)


def test_deadlines_hold(predictor: Predictor, inputs: np.ndarray) -> None:
    with pytest.raises(DeadlineExceeded):
        predictor.predict(inputs, timeout=0.0)


def test_a_closed_one_is_closed(predictor: Predictor, inputs: np.ndarray) -> None:
    predictor.close()
    predictor.close()
    with pytest.raises(UserError, match="the predictor is closed"):
        predictor.predict(inputs)


def test_mxnet_has_no_streams(directory: Path) -> None:
    with pytest.raises(UserError, match="MXNet has no streams; use instances, or ONNX Runtime or OpenVINO"):
        load(directory, engine="mxnet", instances=Streams(2))


def test_bundles_without_an_onnx_file_are_refused(directory: Path) -> None:
    with pytest.raises(UserError, match="runs ONNX files"):
        load(directory, engine="openvino", instances=Streams(2))


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"number": 0}, "number is 0"),
        ({"threads": 0}, "threads is 0"),
        ({"batch": 0}, "batch"),
        ({"window": -1}, "window"),
    ],
)
def test_streams_that_cannot_be(values: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=told):
        Streams(**values)


def test_as_many_as_there_are_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quantkit.deployment.streams.session_threads", lambda: 6)
    assert [Streams().count, Streams(threads=4).count, Streams(threads=9).count, Streams(3).count] == [6, 1, 1, 3]
