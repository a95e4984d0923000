"""How a tensor's FP32 values fit into 8 bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Optional

import numpy as np

from quantkit.calibration.clipping import ClippingObserver
from quantkit.calibration.histogram import Histogram
from quantkit.calibration.methods import observer
from quantkit.calibration.ranges import Range
from quantkit.quantization.arithmetic import LIMITS, DType
from quantkit.quantization.plan import TensorQuantization

PERCENTILES = (1.0, 50.0, 99.0, 99.9)

# A channel this much smaller than the threshold keeps at most 4 of 8 bits.
_NARROW = 1 / 16
_BINS = 64
# The largest value of a calibrated range lies half a step above the largest integer, up to the last bit.
_HALF_STEP = 0.501


@dataclass(frozen=True)
class Grid:
    """The integers that a tensor's values become: multiples of ``step`` from ``low`` to ``high``."""

    step: float
    low: int
    high: int
    dtype: DType

    @property
    def threshold(self) -> float:
        """The largest value that is not cut off."""
        return self.high * self.step


def grid(form: TensorQuantization, halved: bool = False) -> Grid:
    """The integers of a form; ``halved``: with steps twice as large, see ``lowering.mxnet_int8``."""
    params = form.params
    low, high = LIMITS[form.dtype]
    if halved:
        return Grid(2 * params.scale, low, high // 2, form.dtype)
    return Grid(params.scale, low, high, form.dtype)


@dataclass(frozen=True)
class Bins:
    """Counts of values in bins of equal width; the first begins at ``start``."""

    start: float
    width: float
    counts: tuple[int, ...]


@dataclass(frozen=True)
class TensorUse:
    """How the FP32 network's values of a tensor fit into its integers.

    Attributes:
        name: the tensor.
        dtype: the type of its integers.
        step: the real value of one step.
        threshold: the largest value that is not cut off.
        values: the number of values.
        minimum, maximum: the extremes of the values.
        percentiles: the values that the given percentages of all values do not exceed, to one bin of 1/8192 of the
            largest.
        saturated: the share of values that are cut off by more than rounding would change them, from 0 to 1.
        levels: the share of the 256 integers of 8 bits that occur, from 0 to 1.
        narrow_channels: the share of channels whose largest magnitude is below 1/16 of the threshold, from 0 to 1.
        measured: the largest magnitude of the range that the calibration method chooses for the values.
        calibrated: the largest magnitude of the range in the calibration table; None if the table has none, or has
            that of the values before a shift.
        half_change: the relative difference of the range that the calibration method chooses from half of the images
            and that from all; the larger of two halves.
        bins: a histogram of the values.
    """

    name: str
    dtype: DType
    step: float
    threshold: float
    values: int
    minimum: float
    maximum: float
    percentiles: Mapping[float, float]
    saturated: float
    levels: float
    narrow_channels: float
    measured: float
    calibrated: Optional[float]
    half_change: float
    bins: Bins


class TensorWatch:
    """Watches one tensor of the FP32 network batch by batch; memory does not grow."""

    def __init__(self, integers: Grid) -> None:
        """Start with nothing seen."""
        self._grid = integers
        self._halves = (Histogram(), Histogram())
        self._codes = np.zeros(integers.high - integers.low + 1, np.int64)
        self._saturated = 0
        self._peaks = np.zeros(0)

    def add(self, values: np.ndarray) -> None:
        """Add a batch of shape (images, channels, ...)."""
        for half, histogram in enumerate(self._halves):
            histogram.add(values[half::2])
        peaks = np.abs(values).max(axis=(0, *range(2, values.ndim)))
        self._peaks = np.maximum(self._peaks, peaks) if self._peaks.size else peaks
        steps = np.ravel(values) / np.float32(self._grid.step)
        beyond = (steps > self._grid.high + _HALF_STEP) | (steps < self._grid.low - _HALF_STEP)
        self._saturated += int(np.count_nonzero(beyond))
        codes = np.clip(np.rint(steps), self._grid.low, self._grid.high).astype(np.intp)
        self._codes += np.bincount(codes - self._grid.low, minlength=self._codes.size)

    def state(self) -> dict[str, np.ndarray]:
        """All that has been counted, by name."""
        halves = (
            (f"half{number}/{name}", values)
            for number, half in enumerate(self._halves)
            for name, values in half.state().items()
        )
        return {**dict(halves), "codes": self._codes, "saturated": np.array(self._saturated), "peaks": self._peaks}

    def merge(self, state: Mapping[str, np.ndarray]) -> None:
        """Add the ``state`` of another watch of the same tensor."""
        for number, half in enumerate(self._halves):
            other = Histogram()
            other.restore({name: state[f"half{number}/{name}"] for name in half.state()})
            half.merge(other)
        self._codes = self._codes + state["codes"]
        self._saturated += int(state["saturated"])
        self._peaks = np.maximum(self._peaks, state["peaks"]) if self._peaks.size else state["peaks"]

    @property
    def histogram(self) -> Histogram:
        """All values."""
        both = Histogram()
        for half in self._halves:
            both.merge(half)
        return both

    def use(self, name: str, method: str, calibrated: Optional[float]) -> TensorUse:
        """The use of the tensor's integers; ``calibrated`` is what ``method`` chose in the bundle's table."""
        values = self.histogram
        whole = range_of(values, method).largest
        halves = [range_of(half, method).largest for half in self._halves if half.total]
        return TensorUse(
            name=name,
            dtype=self._grid.dtype,
            step=self._grid.step,
            threshold=self._grid.threshold,
            values=values.total,
            minimum=values.minimum,
            maximum=values.maximum,
            percentiles=percentiles(values, PERCENTILES),
            saturated=self._saturated / values.total,
            levels=float(np.count_nonzero(self._codes)) / 256,
            narrow_channels=float((self._peaks < _NARROW * self._grid.threshold).mean()),
            measured=whole,
            calibrated=calibrated,
            half_change=max(abs(half - whole) for half in halves) / whole if whole else 0.0,
            bins=bins(values, _BINS),
        )


def range_of(values: Histogram, method: str) -> Range:
    """The range that a calibration method chooses for the values."""
    chooser = observer(method)
    if isinstance(chooser, ClippingObserver):
        chooser.histogram.merge(values)
        return chooser.range()
    return Range(values.minimum, values.maximum)


def percentiles(values: Histogram, wanted: tuple[float, ...]) -> dict[float, float]:
    """The values that the ``wanted`` percentages do not exceed: the upper edges of their bins, within the extremes."""
    edges = np.arange(1, len(values.positive) + 1) * values.width
    counts = np.concatenate([values.negative[::-1], [values.zeros], values.positive])
    highest = np.concatenate([-(edges - values.width)[::-1], [0.0], edges])
    upto = np.cumsum(counts)
    limits = {}
    for percent in wanted:
        index = int(np.searchsorted(upto, percent / 100 * values.total))
        limits[percent] = float(np.clip(highest[min(index, highest.size - 1)], values.minimum, values.maximum))
    return limits


def bins(values: Histogram, number: int) -> Bins:
    """The values in at most ``number`` bins of equal width from the smallest to the largest value."""
    counts = np.concatenate([values.negative[::-1], values.positive])
    zero = len(values.negative)
    counts[zero] += values.zeros
    used = np.flatnonzero(counts)
    first, last = int(used[0]), int(used[-1])
    together = -(-(last - first + 1) // number)
    padded = np.zeros(-(-(last - first + 1) // together) * together, np.int64)
    padded[: last - first + 1] = counts[first : last + 1]
    grouped = padded.reshape(-1, together).sum(axis=1)
    return Bins((first - zero) * values.width, together * values.width, tuple(int(count) for count in grouped))
