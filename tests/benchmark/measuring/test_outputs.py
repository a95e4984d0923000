"""Outputs of two builds held against each other: what cannot be compared never passes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from quantkit.benchmark.measuring.outputs import deviation, int8_allowed

NAN, INF = float("nan"), float("inf")


def _saved(path: Path, *outputs: list[float]) -> Path:
    np.savez(path, *(np.array(output, np.float32) for output in outputs))
    return path


def test_the_largest_deviation_over_the_largest_value(tmp_path: Path) -> None:
    one = _saved(tmp_path / "one.npz", [1.0, -4.0], [0.0, 10.0])
    other = _saved(tmp_path / "other.npz", [1.0, -3.0], [0.5, 10.0])
    assert deviation(one, other) == pytest.approx(0.25)
    assert deviation(one, one) == 0.0


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        ([[1.0]], [[NAN]]),
        ([[NAN]], [[NAN]]),
        ([[NAN]], [[1.0]]),
        ([[INF]], [[INF]]),
        ([[1.0, 2.0]], [[1.0]]),
        ([[1.0]], [[1.0], [1.0]]),
        ([[0.0]], [[1.0]]),
        ([[]], [[]]),
        ([], []),
    ],
)
def test_what_cannot_be_compared_is_infinitely_far(
    tmp_path: Path, expected: list[list[float]], found: list[list[float]]
) -> None:
    one, other = _saved(tmp_path / "one.npz", *expected), _saved(tmp_path / "other.npz", *found)
    assert deviation(one, other) == INF
    assert int8_allowed(one, other) == INF
