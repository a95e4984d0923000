"""Ratios and cosines against their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from quantkit.evaluation.deviation import DeviationSums


def deviation(*pairs: tuple[np.ndarray, np.ndarray]) -> tuple[float, float]:
    sums = DeviationSums()
    for exact, actual in pairs:
        sums.add(exact, actual)
    result = sums.result()
    return result.sqnr, result.cosine


def test_the_definitions_whatever_the_batches() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(6, 3, 5, 5)).astype(np.float32)
    q = x + 0.1 * random.normal(size=x.shape).astype(np.float32)
    sqnr, cosine = deviation((x[:2], q[:2]), (x[2:], q[2:]))
    a, b = x.astype(np.float64).ravel(), q.astype(np.float64).ravel()
    assert sqnr == pytest.approx(10 * np.log10(np.mean(a**2) / np.mean((a - b) ** 2)))
    assert cosine == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def test_a_bit_less_costs_six_decibels() -> None:
    x = np.random.default_rng(0).uniform(-1, 1, 100_000)
    ratios = [deviation((x, np.rint(x * levels) / levels))[0] for levels in (1024, 512)]
    assert ratios[0] - ratios[1] == pytest.approx(20 * math.log10(2), abs=0.03)


def test_what_has_no_ratio() -> None:
    ones, zeros = np.ones(3), np.zeros(3)
    assert deviation((ones, ones)) == (math.inf, 1.0)
    assert deviation((zeros, zeros)) == (math.inf, 1.0)
    assert deviation((zeros, ones)) == (-math.inf, 0.0)
    assert deviation((ones, zeros)) == (0.0, 0.0)
