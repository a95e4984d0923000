"""A file's inputs: the order of their axes, and their shapes as far as the file fixes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Optional, Union

from quantkit.errors import ModelError
from quantkit.formats.onnx.reading.read import Input, OnnxNetwork
from quantkit.formats.onnx.reading.recurrent import RECURRENT
from quantkit.formats.onnx.reading.values import MOST_ELEMENTS, OnnxNode, Shape

_IMAGE_CHANNELS = (1, 3, 4)
# Of tokens (batch, steps), or of features (batch, steps, features).
_SEQUENCE_AXES = (2, 3)
_TO_CHANNELS_FIRST = (0, 3, 1, 2)


Shapes = Mapping[str, Shape]
"""Shapes without the batch, by the names of inputs."""


def check_inputs(network: OnnxNetwork, path: Path) -> None:
    """Make sure that a network's inputs can be read.

    Raises:
        ModelError: there is none, or one holds neither floating-point numbers nor tokens, or has other than 2 to 5
            axes.
    """
    if not network.inputs:
        raise ModelError(f"{path} has no inputs; export the network without folding its input")
    for each in network.inputs:
        _check(each, path)


def _check(image: Input, path: Path) -> None:
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


def shape_of_one(image: Input, given: Union[Shape, Shapes, None], path: Path) -> Optional[Shape]:
    """The shape that is given for the only input of a network.

    Raises:
        ModelError: shapes are given for others.
    """
    if not isinstance(given, Mapping):
        return given
    if set(given) != {image.name}:
        raise ModelError(f"{path} has one input, {image.name!r}; give its shape alone, such as --input-shape 3,224,224")
    return given[image.name]


def shapes_of_several(
    inputs: Sequence[Input], given: Union[Shape, Shapes, None], path: Path
) -> tuple[Optional[int], dict[str, Shape]]:
    """The file's batch size, None if it is open, and the shapes of its several inputs.

    Raises:
        ModelError: the file leaves a shape open and none is given, one that is given contradicts it or names no input,
            or the inputs have different numbers of samples.
    """
    if given is not None and not isinstance(given, Mapping):
        raise ModelError(
            f"{path} has {len(inputs)} inputs; give shapes with their names, such as "
            f"--input-shape {inputs[0].name}=3,224,224"
        )
    by_name = {each.name: each for each in inputs}
    if unknown := next((name for name in given or () if name not in by_name), None):
        raise ModelError(f"{path} has no input {unknown!r}; it has {', '.join(map(repr, by_name))}")
    batches: dict[Optional[int], str] = {}
    shapes = {}
    for name, each in by_name.items():
        asked = (given or {}).get(name)
        if each.extents is None and asked is None:
            raise ModelError(
                f"{path} does not fix the shape of its input {name!r}; give it with --input-shape {name}=..."
            )
        batch, *told = each.extents or (None,) * (1 + len(asked or ()))
        batches.setdefault(batch, name)
        shapes[name] = checked_shape(each, tuple(told), asked, path, f"{name}=")
    if len(fixed := {size: name for size, name in batches.items() if size is not None}) > 1:
        (first, name), (other, differs) = list(fixed.items())[:2]
        raise ModelError(
            f"{path}: its inputs do not agree on the batch size: the first axis of {name!r} has {first}, that of "
            f"{differs!r} {other}; export it with the batch as the first axis of each input"
        )
    if sum(map(prod, shapes.values())) > MOST_ELEMENTS:
        raise ModelError(f"{path}: its inputs together do not fit in memory; correct the shapes")
    return next(iter(fixed), None), shapes


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


def checked_shape(
    image: Input, told: tuple[Optional[int], ...], given: Optional[Shape], path: Path, prefix: str = ""
) -> Shape:
    """The shape of one sample: the one that is given, or else the one that the file tells.

    ``prefix`` is what stands before it on the command line.

    Raises:
        ModelError: the file leaves it open and none is given, the given one contradicts the file, or it is beyond all
            memory.
    """
    shape = given or tuple(extent for extent in told if extent is not None)
    if len(shape) != len(told):
        raise ModelError(
            f"{path} does not fix the shape of its input {image.name!r}; give one, such as "
            f"--input-shape {prefix}3,224,224"
        )
    if told[0] not in (None, shape[0]):
        what = "channels" if len(told) == 3 else "places"
        raise ModelError(f"{path}: the input {image.name!r} has {told[0]} {what}, not {shape[0]}; correct the shape")
    if prod(shape) > MOST_ELEMENTS:
        raise ModelError(f"{path}: the input {image.name!r} of shape {shape} is beyond all memory; correct the shape")
    return shape
