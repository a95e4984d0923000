"""MinMax: a range that clips nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from quantkit.calibration.observer import extrema, nothing_observed
from quantkit.calibration.ranges import Range
from quantkit.errors import UserError


class MinMax:
    """Observes the smallest and the largest value.

    The range is exactly (minimum, maximum) and need not contain zero.
    """

    def __init__(self) -> None:
        """Start with nothing observed."""
        self._low = math.inf
        self._high = -math.inf

    def observe(self, batch: np.ndarray[Any, Any]) -> None:
        """Add the values of ``batch``, of any shape, as float32.

        Raises:
            DataError: a value is NaN or infinite.
        """
        values = np.asarray(batch, np.float32)
        if values.size:
            low, high = extrema(values)
            self._low, self._high = min(low, self._low), max(high, self._high)

    def merge(self, other: MinMax) -> None:
        """Add what ``other`` has observed.

        Raises:
            UserError: ``other`` is of another kind.
        """
        if type(other) is not MinMax:
            raise UserError(f"cannot merge {type(other).__name__} into MinMax; merge observers of one kind")
        self._low, self._high = min(other._low, self._low), max(other._high, self._high)

    def state(self) -> Mapping[str, np.ndarray]:
        """The smallest and the largest value, float64 of shape (2,)."""
        return {"bounds": np.array([self._low, self._high])}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Take over the values of another observer."""
        self._low, self._high = map(float, state["bounds"])

    def range(self) -> Range:
        """The smallest and the largest value observed.

        Raises:
            DataError: no value was observed.
        """
        if self._low > self._high:
            raise nothing_observed()
        return Range(self._low, self._high)
