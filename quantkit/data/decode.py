"""Image files to pixels."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from threading import Lock
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from quantkit.data.resizing import Size
from quantkit.errors import DataError, SampleError, UserError
from quantkit.files.text import open_ordinary

if TYPE_CHECKING:
    from PIL.Image import Image

Result = TypeVar("Result")


class Reduced(NamedTuple):
    """The pixels of an image, uint8 (height, width, 3), RGB, at a fraction of its own ``size``: 1, 2, 4 or 8."""

    pixels: np.ndarray[Any, Any]
    size: Size
    fraction: int


FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
"""The formats that quantkit decodes, by Pillow's names. Others start programs (EPS) or do not hold photographs."""

PIXELS_VARIABLE = "QUANTKIT_MAX_IMAGE_PIXELS"
"""The environment variable that sets the most pixels of an image."""

# Pillow's own bound for images that it trusts: a decoded image then takes a quarter of a gigabyte.
_MOST_PIXELS = 89_478_485

# The orientations of cameras that exchange height and width.
_ON_THE_SIDE = (5, 6, 7, 8)

# Pixels that are converted at a time.
_STRIP = 2**22

# What the system says of one file. All else, such as too many open files, is of the process, the disk or the network.
_OF_THE_FILE = frozenset(
    {
        errno.EACCES,
        errno.EBADMSG,
        errno.EINVAL,
        errno.EIO,
        errno.EISDIR,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.ENOENT,
        errno.ENXIO,
        errno.EPERM,
        errno.EUCLEAN,
    }
)


def decode(file: Path | IO[bytes], name: str) -> np.ndarray[Any, Any]:
    """The pixels of an image file: uint8 of shape (height, width, 3), RGB.

    The camera's orientation is applied; transparency is dropped; of an animation only the first frame is read.
    Colours of 16 bits keep their upper 8. ``name`` names the image in errors.

    Raises:
        SampleError: the file cannot be read, is not an image in one of ``FORMATS``, is damaged or truncated, is grey
            with more than 8 bits, or has more pixels than ``QUANTKIT_MAX_IMAGE_PIXELS`` (89 million if that is not
            set).
        DataError: the file's folder is gone, or this process cannot read files at the moment.
        UserError: ``QUANTKIT_MAX_IMAGE_PIXELS`` is not a number.
    """
    return _decoded(file, name, _upright_rgb)


def decode_reduced(file: Path | IO[bytes], name: str, enough: Callable[[Size], Size]) -> Reduced:
    """The pixels of an image file, of a JPEG file at a half, a quarter or an eighth of its size where that is enough.

    Args:
        file: the file.
        name: names the image in errors.
        enough: of the image's size the least one that is needed.

    Raises:
        SampleError, DataError, UserError: as for ``decode``.
    """
    return _decoded(file, name, partial(_reduced, enough=enough))


def decode_classes(file: Path | IO[bytes], name: str) -> np.ndarray[Any, Any]:
    """The values of a file's pixels as they are stored: uint8 of shape (height, width), such as classes of a mask.

    Raises:
        SampleError: as for ``decode``; or the image has colours instead of one value a pixel.
        DataError: as for ``decode``.
        UserError: ``QUANTKIT_MAX_IMAGE_PIXELS`` is not a number.
    """
    return _decoded(file, name, _values)


def stored_size(file: Path | IO[bytes], name: str) -> Size:
    """The height and the width of an image file's pixels as they are stored, from its header.

    Raises:
        DataError: as for ``decode``, as far as the header shows it.
        UserError: ``QUANTKIT_MAX_IMAGE_PIXELS`` is not a number.
    """
    return _decoded(file, name, _size)


def _decoded(file: Path | IO[bytes], name: str, convert: Callable[[Image, str], Result]) -> Result:
    """What ``convert`` makes of an opened image and its name; see ``decode`` for the errors."""
    from PIL import Image, UnidentifiedImageError

    most = most_pixels()
    try:
        with ExitStack() as stack:
            source = stack.enter_context(open_ordinary(file)) if isinstance(file, Path) else file
            stack.enter_context(_nothing_missing())
            image = stack.enter_context(Image.open(source, formats=FORMATS))
            if image.width * image.height > most:
                raise SampleError(
                    f"image {name} has {image.width}x{image.height} pixels, more than {most}; leave it out, or set "
                    f"{PIXELS_VARIABLE}={image.width * image.height} if that is intended",
                    name,
                )
            return convert(image, name)
    except DataError:
        raise
    except UnidentifiedImageError as error:
        raise SampleError(
            f"cannot read image {name}: it is none of {', '.join(FORMATS)}; replace it or leave it out", name
        ) from error
    # Beyond twice its own bound Pillow itself raises, before the size can be read.
    except Image.DecompressionBombError as error:
        raise SampleError(
            f"image {name}: {error}; leave it out, or set {PIXELS_VARIABLE} to its number of pixels if that is "
            "intended",
            name,
        ) from error
    # Pillow documents no exceptions for damage: depending on the format and the place, it raises one of a dozen.
    except Exception as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        message = f"cannot read image {name}: {reason}; replace it or leave it out"
        raise (SampleError(message, name) if _is_of(file, error) else DataError(message)) from error


def _is_of(file: Path | IO[bytes], error: Exception) -> bool:
    """Whether it is this file alone that cannot be read: others then can."""
    if isinstance(error, MemoryError) or (isinstance(file, Path) and not file.parent.is_dir()):
        return False
    return not isinstance(error, OSError) or error.errno is None or error.errno in _OF_THE_FILE


def _upright_rgb(image: Image, name: str) -> np.ndarray[Any, Any]:
    """The pixels as the camera held them."""
    from PIL import ImageOps

    if image.mode.startswith(("I", "F")):
        raise SampleError(f"image {name} has more than 8 bits a channel; convert it to 8-bit RGB", name)
    ImageOps.exif_transpose(image, in_place=True)
    return _rgb(image)


def _reduced(image: Image, name: str, enough: Callable[[Size], Size]) -> Reduced:
    from PIL.ExifTags import Base

    on_the_side = image.getexif().get(Base.Orientation) in _ON_THE_SIDE
    stored = image.height, image.width
    height, width = enough(stored[::-1] if on_the_side else stored)
    # Pillow takes the width first, as it is stored.
    drafted = image.draft(None, (height, width) if on_the_side else (width, height))
    pixels = _upright_rgb(image, name)
    if drafted is None:
        # Formats other than JPEG.
        return Reduced(pixels, (pixels.shape[0], pixels.shape[1]), 1)
    return Reduced(pixels, stored[::-1] if on_the_side else stored, round(stored[1] / drafted[1][2]))


def _values(image: Image, name: str) -> np.ndarray[Any, Any]:
    """The values as they are stored."""
    if image.mode not in ("L", "P"):
        raise SampleError(
            f"image {name} is of mode {image.mode}, not one value of 8 bits a pixel; save its classes as a grey or "
            "palette image (PNG)",
            name,
        )
    return np.array(image)


def _size(image: Image, name: str) -> Size:
    return image.height, image.width


def _rgb(image: Image) -> np.ndarray[Any, Any]:
    """The pixels of an image, converted in strips: converting it at once would make three more copies."""
    pixels = np.empty((image.height, image.width, 3), np.uint8)
    rows = max(1, _STRIP // image.width)
    for top in range(0, image.height, rows):
        bottom = min(top + rows, image.height)
        pixels[top:bottom] = np.asarray(image.crop((0, top, image.width, bottom)).convert("RGB"))
    return pixels


def most_pixels() -> int:
    """The most pixels that an image may have. Raises Pillow's own bound in this process to it.

    Raises:
        UserError: ``QUANTKIT_MAX_IMAGE_PIXELS`` is not a number.
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
    """Pillow's process-wide switch that fills missing parts of images with grey; GluonCV turns it on."""

    lock = Lock()
    decoding = 0
    before: bool


@contextmanager
def _nothing_missing() -> Iterator[None]:
    """Have Pillow report truncated images while any thread is in this context."""
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
