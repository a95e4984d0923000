"""Observer: the protocol of everything that watches a tensor's values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol, Self

import numpy as np

from quantkit.calibration.ranges import Range
from quantkit.errors import DataError


class Observer(Protocol):
    """Watches one tensor batch by batch and chooses the range that its quantized form should cover.

    Memory is bounded, and the range depends on the values alone: it is the same to the last bit in whichever order they
    come, however they are split into batches, and however the batches are distributed among observers that are merged
    afterwards, in any order. An observer's ``state`` takes it to another process, or to a file. Neither end of a range
    is -0.
    """

    def observe(self, batch: np.ndarray[Any, Any]) -> None:
        """Add the values of ``batch``, of any shape, as float32; an empty batch changes nothing.

        Raises:
            DataError: a value is NaN or infinite. The observer is then unchanged.
        """

    def merge(self, other: Self) -> None:
        """Add what ``other``, an observer of the same kind and settings, has observed; ``other`` is unchanged.

        Raises:
            UserError: ``other`` is of another kind or has other settings.
        """

    def state(self) -> Mapping[str, np.ndarray]:
        """What has been observed, as arrays whose names, shapes and dtypes are the same for all of one kind."""

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Take over the ``state`` of another observer of the same kind and settings, in place of the own."""

    def range(self) -> Range:
        """The range that the tensor's quantized form should cover.

        Raises:
            DataError: no value was observed.
        """


def extrema(batch: np.ndarray[Any, Any]) -> tuple[float, float]:
    """The smallest and the largest value of ``batch``, which must not be empty; a zero is never -0.

    Raises:
        DataError: a value is NaN or infinite (a NaN shows in both extremes).
    """
    # Either of 0 and -0 may come first; adding 0 makes both of them 0.
    low, high = float(batch.min()) + 0.0, float(batch.max()) + 0.0
    if not (math.isfinite(low) and math.isfinite(high)):
        raise DataError(
            f"NaN or infinite values (smallest {low}, largest {high}); check the sample data and the network's weights"
        )
    return low, high


def nothing_observed() -> DataError:
    """The error of an observer that is asked for a range before it has seen a value."""
    return DataError("no values were observed, so there is no range; calibrate with at least one sample")
