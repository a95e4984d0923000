"""Targets: smoothed labels, and samples mixed in pairs."""

from __future__ import annotations

import numpy as np
import pytest

from quantkit.training.targets import mixed, smoothed


def test_a_share_of_each_target_is_spread_evenly() -> None:
    targets = smoothed(np.array([2, 0]), 4, 0.2)
    assert targets.dtype == np.float32
    assert targets == pytest.approx(np.array([[0.05, 0.05, 0.85, 0.05], [0.85, 0.05, 0.05, 0.05]]))
    assert np.array_equal(smoothed(np.array([1]), 3, 0.0), [[0, 1, 0]])


def test_neighbours_are_mixed_and_an_odd_one_stays() -> None:
    data, targets = np.arange(5, dtype=np.float32)[:, None] * 10, np.eye(5, dtype=np.float32)
    shares = np.array([0.75, 1.0])
    found, labels = mixed(data, targets, shares)
    assert found.dtype == labels.dtype == np.float32
    # 0.75 of 0 and 0.25 of 10, and the other way round; a share of 1 changes nothing.
    assert found.ravel().tolist() == [2.5, 7.5, 20.0, 30.0, 40.0]
    assert labels[0].tolist() == [0.75, 0.25, 0, 0, 0] and labels[1].tolist() == [0.25, 0.75, 0, 0, 0]
    assert np.array_equal(labels[2:], np.eye(5)[2:])
