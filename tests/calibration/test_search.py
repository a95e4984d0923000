"""The searches for a threshold, against trying every candidate: the smallest float32 numbers fill few bins."""

from __future__ import annotations

import numpy as np
import pytest

from quantkit.calibration.entropy import Entropy, divergences
from quantkit.calibration.mse import Mse, squared_error
from tests.calibration.test_entropy import plain_divergence

SMALLEST = 2.0**-149


def observed(bins: int, seed: int, signed: bool) -> Entropy:
    """Multiples of the smallest float32, which is the width of a bin: a hill, and one value in the last bin."""
    random = np.random.default_rng(seed)
    multiples = np.append(np.floor(random.triangular(0, bins / 4, bins * 0.95, 4000)), bins - 1)
    observer = Entropy()
    observer.observe(multiples * (random.choice([-1, 1], 4001) if signed else 1) * SMALLEST)
    assert (observer.histogram.width, observer.histogram.used) == (SMALLEST, bins)
    return observer


@pytest.mark.parametrize(("bins", "signed"), [(300, False), (256, False), (140, True), (300, True)])
@pytest.mark.parametrize("seed", range(4))
def test_entropy_tries_every_number_of_bins(bins: int, signed: bool, seed: int) -> None:
    observer = observed(bins, seed, signed)
    histogram = observer.histogram
    levels = 127 if signed else 255
    sides = [side[:bins] for side in (histogram.positive, histogram.negative)[: 1 + signed]]
    ends = np.arange(levels, bins + 1)
    expected = [plain_divergence(sides, int(end), levels) for end in ends]
    np.testing.assert_allclose(divergences(sides, ends, levels), expected, atol=1e-12)
    assert observer.threshold() == ends[np.argmin(expected)] * SMALLEST


@pytest.mark.parametrize(("bins", "signed"), [(255, False), (20, False), (127, True)])
def test_entropy_cuts_nothing_where_every_bin_has_a_level(bins: int, signed: bool) -> None:
    observer = observed(bins, 0, signed)
    assert observer.threshold() == (bins - 1) * SMALLEST


def test_entropy_looks_at_512_thresholds_from_the_levels_to_the_last_bin() -> None:
    observer = Entropy()
    observer.observe(np.random.default_rng(0).standard_t(2, 5000).astype(np.float32))
    histogram = observer.histogram
    sides = [side[: histogram.used] for side in (histogram.positive, histogram.negative)]
    ends = np.linspace(127, histogram.used, 512).astype(np.int64)
    # The other way round, the whole parts of some are one less.
    ends = np.unique(np.concatenate([ends - 1, ends, ends + 1]))
    ends = ends[(ends >= 127) & (ends <= histogram.used)]
    every_divergence = divergences(sides, ends, 127)
    ours = divergences(sides, np.array([round(observer.threshold() / histogram.width)]), 127)[0]
    assert observer.threshold() / histogram.width in ends
    assert ours <= np.quantile(every_divergence, 0.01)


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("tail", [1, 2, 5])
def test_mse_finds_the_least_of_its_thresholds(signed: bool, tail: int) -> None:
    random = np.random.default_rng(tail)
    values = random.standard_t(tail, 4000)
    observer = Mse()
    observer.observe(values if signed else np.abs(values))
    histogram, levels = observer.histogram, 127 if signed else 255
    counts, largest = histogram.magnitudes(), histogram.largest / histogram.width
    chosen = observer.threshold() / histogram.width
    ours = squared_error(counts, chosen, levels)
    coarse = largest * 2.0 ** (-np.arange(49) / 4)
    best = min(coarse, key=lambda each: squared_error(counts, float(each), levels))
    assert ours <= squared_error(counts, float(best), levels)
    # The finer ones are a 64th of an octave apart, from one neighbour of the best coarse one to the other.
    steps = np.log2(chosen / best) * 64
    assert chosen == largest or steps == pytest.approx(round(steps), abs=1e-6)
    assert abs(steps) < 16.001 and chosen <= largest
    near = [each for each in best * 2.0 ** (np.arange(-16, 17) / 64) if each <= largest]
    assert ours <= min(squared_error(counts, float(each), levels) for each in near) * (1 + 1e-9)


@pytest.mark.parametrize("octaves", [2, 4, 7])
def test_mse_cuts_few_values_far_beyond_millions(octaves: int) -> None:
    values = np.random.default_rng(octaves).normal(size=4000)
    observer = Mse()
    observer.observe(values)
    # Merged with itself, a histogram has twice the values.
    for _ in range(14 + 2 * octaves):
        observer.merge(observer)
    many = np.full(4000, 1.0) * 2 ** (14 + 2 * octaves)
    far = np.abs(values).max() * 2**octaves
    observer.observe(np.array([far]))
    values, many = np.append(values, far), np.append(many, 1)

    def error(threshold: float) -> float:
        step = threshold / 127
        return float(many @ (np.clip(np.rint(values / step), -127, 127) * step - values) ** 2)

    chosen = observer.threshold()
    assert chosen < far / 2 ** (octaves - 0.5)
    assert error(chosen) <= 1.02 * min(map(error, far * 2.0 ** np.linspace(0, -12, 800)))


def test_mse_takes_the_largest_of_equals() -> None:
    observer = Mse()
    observer.observe(np.full(9, 4.0, np.float32))
    assert observer.threshold() <= 4.0
    zeros = np.zeros(8192, np.int64)
    assert squared_error(zeros, 100.0, 127) == 0
