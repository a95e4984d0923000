"""The inputs that the default samples can represent, and the warning for others."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from quantkit.data.builtin import PHOTOGRAPHS

LIMITS = (
    "default samples, crops of seven everyday photographs: they can represent photographs, but not documents, "
    "drawings, medical or satellite images, or inputs of about 32 pixels; for these give your own"
)
"""The note for users who calibrate with them."""

_SMALLEST_SIDE = 64


class DefaultSamplesWarning(UserWarning):
    """A network with an input too small for photographs was calibrated with the default samples, photographs."""


def are_default(name: str) -> bool:
    """Whether the sample data of this name are the default samples."""
    return name == PHOTOGRAPHS


def warn_if_unlike(name: str, input_shape: Sequence[int]) -> None:
    """Warn if the sample data of this name are the default samples and the network's input is too small for them.

    Args:
        name: of the sample data.
        input_shape: (channels, height, width) of the network's input. Fewer than 64 pixels a side are too small, as in
            networks for CIFAR, digits or characters.
    """
    if are_default(name) and min(input_shape[1:]) < _SMALLEST_SIDE:
        height, width = input_shape[1:]
        warnings.warn(
            f"the network reads images of {height}x{width} pixels, which the default samples, shrunk photographs, do "
            "not resemble: its INT8 form may lose more accuracy than necessary; give typical images (calibration_data, "
            "--calib-data)",
            DefaultSamplesWarning,
            # The caller of the public function.
            stacklevel=4,
        )
