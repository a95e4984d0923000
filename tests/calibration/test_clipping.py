"""What is cut off at a threshold, and which observers merge."""

from __future__ import annotations

import re

import numpy as np
import pytest

from quantkit.calibration.clipping import ClippingObserver
from quantkit.calibration.entropy import Entropy
from quantkit.calibration.methods import METHODS, observer
from quantkit.calibration.minmax import MinMax
from quantkit.calibration.observer import Observer
from quantkit.calibration.percentile import Percentile
from quantkit.calibration.ranges import Range
from quantkit.errors import DataError, UserError


class Fixed(ClippingObserver):
    """Cuts where it is told."""

    def __init__(self, at: float) -> None:
        super().__init__()
        self.at = at

    def threshold(self) -> float:
        return self.at

    def settings(self) -> tuple[float, ...]:
        return (self.at, 8.0)


@pytest.mark.parametrize(
    ("values", "threshold", "expected", "levels"),
    [
        ([1.0, 3.0], 2.0, Range(0.0, 2.0), 255),
        ([1.0, 3.0], 5.0, Range(0.0, 3.0), 255),
        ([0.0, 3.0], 2.0, Range(0.0, 2.0), 255),
        ([-3.0, 2.0], 9.0, Range(-3.0, 2.0), 127),
        ([-3.0, 2.0], 2.5, Range(-2.5, 2.0), 127),
        ([-3.0, 2.0], 1.0, Range(-1.0, 1.0), 127),
        ([-1.0, 2.0], 1.5, Range(-1.0, 1.5), 127),
        ([-3.0, -1.0], 2.0, Range(-2.0, 0.0), 127),
    ],
)
def test_a_range_ends_at_the_threshold_or_where_the_values_end(
    values: list[float], threshold: float, expected: Range, levels: int
) -> None:
    cutting = Fixed(threshold)
    cutting.observe(np.array(values))
    assert cutting.range() == expected
    assert cutting.levels == levels


@pytest.mark.parametrize(
    ("one", "other", "names", "remedy"),
    [
        (Percentile(98), Percentile(99.5), "Percentile(99.5) into Percentile(98)", "of one kind and setting"),
        (Entropy(), Percentile(99.5), "Percentile(99.5) into Entropy()", "of one kind and setting"),
        (Entropy(), Fixed(0.5), "Fixed(0.5, 8.0) into Entropy()", "of one kind and setting"),
        (MinMax(), Entropy(), "Entropy into MinMax", "of one kind"),
    ],
)
def test_what_does_not_merge_is_named(one: Observer, other: Observer, names: str, remedy: str) -> None:
    with pytest.raises(UserError, match=f"^cannot merge {re.escape(names)}; merge observers {remedy}$"):
        one.merge(other)


@pytest.mark.parametrize("method", METHODS)
def test_errors_say_what_to_do(method: str) -> None:
    watching = observer(method)
    with pytest.raises(DataError, match=r"^no values were observed.*; calibrate with at least one sample$"):
        watching.range()
    expected = (
        r"^NaN or infinite values \(smallest -inf, largest 2.0\); check the sample data and the network's weights$"
    )
    with pytest.raises(DataError, match=expected):
        watching.observe(np.array([2.0, -np.inf]))
    with pytest.raises(DataError, match="no values were observed"):
        watching.range()


@pytest.mark.parametrize("method", METHODS)
def test_float64_and_integers_count_as_float32(method: str) -> None:
    values = np.random.default_rng(0).normal(size=500) * 100
    ranges = []
    for batch in (values.astype(np.float32), values.astype(np.float32).astype(np.float64), values):
        watching = observer(method)
        watching.observe(batch)
        ranges.append(watching.range())
    assert ranges[0] == ranges[1] == ranges[2]
    watching = observer(method)
    watching.observe(np.array([[0, 3], [1, 2]]))
    assert watching.range().high == pytest.approx(3, rel=0.02)
