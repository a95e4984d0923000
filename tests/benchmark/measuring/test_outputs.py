"""Outputs of two builds held against each other: what cannot be compared never passes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from quantkit.benchmark.measuring import outputs
from quantkit.benchmark.measuring.outputs import (
    DETECTIONS_ALLOWED,
    FLOAT_ALLOWED,
    INT8_ALLOWED,
    allowed_for,
    deviation,
    int8_allowed,
    too_far,
)
from quantkit.host.cpu import Cpu

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


def _detections(path: Path, order: list[int], moved: float = 0.0) -> Path:
    """Four detections of an image, without overlaps, in this order."""
    ids = np.array([0.0, 1.0, 2.0, -1.0])[order].reshape(1, -1, 1)
    scores = np.array([0.9, 0.5, 0.6, -1.0])[order].reshape(1, -1, 1)
    corners = np.array([[0, 0, 10, 10], [20, 0, 30, 10], [40, 0, 50, 10], [-1, -1, -1, -1]], float)[order]
    corners[0] += [moved, 0, moved, 0]
    np.savez(path, *(each.astype(np.float32) for each in (ids, scores, corners[None])))
    return path


def test_detections_are_alike_in_any_order(tmp_path: Path) -> None:
    one = _detections(tmp_path / "one.npz", [0, 1, 2, 3])
    assert deviation(one, _detections(tmp_path / "turned.npz", [2, 3, 1, 0])) == pytest.approx(0)


def test_detections_differ_by_their_overlap(tmp_path: Path) -> None:
    one = _detections(tmp_path / "one.npz", [0, 1, 2, 3])
    other = _detections(tmp_path / "other.npz", [0, 1, 2, 3], moved=5.0)
    # Of the box with 0.9 of the scores' 2.0, the overlap over the union is one third.
    assert deviation(one, other) == pytest.approx(0.9 / 2.0 * 2 / 3)


def test_detections_may_differ_more_than_other_outputs(tmp_path: Path) -> None:
    boxes, plain = _detections(tmp_path / "boxes.npz", [0, 1, 2, 3]), _saved(tmp_path / "plain.npz", [1.0])
    assert allowed_for(boxes, FLOAT_ALLOWED) == DETECTIONS_ALLOWED
    assert allowed_for(plain, FLOAT_ALLOWED) == FLOAT_ALLOWED
    assert int8_allowed(boxes, boxes) == pytest.approx(DETECTIONS_ALLOWED)
    assert int8_allowed(plain, plain) == pytest.approx(INT8_ALLOWED)


@pytest.mark.parametrize(
    ("isa", "int8", "found", "told"),
    [
        (("AVX2",), True, 0.031, True),
        (("AVX2",), False, 0.031, False),
        (("AVX2", "AVX-VNNI"), True, 0.031, False),
        ((), True, 0.031, False),
        (("AVX2",), True, NAN, False),
    ],
)
def test_sums_that_saturate_are_named_as_a_cause(
    isa: tuple[str, ...], int8: bool, found: float, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outputs, "read_cpu", lambda: Cpu("a", "b", 1, 1, (0,), 1, isa))
    said = too_far(found, "native", 0.02, int8=int8)
    assert said.startswith(f"its outputs deviate from those of native by {found} of the largest, 0.02 is allowed")
    assert ("no VNNI" in said) == told
