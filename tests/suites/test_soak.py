"""The verdict of the soak: what it must call flat, and what it must not."""

from __future__ import annotations

import numpy as np
import pytest

PREDICTIONS, READINGS = 100_000, 200


def soaked(per_prediction: float, descriptors: int = 0, threads: int = 0) -> object:
    """Readings of a process that warms up, loses so many bytes a prediction, and whose pages come and go in steps."""
    from soak import Soak

    random = np.random.default_rng(0)
    done = np.linspace(PREDICTIONS / READINGS, PREDICTIONS, READINGS)
    warm = 30e6 * (1 - np.exp(-done / 2000))
    memory = 300e6 + warm + per_prediction * done + 65536 * random.integers(-2, 3, READINGS)
    last = (np.arange(READINGS) == READINGS - 1).astype(int)
    counts = (tuple(9 + more * last) for more in (descriptors, threads))
    return Soak("mxnet", tuple(done.astype(int)), tuple(memory.astype(int)), *counts)


@pytest.mark.parametrize(
    ("per_prediction", "descriptors", "threads", "flat"),
    [(0, 0, 0, True), (-40, 0, 0, True), (16, 0, 0, False), (32, 0, 0, False), (0, 1, 0, False), (0, 0, 1, False)],
)
def test_growth_is_found(per_prediction: float, descriptors: int, threads: int, flat: bool) -> None:
    from soak import is_flat

    assert is_flat(soaked(per_prediction, descriptors, threads)) == flat


def test_the_interval_holds_the_slope() -> None:
    from soak import slope_of

    found = soaked(25.0)
    slope = slope_of(found.predictions, found.memory)
    assert slope.low <= 25 <= slope.high and slope.high - slope.low < 4
