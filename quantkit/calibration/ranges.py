"""Range: the interval of real values that a tensor's quantized form must cover."""

from __future__ import annotations

import math
from dataclasses import dataclass

from quantkit.errors import UserError


@dataclass(frozen=True)
class Range:
    """The closed interval [``low``, ``high``] of real values, in the units of the tensor.

    ``Range(0, 0)`` belongs to a tensor that was zero in every sample. Any positive scale represents it
    exactly: code that turns ranges into scales should choose 1 and must not divide by the range.

    Raises:
        UserError: a bound is NaN or infinite, or ``low`` exceeds ``high``.
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        """Reject bounds that describe no interval."""
        if not (math.isfinite(self.low) and math.isfinite(self.high)):
            raise UserError(f"range [{self.low}, {self.high}] is not finite; calibrate again")
        if self.low > self.high:
            raise UserError(f"range [{self.low}, {self.high}] is empty: its low end lies above its high end")

    @property
    def largest(self) -> float:
        """The largest magnitude inside the range."""
        return max(abs(self.low), abs(self.high))
