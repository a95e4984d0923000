"""Which inputs the default samples can stand for, and the warning where they cannot."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from quantkit.data.builtin import PHOTOGRAPHS

LIMITS = (
    "default samples, crops of seven everyday photographs: they can stand for photographs, but not for documents, "
    "drawings, medical or satellite images, or inputs of about 32 pixels; for these give your own"
)
"""What to tell a user who calibrates with them."""

_SMALLEST_SIDE = 64


class DefaultSamplesWarning(UserWarning):
    """A network whose input is too small for photographs was calibrated with the default samples, photographs."""


def are_default(name: str) -> bool:
    """Whether sample data of this name are the default samples."""
    return name == PHOTOGRAPHS


def warn_if_unlike(name: str, input_shape: Sequence[int]) -> None:
    """Warn where sample data of this name are the default samples and the network's input is too small for them.

    Args:
        name: of the sample data.
        input_shape: (channels, height, width) of the network's input. Too small are fewer than 64 pixels a side, as
            networks for CIFAR, digits or characters have them.
    """
    if are_default(name) and min(input_shape[1:]) < _SMALLEST_SIDE:
        height, width = input_shape[1:]
        warnings.warn(
            f"the network reads images of {height}x{width} pixels, which the default samples, photographs made small, "
            "do not resemble: its INT8 form may lose more than it must; give images that it is for (calibration_data, "
            "--calib-data)",
            DefaultSamplesWarning,
            stacklevel=3,
        )
