"""A predictor whose network runs in streams of this process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantkit.deployment import stream_pool
from quantkit.deployment.loading import load
from quantkit.deployment.predictor import Predictor
from quantkit.deployment.streams import Streams
from quantkit.errors import DeadlineExceeded, EngineError, UserError
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
