"""Augmentation: each image varied a little, differently in each epoch."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np

from quantkit.data.preprocess import Preprocess, full_size, input_pixels, normalized
from quantkit.data.samples import Sample
from quantkit.errors import UserError
from quantkit.kinds import number

if TYPE_CHECKING:
    from PIL import Image

# Szegedy et al. 2015 draw the ratio of width and height from this range, uniformly in its logarithm.
_RATIOS = (3 / 4, 4 / 3)

# ITU-R BT.601: what red, green and blue contribute to grey.
_GREY = (0.299, 0.587, 0.114)

# So often a part of the wanted area and ratio is drawn; if none fits, the largest of such a ratio in the centre is cut.
_DRAWS = 10


@dataclass(frozen=True)
class Augmentation:
    """How training images are varied.

    Attributes:
        smallest_crop: a part of the image is cut out and scaled to the network's input, with an area of at least this
            share of the whole and a ratio of its sides from 3/4 to 4/3 (Szegedy et al. 2015, "Going Deeper with
            Convolutions", section 6); 1: the image is preprocessed as for inference.
        flip: each image is mirrored, left to right, with a probability of one half. Wrong for digits, letters and
            signs.
        colour: brightness, contrast and saturation are multiplied by up to 1 + this and down to 1 - this, each drawn
            uniformly, in this order, and then what is beyond black and white is cut off; 0: they stay.

    Raises:
        UserError: a value is impossible.
    """

    smallest_crop: float = 0.35
    flip: bool = True
    colour: float = 0.2

    def __post_init__(self) -> None:
        """Refuse what cannot be done to an image."""
        for name, least in (("smallest_crop", 0.01), ("colour", 0.0)):
            remedy = f"give a number from {least:g} to 1"
            value = number(name, getattr(self, name), remedy)
            if not least <= value <= 1:
                raise UserError(f"{name} is {getattr(self, name)!r}; {remedy}")
            object.__setattr__(self, name, value)
        if not isinstance(self.flip, bool):
            raise UserError(f"flip is {self.flip!r}; give True or False")

    @property
    def changes(self) -> bool:
        """Whether it does anything."""
        return self.smallest_crop < 1 or self.flip or self.colour > 0


NONE = Augmentation(1.0, False, 0.0)
"""Images as for inference."""


def can_be_varied(sample: Sample) -> bool:
    """Whether a sample is an image, not an array as a network reads it."""
    return sample.image.dtype == np.uint8 and sample.image.ndim == 3


def augmented(
    augmentation: Augmentation,
    preprocess: Preprocess,
    sample: Sample,
    input_shape: tuple[int, ...],
    random: Random,
) -> np.ndarray[Any, Any]:
    """A photograph, varied, as a network reads it: float32 of shape (3, height, width).

    Args:
        augmentation: what is varied.
        preprocess: the network's; a part that is cut out takes the place of its ``resize``, ``crop`` and ``fit``.
        sample: its image is uint8 of shape (height, width, 3), RGB.
        input_shape: (3, height, width).
        random: where all choices are drawn from.

    Raises:
        SampleError: the image cannot be preprocessed.
    """
    from PIL import Image

    if augmentation.smallest_crop < 1:
        picture = Image.fromarray(full_size(sample.image, sample.name).pixels)
        box = _part(augmentation, picture.size, random)
        picture = picture.resize((input_shape[2], input_shape[1]), Image.Resampling.BILINEAR, box)
    else:
        upright = replace(preprocess, rotate180=False)
        pixels = input_pixels(upright, full_size(sample.image, sample.name), sample.name, input_shape)
        picture = Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0)))
    if augmentation.flip and random.random() < 0.5:
        picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    if augmentation.colour:
        low, high = 1 - augmentation.colour, 1 + augmentation.colour
        picture = _recoloured(picture, random.uniform(low, high), random.uniform(low, high), random.uniform(low, high))
    varied = np.asarray(picture)
    if preprocess.rotate180:
        varied = varied[::-1, ::-1]
    return normalized(preprocess, varied.transpose(2, 0, 1))


def _part(augmentation: Augmentation, size: tuple[int, int], random: Random) -> tuple[float, float, float, float]:
    """The part to cut out, as its left, upper, right and lower edge; ``size`` is width and height."""
    width, height = size
    low, high = map(math.log, _RATIOS)
    for _ in range(_DRAWS):
        area = width * height * random.uniform(augmentation.smallest_crop, 1)
        ratio = math.exp(random.uniform(low, high))
        across, down = math.sqrt(area * ratio), math.sqrt(area / ratio)
        if across <= width and down <= height:
            left, top = random.uniform(0, width - across), random.uniform(0, height - down)
            return left, top, left + across, top + down
    across, down = min(width, height * _RATIOS[1]), min(height, width / _RATIOS[0])
    left, top = (width - across) / 2, (height - down) / 2
    return left, top, left + across, top + down


def _recoloured(picture: Image.Image, brightness: float, contrast: float, saturation: float) -> Image.Image:
    """A picture whose brightness, contrast and saturation are multiplied, one after another, but rounded once.

    As Pillow's ``ImageEnhance`` defines them, brightness b multiplies each channel x, contrast c its distance from the
    mean grey, and saturation s its distance from the pixel's own grey L: together b (c (s x + (1 - s) L) + (1 - c)
    mean).
    """
    from PIL import Image

    mean = sum(weight * value for weight, value in zip(_GREY, picture.resize((1, 1), Image.Resampling.BOX).tobytes()))
    own, offset = brightness * contrast * saturation, brightness * (1 - contrast) * mean
    red, green, blue = (brightness * contrast * (1 - saturation) * weight for weight in _GREY)
    matrix = (own + red, green, blue, offset, red, own + green, blue, offset, red, green, own + blue, offset)
    return picture.convert("RGB", matrix)
