"""Fitting preprocessing to the size of a network's input."""

from __future__ import annotations

from dataclasses import replace
from typing import Optional

from quantkit.data.preprocess import Fit, Preprocess
from quantkit.errors import ModelError

Shape = tuple[int, ...]


def preprocess_at(
    preprocess: Optional[Preprocess], usual: Shape, shape: Shape, fit_given: Optional[Fit] = None
) -> Optional[Preprocess]:
    """A network's preprocessing for an input of another size: cropped to it, resized in proportion; a ``fit`` stays.

    Args:
        preprocess: for the usual input.
        usual: (channels, height, width) of the usual input.
        shape: of the wanted input.
        fit_given: the ``fit`` that the user gives in place of the crop. It is the caller's to apply; without a crop
            to a square, the wanted input can have any height and width.

    Raises:
        ModelError: the preprocessing crops, and the wanted input is not a square.
    """
    if preprocess is None or preprocess.crop is None or shape == usual:
        return preprocess
    _, height, width = shape
    if height == width:
        resize = None if preprocess.resize is None else round(preprocess.resize * height / preprocess.crop)
        return replace(preprocess, crop=height, resize=resize)
    if fit_given is None:
        raise ModelError(
            f"the network's preprocessing crops to squares, and {height}x{width} is none; give --fit stretch or "
            "--fit letterbox (preprocess=PreprocessChange(fit=...)) to scale whole images to the input"
        )
    return replace(preprocess, resize=None, crop=None)


def check_crop(preprocess: Optional[Preprocess], input_shape: Shape, where: str) -> None:
    """Check that the crop has the size that the network reads; ``where`` names the card.

    Raises:
        ModelError: it has another size.
    """
    crop = None if preprocess is None else preprocess.crop
    if crop is not None and input_shape[1:] != (crop, crop):
        raise ModelError(
            f"{where}: under [preprocess] crop = {crop} gives {crop}x{crop} pixels, but input_shape "
            f"{list(input_shape)} needs {input_shape[1]}x{input_shape[2]}; make them the same"
        )
