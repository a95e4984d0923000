from __future__ import annotations

import numpy as np
import pytest

from quantkit.evaluation.accuracy import accuracy
from quantkit.evaluation.agreement import agreement


def test_accuracy_against_counting() -> None:
    random = np.random.default_rng(0)
    outputs, labels = random.normal(size=(200, 20)), random.integers(0, 20, 200)
    ranks = [sorted(range(20), key=lambda c: -row[c]).index(label) for row, label in zip(outputs, labels)]
    found = accuracy([(outputs[:70], labels[:70]), (outputs[70:], labels[70:])])
    assert found.images == 200
    assert found.top1 == pytest.approx(np.mean([rank == 0 for rank in ranks]))
    assert found.top5 == pytest.approx(np.mean([rank < 5 for rank in ranks]))


def test_equal_outputs_count_for_the_lowest_class_only() -> None:
    assert accuracy([(np.zeros((2, 10)), np.array([0, 3]))]).top1 == 0.5


def test_agreement_counts_and_averages() -> None:
    a = np.array([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
    b = np.array([[2.0, 0.0], [2.0, 0.0], [0.0, 0.0]])
    found = agreement([(a[:1], b[:1]), (a[1:], b[1:])])
    assert (found.images, found.top1) == (3, pytest.approx(2 / 3))
    assert found.cosine == pytest.approx((1 + 0 + 1) / 3)
