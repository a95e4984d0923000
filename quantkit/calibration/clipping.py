"""ClippingObserver: the base of the observers that choose a threshold on a histogram."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from quantkit.calibration.histogram import Histogram
from quantkit.calibration.observer import nothing_observed
from quantkit.calibration.ranges import Range
from quantkit.errors import UserError


class ClippingObserver(ABC):
    """Observes a histogram and cuts the tensor's range at a threshold.

    With threshold t, a tensor that was never negative has the range [0, t], quantized in 255 steps of
    uint8. Any other tensor has the range [-t, t], 127 steps of int8 on each side of zero, narrowed to
    the values that occur (the longer side still reaches t). A tensor that was all zero has the range
    [0, 0].
    """

    def __init__(self) -> None:
        """Start with nothing observed."""
        self.histogram = Histogram()

    @abstractmethod
    def threshold(self) -> float:
        """The positive magnitude to cut at; the histogram holds a value other than zero."""

    @property
    def levels(self) -> int:
        """The number of steps from zero to the threshold: 255 for a tensor that was never negative, else 127."""
        return 255 if self.histogram.minimum >= 0 else 127

    def observe(self, batch: np.ndarray[Any, Any]) -> None:
        """Add the values of ``batch``, of any shape, as float32.

        Raises:
            DataError: a value is NaN or infinite.
        """
        self.histogram.add(batch)

    def merge(self, other: ClippingObserver) -> None:
        """Add what ``other`` has observed.

        Raises:
            UserError: ``other`` is of another kind or has other settings.
        """
        if type(other) is not type(self) or other.settings() != self.settings():
            raise UserError(f"cannot merge {other!r} into {self!r}; merge observers of one kind and setting")
        self.histogram.merge(other.histogram)

    def state(self) -> Mapping[str, np.ndarray]:
        """See ``Histogram.state``."""
        return self.histogram.state()

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """See ``Histogram.restore``."""
        self.histogram.restore(state)

    def settings(self) -> tuple[float, ...]:
        """The arguments that the observer was made with."""
        return ()

    def __repr__(self) -> str:
        """The kind and its settings."""
        return f"{type(self).__name__}({', '.join(map(str, self.settings()))})"

    def range(self) -> Range:
        """The range that the threshold leaves.

        Raises:
            DataError: no value was observed.
        """
        histogram = self.histogram
        if not histogram.total:
            raise nothing_observed()
        if not histogram.largest:
            return Range(0.0, 0.0)
        cut = min(self.threshold(), histogram.largest)
        if histogram.minimum >= 0:
            return Range(0.0, cut)
        return Range(max(-cut, histogram.minimum), min(cut, max(histogram.maximum, 0.0)))
