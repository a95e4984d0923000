"""What every observer of a tensor's values promises."""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np

from quantkit.calibration.ranges import Range
from quantkit.errors import DataError


class Observer(Protocol):
    """Watches one tensor batch by batch and says which range its quantized form should cover.

    Memory is bounded whatever is observed, and the range depends on the values alone: it is the same to the last bit
    in whichever order they come, however they are split into batches, and however these are shared out among observers
    that are merged afterwards, in any order. So parts of the data can be observed in several processes; observers can
    be pickled. Neither end of a range is -0.
    """

    def observe(self, batch: np.ndarray[Any, Any]) -> None:
        """Take in ``batch``: any shape, converted to float32; no values at all is no news.

        Raises:
            DataError: a value is NaN or infinite. The observer is then as it was before.
        """

    def merge(self, other: Any) -> None:
        """Take in all that ``other``, an observer of the same kind and settings, has observed; it stays as it is.

        Raises:
            UserError: ``other`` is of another kind or has other settings.
        """

    def range(self) -> Range:
        """The range to quantize for.

        Raises:
            DataError: no value was observed.
        """


def extrema(batch: np.ndarray[Any, Any]) -> tuple[float, float]:
    """The smallest and the largest of the values of ``batch``, which must not be empty; a zero has no sign.

    Raises:
        DataError: a value is NaN or infinite (a NaN shows in both extremes).
    """
    # Of 0 and -0 either may be found first; 0 is what both are when 0 is added.
    low, high = float(batch.min()) + 0.0, float(batch.max()) + 0.0
    if not (math.isfinite(low) and math.isfinite(high)):
        raise DataError(
            f"NaN or infinite values (smallest {low}, largest {high}); check the sample data and the network's weights"
        )
    return low, high


def nothing_observed() -> DataError:
    """The error of an observer that is asked for a range before it has seen a value."""
    return DataError("no values were observed, so there is no range; calibrate with at least one sample")
