"""Percentile: the threshold that a given share of the values does not exceed."""

from __future__ import annotations

import numpy as np

from quantkit.calibration.clipping import ClippingObserver
from quantkit.errors import UserError


class Percentile(ClippingObserver):
    """Cuts at the magnitude below which ``percent`` percent of all values lie, zeros included.

    Values are assumed to be evenly spread inside a bin, so the threshold is exact to one bin, at most
    1/4096 of the largest magnitude. Where zeros alone make up ``percent`` percent, there is no such
    magnitude and nothing is cut.
    """

    def __init__(self, percent: float = 99.99) -> None:
        """Start with nothing observed.

        Raises:
            UserError: ``percent`` is not above 0 and at most 100.
        """
        if not 0 < percent <= 100:
            raise UserError(f"percentile {percent} is out of range; give a number above 0 and at most 100")
        super().__init__()
        self.percent = percent

    def settings(self) -> tuple[float, ...]:
        """The percentage, as the observer's one setting."""
        return (self.percent,)

    def threshold(self) -> float:
        """The percentile of the magnitudes."""
        histogram = self.histogram
        rank = self.percent / 100 * histogram.total - histogram.zeros
        if rank <= 0:
            return histogram.largest
        counts = histogram.magnitudes()
        upto = np.cumsum(counts)
        index = int(np.searchsorted(upto, rank))
        inside = (rank - (upto[index] - counts[index])) / counts[index]
        return float((index + inside) * histogram.width)
