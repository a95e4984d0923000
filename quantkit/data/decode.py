"""Image files to pixels."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import IO, Any

import numpy as np

from quantkit.errors import DataError


def decode(file: Path | IO[bytes], name: str) -> np.ndarray[Any, Any]:
    """The pixels of an image file: uint8 of shape (height, width, 3), RGB.

    The orientation that a camera noted is applied; transparency is dropped. ``name`` is what errors
    call the image.

    Raises:
        DataError: the file cannot be read, is no image, is damaged, or has more than 8 bits a channel.
    """
    from PIL import Image, ImageOps

    try:
        with Image.open(file) as image:
            if image.mode.startswith(("I", "F")):
                raise DataError(f"image {name} has more than 8 bits a channel; convert it to 8-bit RGB")
            upright = ImageOps.exif_transpose(image)
            return np.array(upright.convert("RGB"))
    # Pillow reports damage in all of these ways, by the format and the place of it.
    except (
        OSError,
        SyntaxError,
        ValueError,
        EOFError,
        IndexError,
        struct.error,
        Image.DecompressionBombError,
    ) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"cannot read image {name}: {reason}; replace it or leave it out") from error
