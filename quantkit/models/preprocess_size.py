"""Whether preprocessing fits the size of an input, and preprocessing for inputs of another size than the usual one."""

from __future__ import annotations

from dataclasses import replace
from typing import Optional

from quantkit.data.preprocess import Preprocess
from quantkit.errors import ModelError

Shape = tuple[int, ...]


def preprocess_at(preprocess: Optional[Preprocess], usual: Shape, shape: Shape) -> Optional[Preprocess]:
    """A network's preprocessing for an input of another size: crop to it, resize in proportion.

    Args:
        preprocess: for the usual input.
        usual: (channels, height, width) of that.
        shape: of the input that is wanted.

    Raises:
        ModelError: it is no square.
    """
    if preprocess is None or shape == usual:
        return preprocess
    _, height, width = shape
    if height != width:
        raise ModelError(f"the network's preprocessing cuts squares, which {shape} is not; give preprocess= as well")
    if preprocess.crop is None:
        return preprocess
    resize = None if preprocess.resize is None else round(preprocess.resize * height / preprocess.crop)
    return replace(preprocess, crop=height, resize=resize)


def check_crop(preprocess: Optional[Preprocess], input_shape: Shape, where: str) -> None:
    """Make sure that what is cut of images has the size that the network reads; ``where`` names the card.

    Raises:
        ModelError: it has another.
    """
    crop = None if preprocess is None else preprocess.crop
    if crop is not None and input_shape[1:] != (crop, crop):
        raise ModelError(
            f"{where}: under [preprocess] crop = {crop} cuts {crop}x{crop} pixels, but input_shape {list(input_shape)} "
            f"wants {input_shape[1]}x{input_shape[2]}; make them the same"
        )
