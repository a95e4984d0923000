"""Which samples are run in FP32, and what is told of them."""

from __future__ import annotations

import time
from typing import Optional

import numpy as np
import pytest
from scipy.stats import binomtest

from quantkit.deployment.watching.shadow import Shadow, ShadowRows, ShadowStatus
from quantkit.errors import EngineError

# Logits, from sure to unsure of class 0.
INT8 = np.array([[5.0, 0.0, 0.0], [0.2, 0.1, 0.0], [0.1, 0.0, 0.0], [4.0, 0.0, 1.0]], np.float32)
DEADLINE = 5.0
BATCH = np.arange(4, dtype=np.float32)[:, None]


def shadow(every: int, below: float, runs: list[np.ndarray]) -> Shadow:
    """FP32 is of the opposite opinion of the last two samples."""
    exact = INT8 * np.array([[1], [1], [-1], [-1]], np.float32)

    def run(batch: np.ndarray, deadline: Optional[float]) -> list[np.ndarray]:
        deadlines.append(deadline)
        runs.append(batch)
        return [exact[batch[:, 0].astype(int)]]

    return Shadow(run, every, below)


deadlines: list[Optional[float]] = []


def answered(shadow: Shadow) -> np.ndarray:
    outputs = [INT8.copy()]
    rows = shadow.rows(outputs)
    found = shadow.answered(BATCH, outputs, rows, DEADLINE)[0] if rows else outputs
    # What was handed in may be the engine's own.
    np.testing.assert_array_equal(outputs[0], INT8)
    return found[0]


def test_what_is_compared_keeps_its_answer() -> None:
    runs: list[np.ndarray] = []
    tried = shadow(1, 0.0, runs)
    for _ in range(3):
        np.testing.assert_array_equal(answered(tried), INT8)
    assert [run[:, 0].tolist() for run in runs] == [[0, 1, 2, 3]] * 3
    assert tried.status == ShadowStatus(compared=12, agreeing=6)


def test_it_is_told_which_of_the_compared_agree() -> None:
    rows = ShadowRows(compared=np.array([False, True, True, False]), unsure=np.array([True, False, False, True]))
    _, agreeing = shadow(1, 0.1, []).answered(BATCH, [INT8], rows, DEADLINE)
    assert agreeing.tolist() == [True, False]


def test_what_is_only_compared_does_not_wait_for_long() -> None:
    for below, allowed in ((0.0, 1.0), (0.1, 100.0)):
        deadlines.clear()
        soon = time.monotonic()
        tried = shadow(1, below, [])
        outputs = [INT8.copy()]
        tried.answered(BATCH, outputs, tried.rows(outputs), soon + 100)
        (deadline,) = deadlines
        assert deadline is not None
        assert (deadline - soon <= 1.0) == (allowed == 1.0)


def test_one_of_so_many_samples_is_compared() -> None:
    tried = shadow(50, 0.0, [])
    rows = [tried.rows([np.zeros((7, 3))]).compared for _ in range(10_000)]
    # Within five standard deviations, at every place in a batch.
    assert np.sum(rows, axis=0) == pytest.approx(np.full(7, 200), abs=5 * 14)


def test_what_cannot_be_compared_keeps_its_answer_and_is_counted() -> None:
    def fail(batch: np.ndarray, deadline: Optional[float]) -> list[np.ndarray]:
        raise EngineError("it is too hot")

    tried = Shadow(fail, 1, 0.0)
    np.testing.assert_array_equal(answered(tried), INT8)
    assert tried.status == ShadowStatus(failed=4)
    with pytest.raises(EngineError, match="too hot"):
        answered(Shadow(fail, 0, 0.1))


def test_close_calls_are_answered_in_fp32() -> None:
    runs: list[np.ndarray] = []
    tried = shadow(0, 0.1, runs)
    np.testing.assert_array_equal(answered(tried), np.stack([INT8[0], INT8[1], -INT8[2], INT8[3]]))
    assert [run[:, 0].tolist() for run in runs] == [[1, 2]]
    assert tried.status == ShadowStatus(answered=2)


def test_a_margin_is_of_probabilities() -> None:
    for final, scores in ((None, INT8), ("softmax", np.exp(INT8) / np.exp(INT8).sum(1, keepdims=True))):
        tried = Shadow(lambda batch, deadline: [], 0, 0.04, final)  # type: ignore[arg-type]
        assert tried.rows([scores.astype(np.float32)]).unsure.tolist() == [False, True, True, False]


def test_nothing_is_run_where_nothing_is_wanted() -> None:
    runs: list[np.ndarray] = []
    np.testing.assert_array_equal(answered(shadow(0, 0.0, runs)), INT8)
    bad = np.full((4, 3), np.nan, np.float32)
    assert not shadow(0, 0.5, runs).rows([bad])
    assert runs == []


@pytest.mark.parametrize(("agreeing", "samples"), [(0, 5), (7, 9), (100, 100), (995, 1000)])
def test_the_interval_is_wilsons(agreeing: int, samples: int) -> None:
    found = ShadowStatus(samples, agreeing).agreement
    interval = binomtest(agreeing, samples).proportion_ci(method="wilson")
    assert found == pytest.approx((agreeing / samples, interval.low, interval.high))
    assert ShadowStatus().agreement is None
