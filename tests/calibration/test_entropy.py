"""The divergence against its definition, worked out bin by bin."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from quantkit.calibration.entropy import Entropy, divergences

Array = np.ndarray[Any, Any]

RANDOM = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _the_same_numbers_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "RANDOM", np.random.default_rng(0))


def plain_divergence(sides: list[Array], end: int, levels: int) -> float:
    """KL(P || Q) with P and Q built as arrays: clip, merge into cells, spread out again."""
    p, q = [], []
    for counts in sides:
        clipped = counts[:end].astype(float)
        beyond = counts[end:].sum()
        clipped[-1] += beyond
        spread = np.zeros(end)
        edges = [end * cell // levels for cell in range(levels + 1)]
        for start, stop in itertools.pairwise(edges):
            filled = [i for i in range(start, stop) if clipped[i] > 0]
            mass = float(counts[start:stop].sum())
            if mass == 0 and stop == end and beyond:
                mass = 0.5
            for i in filled:
                spread[i] = mass / len(filled)
        p.append(clipped)
        q.append(spread)
    ps, qs = np.concatenate(p), np.concatenate(q)
    ps, qs = ps / ps.sum(), qs / ps.sum()
    return float(sum(a * np.log(a / b) for a, b in zip(ps, qs) if a > 0))


def sparse(size: int) -> Array:
    return RANDOM.integers(0, 50, size) * (RANDOM.random(size) < 0.4)


@pytest.mark.parametrize("levels", [5, 16])
@pytest.mark.parametrize("both", [True, False])
def test_divergence_is_the_definition(levels: int, both: bool) -> None:
    for _ in range(5):
        sides = [sparse(60) for _ in range(2 if both else 1)]
        sides[0][-1] = 3
        ends = np.arange(levels, 61)
        expected = [plain_divergence(sides, int(end), levels) for end in ends]
        np.testing.assert_allclose(divergences(sides, ends, levels), expected, atol=1e-12)


@pytest.mark.parametrize(
    "values",
    [
        RANDOM.standard_normal(30_000),
        np.maximum(RANDOM.standard_normal(30_000), 0),
        RANDOM.standard_t(3, 30_000),
        np.append(RANDOM.standard_normal(30_000), 100),
        RANDOM.laplace(size=30_000) * 1e-7,
    ],
)
def test_the_threshold_has_the_least_divergence(values: Array) -> None:
    observer = Entropy()
    observer.observe(values.astype(np.float32))
    histogram = observer.histogram
    sides = [side[: histogram.used] for side in (histogram.positive, histogram.negative) if side.any()]
    levels = 255 if values.min() >= 0 else 127
    ours = plain_divergence(sides, round(observer.threshold() / histogram.width), levels)
    for end in np.linspace(levels, histogram.used, 40).astype(int):
        assert ours <= plain_divergence(sides, int(end), levels) + 0.003


def test_a_far_outlier_is_clipped() -> None:
    observer = Entropy()
    observer.observe(np.append(RANDOM.standard_normal(100_000), 60.0))
    assert observer.range().largest < 10


def test_an_even_spread_is_not_clipped() -> None:
    observer = Entropy()
    observer.observe(np.append(RANDOM.uniform(-1, 1, 1_000_000), [1.0, -1.0]))
    assert observer.range().largest > 0.95


def test_zeros_do_not_move_the_threshold() -> None:
    values = RANDOM.exponential(size=20_000)
    plain, padded = Entropy(), Entropy()
    plain.observe(values)
    padded.observe(np.append(values, np.zeros(50_000)))
    assert padded.range() == plain.range()
