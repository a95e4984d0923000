"""Refusing outputs that hold no numbers: the largest of NaN and others says nothing."""

from __future__ import annotations

import numpy as np

from quantkit.errors import EngineError


def finite(output: np.ndarray, what: str) -> np.ndarray:
    """An output, if all its values are finite; ``what`` says what it is.

    Raises:
        EngineError: it holds NaN or infinite values.
    """
    if not np.isfinite(output).all():
        raise EngineError(
            f"a network computes {what} with NaN or infinite values; check the images, and a bundle with `quantkit "
            "verify`"
        )
    return output
