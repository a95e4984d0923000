"""The sizes that images are scaled to; a size is (height, width) in pixels."""

from __future__ import annotations

Size = tuple[int, int]
"""A height and a width in pixels."""


def short_side_size(size: Size, side: int) -> Size:
    """The size of an image whose short side is scaled to ``side``; the long side is rounded down."""
    height, width = size
    short = min(height, width)
    return height * side // short, width * side // short


def letterbox_size(size: Size, outer: Size) -> Size:
    """The largest size with the proportions of ``size`` that fits into ``outer``, rounded, of at least one pixel."""
    height, width = size
    factor = min(outer[0] / height, outer[1] / width)
    return max(1, round(height * factor)), max(1, round(width * factor))


def centre_offset(inner: Size, outer: Size) -> tuple[int, int]:
    """The top and the left of ``inner`` in the middle of ``outer``, rounded down."""
    return (outer[0] - inner[0]) // 2, (outer[1] - inner[1]) // 2
