"""Image files to pixels."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Lock
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from quantkit.errors import DataError, UserError
from quantkit.files.text import open_ordinary

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
"""What is decoded, by Pillow's names. Others start programs (EPS) or are no photographs."""

PIXELS_VARIABLE = "QUANTKIT_MAX_IMAGE_PIXELS"
"""The environment variable that sets how many pixels an image may have."""

# Pillow's own bound for images that are beyond doubt: a decoded image then takes a quarter of a gigabyte.
_MOST_PIXELS = 89_478_485

# Pixels that are converted at once.
_STRIP = 2**22


def decode(file: Path | IO[bytes], name: str) -> np.ndarray[Any, Any]:
    """The pixels of an image file: uint8 of shape (height, width, 3), RGB.

    The orientation that a camera noted is applied; transparency is dropped; of an animation it is the first picture.
    Colours of 16 bits keep their upper 8. ``name`` is what errors call the image.

    Raises:
        DataError: the file cannot be read, is no image in one of ``FORMATS``, is damaged or cut off, is grey with more
            than 8 bits, or has more pixels than ``QUANTKIT_MAX_IMAGE_PIXELS`` (89 million where that is not set).
        UserError: ``QUANTKIT_MAX_IMAGE_PIXELS`` is no number.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    most = most_pixels()
    try:
        with ExitStack() as stack:
            source = stack.enter_context(open_ordinary(file)) if isinstance(file, Path) else file
            stack.enter_context(_nothing_missing())
            image = stack.enter_context(Image.open(source, formats=FORMATS))
            if image.width * image.height > most:
                raise DataError(
                    f"image {name} has {image.width}x{image.height} pixels, more than {most}; leave it out, or set "
                    f"{PIXELS_VARIABLE}={image.width * image.height} if it is in order"
                )
            if image.mode.startswith(("I", "F")):
                raise DataError(f"image {name} has more than 8 bits a channel; convert it to 8-bit RGB")
            ImageOps.exif_transpose(image, in_place=True)
            return _rgb(image)
    except DataError:
        raise
    except UnidentifiedImageError as error:
        raise DataError(
            f"cannot read image {name}: it is none of {', '.join(FORMATS)}; replace it or leave it out"
        ) from error
    # Beyond twice its own bound Pillow itself refuses, before the size can be asked for.
    except Image.DecompressionBombError as error:
        raise DataError(
            f"image {name}: {error}; leave it out, or set {PIXELS_VARIABLE} to its number of pixels if it is in order"
        ) from error
    # Pillow names no exceptions for damage: by the format and the place of it, it is one of a dozen.
    except Exception as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise DataError(f"cannot read image {name}: {reason}; replace it or leave it out") from error


def _rgb(image: Image) -> np.ndarray[Any, Any]:
    """The pixels of an image. As a whole, the conversion would make three copies more."""
    pixels = np.empty((image.height, image.width, 3), np.uint8)
    rows = max(1, _STRIP // image.width)
    for top in range(0, image.height, rows):
        bottom = min(top + rows, image.height)
        pixels[top:bottom] = np.asarray(image.crop((0, top, image.width, bottom)).convert("RGB"))
    return pixels


def most_pixels() -> int:
    """How many pixels an image may have. Pillow's own bound in this process is raised to it where it is lower.

    Raises:
        UserError: ``QUANTKIT_MAX_IMAGE_PIXELS`` is no number.
    """
    from PIL import Image

    text = os.environ.get(PIXELS_VARIABLE)
    if not text:
        return _MOST_PIXELS
    if not re.fullmatch(r"\d{1,18}", text):
        raise UserError(f"{PIXELS_VARIABLE} is {text!r}; give a number of pixels")
    if Image.MAX_IMAGE_PIXELS is not None and int(text) > Image.MAX_IMAGE_PIXELS:
        Image.MAX_IMAGE_PIXELS = int(text)
    return int(text)


class _Truncation:
    """Pillow's process-wide switch that has what is missing of an image come out grey; GluonCV turns it on."""

    lock = Lock()
    decoding = 0
    before: bool


@contextmanager
def _nothing_missing() -> Iterator[None]:
    """Have Pillow report what is missing of an image, as long as any thread is in here."""
    from PIL import ImageFile

    with _Truncation.lock:
        if not _Truncation.decoding:
            _Truncation.before = ImageFile.LOAD_TRUNCATED_IMAGES
            ImageFile.LOAD_TRUNCATED_IMAGES = False
        _Truncation.decoding += 1
    try:
        yield
    finally:
        with _Truncation.lock:
            _Truncation.decoding -= 1
            if not _Truncation.decoding:
                ImageFile.LOAD_TRUNCATED_IMAGES = _Truncation.before
