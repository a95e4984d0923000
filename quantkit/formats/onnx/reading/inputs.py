"""A file's one input: the order of its axes, and its shape as far as the file fixes it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Optional

from quantkit.errors import ModelError
from quantkit.formats.onnx.reading.read import Input, OnnxNetwork
from quantkit.formats.onnx.reading.recurrent import RECURRENT
from quantkit.formats.onnx.reading.values import MOST_ELEMENTS, OnnxNode, Shape

_IMAGE_CHANNELS = (1, 3, 4)
# Of tokens (batch, steps), or of features (batch, steps, features).
_SEQUENCE_AXES = (2, 3)
_TO_CHANNELS_FIRST = (0, 3, 1, 2)


def sole_input(network: OnnxNetwork, path: Path) -> Input:
    """The one input of a network.

    Raises:
        ModelError: there is none or more than one, it holds neither floating-point numbers nor tokens, or it has other
            than 2 to 5 axes.
    """
    if len(network.inputs) != 1:
        names = ", ".join(repr(each.name) for each in network.inputs[:4]) or "none"
        raise ModelError(
            f"{path} has {len(network.inputs)} inputs ({names}); only networks with one input are supported: "
            "export the part that reads the image"
        )
    (image,) = network.inputs
    if not image.floating and (not image.tokens or image.extents is None or len(image.extents) != 2):
        raise ModelError(
            f"{path}: the input {image.name!r} holds other than floating-point numbers, and is not (batch, steps) of "
            "int32 or int64 tokens; export the network so that it reads preprocessed float32 images"
        )
    if image.extents is not None and not 2 <= len(image.extents) <= 5:
        raise ModelError(
            f"{path}: the input {image.name!r} has {len(image.extents)} axes; supported are images (batch, channels, "
            "height, width), vectors (batch, features), and what lies between"
        )
    return image


def has_steps_first(network: OnnxNetwork, image: Input) -> bool:
    """Whether the input seems to have the batch as its second axis: of the first two, that one alone is open."""
    extents = image.extents or ()
    recurrent = any(node.op in RECURRENT for node in network.nodes)
    return recurrent and len(extents) in _SEQUENCE_AXES and extents[0] is not None and extents[1] is None


def may_be_sequence(image: Input) -> bool:
    """Whether the input may be tokens or features of every step."""
    return image.extents is None or len(image.extents) in _SEQUENCE_AXES


def told_shape(
    image: Input, nodes: Sequence[OnnxNode], axes: int
) -> tuple[Optional[int], tuple[Optional[int], ...], bool]:
    """The file's batch size, its input's shape as far as it is fixed, and whether the file has the channels last.

    Where the file does not tell the number of ``axes``, it is this one.
    """
    batch, *extents = image.extents or (None,) * axes
    last = (
        len(extents) == 3
        and extents[2] in _IMAGE_CHANNELS
        and extents[0] not in _IMAGE_CHANNELS
        and any(node.op == "Transpose" and node.attributes.get("perm") == _TO_CHANNELS_FIRST for node in nodes)
    )
    return batch, (extents[2], extents[0], extents[1]) if last else tuple(extents), last


def checked_shape(image: Input, told: tuple[Optional[int], ...], given: Optional[Shape], path: Path) -> Shape:
    """The shape of one sample: the one that is given, or else the one that the file tells.

    Raises:
        ModelError: the file leaves it open and none is given, the given one contradicts the file, or it is beyond all
            memory.
    """
    shape = given or tuple(extent for extent in told if extent is not None)
    if len(shape) != len(told):
        raise ModelError(
            f"{path} does not fix the shape of its input {image.name!r}; give one, such as --input-shape 3,224,224"
        )
    if told[0] not in (None, shape[0]):
        what = "channels" if len(told) == 3 else "places"
        raise ModelError(f"{path}: the input {image.name!r} has {told[0]} {what}, not {shape[0]}; correct the shape")
    if prod(shape) > MOST_ELEMENTS:
        raise ModelError(f"{path}: the input {image.name!r} of shape {shape} is beyond all memory; correct the shape")
    return shape
