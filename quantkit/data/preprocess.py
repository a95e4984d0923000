"""Preprocess: from an RGB photograph to the array that a network reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal, Optional, get_args

import numpy as np

from quantkit.data.decode import PIXELS_VARIABLE, Reduced, most_pixels
from quantkit.data.resizing import Size, centre_offset, letterbox_size, short_side_size
from quantkit.errors import DataError, SampleError, UserError
from quantkit.kinds import number, whole_number

_OF_PREPROCESSING = (
    "make the preprocessing crop to the network's input: --resize and --crop, or `resize` and `crop` under "
    "[preprocess] in its model card"
)

Fit = Literal["stretch", "letterbox"]
"""How a whole image becomes as large as the network's input: each side scaled on its own, or in proportion, with black
bars on both sides."""

_LARGEST_SIDE = 1 << 31

_IMAGE_AXES = 3

# So many times the pixels that scaling leaves, in each direction, are decoded at least.
_SPARE = 2

_FIT_TEXTS: dict[Fit, str] = {
    "stretch": "stretched to the input",
    "letterbox": "in proportion into the input, black around it",
}


@dataclass(frozen=True)
class Preprocess:
    """How an RGB uint8 image becomes one float32 CHW input.

    In this order: scale the short side to ``resize`` pixels (bilinear; None: leave), crop to the central
    ``crop`` x ``crop`` pixels (None: leave), rotate by 180 degrees if ``rotate180``, divide by ``scale``, subtract
    ``mean``, divide by ``std`` (each per RGB channel, in units of the divided values). With ``fit``, instead of
    ``resize`` and ``crop``, the whole image is scaled (bilinear) to the size of the input.

    Raises:
        UserError: a value is impossible for its step.
    """

    resize: Optional[int] = None
    crop: Optional[int] = None
    mean: tuple[float, float, float] = (0.0, 0.0, 0.0)
    std: tuple[float, float, float] = (1.0, 1.0, 1.0)
    scale: float = 255.0
    rotate180: bool = False
    fit: Optional[Fit] = None

    def __post_init__(self) -> None:
        """Refuse what no image can go through."""
        for name in ("resize", "crop"):
            if (side := getattr(self, name)) is not None:
                object.__setattr__(self, name, _side(name, side))
        object.__setattr__(self, "mean", _channels("mean", self.mean))
        object.__setattr__(self, "std", tuple(_divisor("std", each) for each in _channels("std", self.std)))
        object.__setattr__(self, "scale", _divisor("scale", self.scale))
        if not isinstance(self.rotate180, bool):
            raise UserError(f"rotate180 is {self.rotate180!r}; give True or False")
        if self.fit is not None and self.fit not in get_args(Fit):
            raise UserError(f"fit is {self.fit!r}; give {' or '.join(get_args(Fit))}")
        if self.fit is not None and (self.resize is not None or self.crop is not None):
            raise UserError("fit scales the whole image to the input; give either fit, or resize and crop")

    @property
    def text(self) -> str:
        """The steps in words, in their order."""
        steps = (
            _FIT_TEXTS[self.fit] if self.fit else "",
            f"short side to {self.resize}" if self.resize else "",
            f"centre {self.crop}x{self.crop}" if self.crop else "",
            "turned by 180°" if self.rotate180 else "",
            f"/ {self.scale:g}",
            f"mean {' '.join(f'{value:g}' for value in self.mean)}",
            f"std {' '.join(f'{value:g}' for value in self.std)}",
        )
        return ", ".join(filter(None, steps))


def _side(name: str, side: object) -> int:
    pixels = whole_number(name, side, 1, 224)
    if pixels >= _LARGEST_SIDE:
        raise UserError(f"{name} is {pixels}, more pixels than any image has; give fewer, such as 224")
    return pixels


def _channels(name: str, values: object) -> tuple[float, float, float]:
    if not isinstance(values, (Sequence, np.ndarray)) or isinstance(values, str) or len(values) != 3:
        raise UserError(f"{name} is {values!r}; give one number for each of red, green and blue")
    red, green, blue = (_finite(name, value) for value in values)
    return red, green, blue


def _divisor(name: str, value: object) -> float:
    divisor = _finite(name, value)
    if divisor <= 0:
        raise UserError(f"{name} is {divisor:g}, and pixels are divided by it; give a number above 0")
    return divisor


def _finite(name: str, value: object) -> float:
    finite = number(name, value, "give a number")
    if not isfinite(finite):
        raise UserError(f"{name} is {finite}; give a finite number")
    return finite


def apply(
    preprocess: Preprocess,
    image: np.ndarray[Any, Any],
    where: str = "the image",
    input_shape: Optional[Sequence[int]] = None,
) -> np.ndarray[Any, Any]:
    """The network's input for ``image``, uint8 of shape (height, width, 3), RGB: float32 of shape (3, height, width).

    Every step is applied whatever the size of the image. Scaling keeps the proportions (the long side
    is rounded down); scaling down averages over all the pixels that it covers. ``where``
    names the image in errors; the result must have ``input_shape``, if given, which ``fit`` needs.

    Raises:
        SampleError: it is smaller than the crop, becomes larger than an image may be when scaled (see ``decode``; thin
            images grow without bound), or does not end up with ``input_shape``.
        DataError: it is not such an image.
        UserError: the preprocessing has a ``fit``, and no ``input_shape`` is given.
    """
    return normalized(preprocess, input_pixels(preprocess, full_size(image, where), where, input_shape))


def full_size(image: np.ndarray[Any, Any], where: str) -> Reduced:
    """An image, checked, as one that was decoded at its full size; ``where`` names it in errors.

    Raises:
        DataError: it is not uint8 of shape (height, width, 3).
    """
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or 0 in image.shape:
        raise DataError(
            f"{where} is {image.dtype} of shape {image.shape}; "
            "give uint8 of shape (height, width, 3), RGB, or float32 that is preprocessed already"
        )
    return Reduced(image, (image.shape[0], image.shape[1]), 1)


def input_pixels(
    preprocess: Preprocess, image: Reduced, where: str, input_shape: Optional[Sequence[int]]
) -> np.ndarray[Any, Any]:
    """The pixels that a network reads of an image, uint8 of shape (3, height, width), before ``normalized``.

    For ``where``, ``input_shape`` and the errors see ``apply``.
    """
    pixels = image.pixels
    if preprocess.fit is not None:
        pixels = _fitted(image, preprocess.fit, input_shape)
    if preprocess.resize is not None:
        pixels = _to_short_side(image, preprocess.resize, where)
    if preprocess.crop is not None:
        pixels = _centre(pixels, preprocess.crop, where)
    if input_shape is not None:
        # Checked before each value takes four bytes.
        _check_shape((3, *pixels.shape[:2]), input_shape, f"{where}, preprocessed,", _OF_PREPROCESSING)
    if preprocess.rotate180:
        pixels = pixels[::-1, ::-1]
    return pixels.transpose(2, 0, 1)


def normalized(preprocess: Preprocess, pixels: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The values of pixels, uint8 of shape (3, height, width): float32 of that shape."""
    values = pixels.astype(np.float32, order="C")
    values /= np.float32(preprocess.scale)
    values -= np.array(preprocess.mean, np.float32)[:, None, None]
    values /= np.array(preprocess.std, np.float32)[:, None, None]
    return values


def needed_size(preprocess: Preprocess, input_shape: Sequence[int], size: Size) -> Size:
    """The least size at which an image of ``size`` may be decoded: twice the size that it is scaled to.

    Scaling then still averages over several pixels, so that little changes. One that is not scaled is needed as it is.
    """
    if preprocess.fit is not None and len(input_shape) == _IMAGE_AXES:
        rows, columns = _fitted_size(preprocess.fit, size, (input_shape[1], input_shape[2]))
    elif preprocess.resize is not None:
        rows, columns = short_side_size(size, preprocess.resize)
    else:
        return size
    return _SPARE * rows, _SPARE * columns


def check_input(array: np.ndarray[Any, Any], input_shape: Sequence[int], where: str) -> None:
    """Check that a network with ``input_shape`` can read ``array``; ``where`` names it in errors.

    Raises:
        SampleError: the array has another shape, or holds NaN or infinite values.
        DataError: it is not float32.
    """
    is_image = len(input_shape) == 3
    if array.dtype == np.uint8 and is_image:
        raise DataError(
            f"{where} holds uint8 pixels where preprocessed float32 is needed, and the network's preprocessing is "
            "unknown; give it (--resize, --crop, --mean, --std, --scale), describe the network in a model card "
            "(.toml), or give preprocessed float32 arrays (.npz)"
        )
    if array.dtype != np.float32:
        raise DataError(
            f"{where} is {array.dtype}, not float32; convert it with .astype('float32')"
            if is_image or array.shape == tuple(input_shape)
            else f"{where} is {array.dtype} of shape {array.shape}, but the network reads float32 of shape "
            f"{tuple(input_shape)}: no images; give arrays (.npz)"
        )
    check_shape(array.shape, input_shape, where)
    if not np.isfinite(array).all():
        raise SampleError(f"{where} holds NaN or infinite values; correct this sample or leave it out", where)


def check_shape(shape: Sequence[int], input_shape: Sequence[int], where: str) -> None:
    """Check that a sample has the shape that a network reads; ``where`` names it in errors.

    Raises:
        SampleError: it has another.
    """
    _check_shape(shape, input_shape, where, _remedy(tuple(shape), tuple(input_shape)))


def _remedy(shape: tuple[int, ...], input_shape: tuple[int, ...]) -> str:
    if len(input_shape) == 3:
        return "resize or crop to the network's input (layout NCHW)"
    if len(shape) == len(input_shape) == 2 and shape[1] != input_shape[1]:
        return f"give {input_shape[1]} features at every step"
    if len(shape) == len(input_shape):
        return f"give samples of that shape; pad or cut sequences to {input_shape[0]} steps"
    return "give samples of that shape"


def _check_shape(shape: Sequence[int], input_shape: Sequence[int], where: str, remedy: str) -> None:
    if tuple(shape) != tuple(input_shape):
        message = f"{where} has shape {tuple(shape)}, but the network reads {tuple(input_shape)}; {remedy}"
        raise SampleError(message, where)


def scaled_to_short_side(image: np.ndarray[Any, Any], side: int, where: str) -> np.ndarray[Any, Any]:
    """``image`` scaled so that its short side has ``side`` pixels."""
    return _to_short_side(full_size(image, where), side, where)


def _to_short_side(image: Reduced, side: int, where: str) -> np.ndarray[Any, Any]:
    height, width = image.size
    if min(height, width) == side:
        return image.pixels
    rows, columns = short_side_size((height, width), side)
    if rows * columns > (most := most_pixels()):
        raise SampleError(
            f"{where} is {width}x{height}, and {columns}x{rows} with a short side of {side}: more than {most} "
            f"pixels; leave it out, give a preprocessing that resizes to less, or set {PIXELS_VARIABLE}",
            where,
        )
    return _resized(image, (rows, columns))


def _resized(image: Reduced, to: Size) -> np.ndarray[Any, Any]:
    from PIL import Image

    # The last row and column of pixels may be parts of such.
    box = (0, 0, image.size[1] / image.fraction, image.size[0] / image.fraction)
    return np.asarray(Image.fromarray(image.pixels).resize(to[::-1], Image.Resampling.BILINEAR, box))


def _centre(image: np.ndarray[Any, Any], size: int, where: str) -> np.ndarray[Any, Any]:
    """The central ``size`` x ``size`` pixels of ``image``."""
    height, width = image.shape[:2]
    if min(height, width) < size:
        raise SampleError(
            f"{where} is {width}x{height} where the preprocessing crops to {size}x{size}; "
            "give larger images or a preprocessing that resizes",
            where,
        )
    top, left = centre_offset((size, size), (height, width))
    return image[top : top + size, left : left + size]


def _fitted_size(fit: Fit, size: Size, outer: Size) -> Size:
    return outer if fit == "stretch" else letterbox_size(size, outer)


def _fitted(image: Reduced, fit: Fit, input_shape: Optional[Sequence[int]]) -> np.ndarray[Any, Any]:
    """``image`` as large as the network's input."""
    if input_shape is None or len(input_shape) != _IMAGE_AXES:
        raise UserError(f"fit={fit!r} needs an input of shape (channels, height, width), not {input_shape}; give one")
    outer = (input_shape[1], input_shape[2])
    rows, columns = _fitted_size(fit, image.size, outer)
    fitted = image.pixels if (rows, columns) == image.size else _resized(image, (rows, columns))
    if (rows, columns) == outer:
        return fitted
    top, left = centre_offset((rows, columns), outer)
    boxed = np.zeros((*outer, 3), np.uint8)
    boxed[top : top + rows, left : left + columns] = fitted
    return boxed
