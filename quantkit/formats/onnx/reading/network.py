"""An ONNX file as a graph of MXNet's operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Optional

import numpy as np

from quantkit.errors import ModelError
from quantkit.formats.mxnet.params import check_finite
from quantkit.formats.onnx.reading.biases import with_biases
from quantkit.formats.onnx.reading.construction import MOST_ELEMENTS, Construction, Converter, transposed
from quantkit.formats.onnx.reading.elementwise import ELEMENTWISE
from quantkit.formats.onnx.reading.folding import FOLDS, Folding
from quantkit.formats.onnx.reading.layers import LAYERS
from quantkit.formats.onnx.reading.layout import LAYOUT
from quantkit.formats.onnx.reading.pooling import POOLING
from quantkit.formats.onnx.reading.read import OWN_DOMAINS, Input, OnnxNetwork, read_network
from quantkit.formats.onnx.reading.recurrent import RECURRENT, OtherBatchAxis
from quantkit.formats.onnx.reading.resizing import RESIZING
from quantkit.formats.onnx.reading.states import with_zero_states
from quantkit.formats.onnx.reading.values import (
    BATCH,
    Budget,
    Computed,
    Constant,
    OnnxNode,
    Refused,
    Shape,
    Value,
    shown,
)
from quantkit.ir.graph import Graph, Tensor
from quantkit.ir.names import Names

CONVERTERS: Mapping[str, Converter] = {**LAYERS, **POOLING, **ELEMENTWISE, **LAYOUT, **RESIZING, **RECURRENT}

_SHOWN = 8
_IMAGE_CHANNELS = (1, 3, 4)
# Of tokens (batch, steps), or of features (batch, steps, features).
_SEQUENCE_AXES = (2, 3)
_TO_CHANNELS_FIRST = (0, 3, 1, 2)
_TO_CHANNELS_LAST = (0, 2, 3, 1)

# Their results are integers where what they read is.
_MOVES = frozenset({"Flatten", "Gather", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze"})

# The bytes that constants and parameters computed from a file may take: this many, plus this many times its size.
# Weights of 16 bits that are folded once or twice, or shared by some layers, stay far below.
_FEW_BYTES = 2**28
_MOST_TIMES = 16

# The exceptions that arithmetic with numbers from a damaged file raises.
_CONTRADICTIONS = (ValueError, TypeError, IndexError, KeyError, OverflowError, ZeroDivisionError, MemoryError)


@dataclass(frozen=True, eq=False)
class Imported:
    """A network with one input, and the file's metadata.

    ``input_shape`` is that of one sample: (channels, height, width), (features,), (steps, features), or (steps,) for
    tokens. ``usual_shape`` is ``input_shape`` with the extents that the file fixes. Nodes and parameters keep their
    ONNX names where these are free; the network's outputs always do. ``sha256`` is that of the file and of the files
    that hold its weights. ``zero_states`` are the inputs of the file that were initial states; ``steps_first`` says
    whether its input has the batch as its second axis.
    """

    graph: Graph
    input_shape: Shape
    usual_shape: Shape
    metadata: Mapping[str, str] = field(repr=False)
    sha256: str
    zero_states: tuple[str, ...]
    steps_first: bool


def import_network(path: Path, input_shape: Optional[Shape] = None, steps_first: Optional[bool] = None) -> Imported:
    """Read an FP32 network (16-bit floating-point weights become 32-bit ones) from an ONNX file, opset 9 to 21.

    A fixed batch size becomes open. An input with the channels last is read with the channels first; sequences with the
    batch as their second axis are read with the batch first, and outputs have it first, too. Inputs that are initial
    states of recurrent layers become zero.

    Args:
        path: the file; weights outside it must lie in the same folder or below.
        input_shape: of one input without the batch, if the file leaves it open or the network takes others, too.
        steps_first: whether an input of sequences has the batch as its second axis; None: as its recurrent layers read
            it.

    Raises:
        ModelError: the file cannot be read or is damaged, is an INT8 network, does not have exactly one input,
            or has operators that the engine lacks; the message names them.
        UserError: the package ``onnx`` is not installed.
    """
    network = with_zero_states(read_network(path))
    image = _image(network, path)
    likely = _has_steps_first(network, image) if steps_first is None else steps_first and _may_be_sequence(image)
    for tried in (likely, not likely) if steps_first is None else (likely,):
        with suppress(OtherBatchAxis):
            return _imported(network, image, path, input_shape, tried)
    if steps_first is not None:
        raise ModelError(
            f"{path}: its recurrent layers would take the samples of a batch for steps with that layout; leave the "
            "layout out: they tell which axis comes first"
        )
    raise ModelError(
        f"{path}: its recurrent layers do not agree on which axis of the input {image.name!r} is the batch; "
        "export the network with one order of steps and batch"
    )


def _has_steps_first(network: OnnxNetwork, image: Input) -> bool:
    """Whether the input seems to have the batch as its second axis: of the first two, that one alone is open."""
    extents = image.extents or ()
    recurrent = any(node.op in RECURRENT for node in network.nodes)
    return recurrent and len(extents) in _SEQUENCE_AXES and extents[0] is not None and extents[1] is None


def _may_be_sequence(image: Input) -> bool:
    return image.extents is None or len(image.extents) in _SEQUENCE_AXES


def _imported(
    network: OnnxNetwork, image: Input, path: Path, input_shape: Optional[Shape], steps_first: bool
) -> Imported:
    """The network; with ``steps_first`` the batch is the second axis of its input in the file."""
    fixed, told, last = _told_shape(image, network.nodes, 4 if input_shape is None else len(input_shape) + 1)
    if steps_first:
        fixed, told = told[0], (fixed, *told[1:])
    shape = _checked_shape(image, told, input_shape, path)
    outputs = frozenset(network.outputs)
    names = Names((image.name, *outputs, *(node.name for node in network.nodes)))
    budget = Budget(_FEW_BYTES + _MOST_TIMES * network.size)
    state = Construction(network.opset, image.name, outputs, names, budget, fixed)
    state.values.update({name: Constant(name, array) for name, array in network.constants.items()})
    state.values[image.name] = Computed(Tensor(image.name), (BATCH, *shape), integral=not image.floating)
    if steps_first:
        entry = OnnxNode("Transpose", f"{image.name}_batch_first", (image.name,), (image.name,), {})
        axes = (1, 0, *range(2, len(shape) + 1))
        turned = transposed(state, entry, state.computed(entry), axes, "turned")
        state.values[image.name] = replace(turned, integral=not image.floating)
    if last:
        entry = OnnxNode("Transpose", f"{image.name}_channels_last", (image.name,), (image.name,), {})
        state.values[image.name] = transposed(state, entry, state.computed(entry), _TO_CHANNELS_LAST, "turned")
    _convert(state, network.nodes, path)
    graph = with_biases(_graph(state, network.outputs, image.name, path))
    check_finite(graph.params, str(path))
    usual = tuple(own or asked for own, asked in zip(told, shape))
    return Imported(graph, shape, usual, network.metadata, network.sha256, network.zero_states, steps_first)


def _image(network: OnnxNetwork, path: Path) -> Input:
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


def _told_shape(
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


def _checked_shape(image: Input, told: tuple[Optional[int], ...], given: Optional[Shape], path: Path) -> Shape:
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


def _convert(state: Construction, nodes: Sequence[OnnxNode], path: Path) -> None:
    """Convert every operator whose inputs could be converted.

    Raises:
        ModelError: some cannot be converted; the message names them.
    """
    fold = Folding(state.budget)
    refused = []
    for node in nodes:
        if any(name and name not in state.values for name in node.inputs):
            continue
        try:
            _convert_one(state, node, fold)
        except Refused as error:
            refused.append(f"{node.op} {node.name!r}: {error}")
        except _CONTRADICTIONS as error:
            refused.append(f"{node.op} {node.name!r}: it contradicts itself ({error})")
    if refused:
        rest = f"; and {len(refused) - _SHOWN} more" if len(refused) > _SHOWN else ""
        raise ModelError(
            f"{path} cannot be imported for {len(refused)} of its operators: {'; '.join(refused[:_SHOWN])}{rest}. "
            "Replace them in the network before it is exported, or export the part before them"
        )


def _convert_one(state: Construction, node: OnnxNode, fold: Folding) -> None:
    if node.domain not in OWN_DOMAINS:
        raise Refused(
            f"it is not one of ONNX's own but of {node.domain!r}; export for plain ONNX, with functions inlined "
            "(onnx.inliner.inline_local_functions)"
        )
    given = [state.values[name] if name else None for name in node.inputs]
    if node.op in ("Shape", "Size") and given and isinstance(given[0], Computed):
        state.values[node.outputs[0]] = Constant(node.outputs[0], _extents(node, given[0].shape))
    elif node.op in FOLDS and not any(isinstance(value, Computed) for value in given):
        arrays = [None if value is None else value.array for value in given if not isinstance(value, Computed)]
        state.values[node.outputs[0]] = Constant(node.outputs[0], fold(node, arrays))
    elif node.op in CONVERTERS:
        CONVERTERS[node.op](state, node)
        _keep_type(state, node, given)
    else:
        raise Refused("the engine has no such operator")


def _keep_type(state: Construction, node: OnnxNode, given: Sequence[Optional[Value]]) -> None:
    """Mark as integers what moves integers."""
    if node.op in _MOVES and given and isinstance(given[0], Computed) and given[0].integral:
        for name in node.outputs:
            value = state.values.get(name)
            if isinstance(value, Computed):
                state.values[name] = replace(value, integral=True)


def _extents(node: OnnxNode, shape: Shape) -> np.ndarray:
    if node.op == "Size":
        return np.array(np.prod(np.array(shape, object)), np.int64)
    end = node.integer("end", len(shape))
    return np.array(shape[node.integer("start", 0) : end], np.int64)


def _graph(state: Construction, outputs: Sequence[str], image: str, path: Path) -> Graph:
    tensors = []
    for name in outputs:
        value = state.values.get(name)
        if not isinstance(value, Computed):
            raise ModelError(f"{path}: the output {name!r} does not depend on the image; leave it out of the network")
        if BATCH in value.shape[1:]:
            value = _batch_first(state, name, value)
        elif value.shape[:1] != (BATCH,):
            raise ModelError(
                f"{path}: the output {name!r} has the shape {shown(value.shape)}, not the batch as its first axis; "
                "end the network before that"
            )
        tensors.append(value.tensor)
    return Graph(tuple(state.nodes.values()), (image,), tuple(tensors), state.params).pruned()


def _batch_first(state: Construction, output: str, value: Computed) -> Computed:
    """An output with its batch moved to the front, under its name; what it was has another from here on."""
    own = Tensor(state.names.take(f"{output}_batch_inside"))
    nodes = tuple(state.nodes.values())
    state.nodes.clear()
    for node in nodes:
        name = own.node if node.name == output else node.name
        inputs = tuple(own if each == value.tensor else each for each in node.inputs)
        state.nodes[name] = replace(node, name=name, inputs=inputs)
    position = value.shape.index(BATCH)
    axes = (position, *(axis for axis in range(len(value.shape)) if axis != position))
    entry = OnnxNode("Transpose", output, (output,), (output,), {})
    return transposed(state, entry, replace(value, tensor=own), axes)
