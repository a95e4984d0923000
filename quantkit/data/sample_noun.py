"""What one sample of a network's input is called where people read it."""

from __future__ import annotations

from typing import Literal

SampleNoun = Literal["image", "sample"]

_IMAGE_AXES = 3


def sample_noun(input_shape: tuple[int, ...]) -> SampleNoun:
    """``image`` where inputs have the shape (channels, height, width), else ``sample``."""
    return "image" if len(input_shape) == _IMAGE_AXES else "sample"
