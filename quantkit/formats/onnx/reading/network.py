"""An ONNX file as a graph of MXNet's operators."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Optional, Union

from quantkit.errors import ModelError
from quantkit.formats.mxnet.params import check_finite
from quantkit.formats.onnx.reading.biases import with_biases
from quantkit.formats.onnx.reading.construction import Construction, transposed
from quantkit.formats.onnx.reading.conversion import convert
from quantkit.formats.onnx.reading.inputs import (
    Shapes,
    check_inputs,
    checked_shape,
    has_steps_first,
    may_be_sequence,
    shape_of_one,
    shapes_of_several,
    told_shape,
)
from quantkit.formats.onnx.reading.read import Input, OnnxNetwork, read_network
from quantkit.formats.onnx.reading.recurrent import OtherBatchAxis
from quantkit.formats.onnx.reading.states import with_zero_states
from quantkit.formats.onnx.reading.values import BATCH, Budget, Computed, Constant, OnnxNode, Shape, Value, shown
from quantkit.ir.graph import Graph, Tensor
from quantkit.ir.joined_inputs import free_name, with_inputs_joined
from quantkit.ir.names import Names

_TO_CHANNELS_LAST = (0, 2, 3, 1)

# The bytes that constants and parameters computed from a file may take: this many, plus this many times its size.
# Weights of 16 bits that are folded once or twice, or shared by some layers, stay far below. The few are for shapes,
# masks and matrices that small files compute.
_FEW_BYTES = 2**26
_MOST_TIMES = 16

# The bytes of weights that a file fills with one number, of which reading holds that number alone: the largest of
# ONNX's own networks of this kind, a VGG-19, has 548 MiB.
_FILLED_BYTES = 5 * 2**27


@dataclass(frozen=True, eq=False)
class Imported:
    """A network, and the file's metadata.

    ``input_shape`` is that of one sample: (channels, height, width), (features,), (steps, features), or (steps,) for
    tokens. ``usual_shape`` is ``input_shape`` with the extents that the file fixes. Nodes and parameters keep their
    ONNX names where these are free; the network's outputs always do. ``sha256`` is that of the file and of the files
    that hold its weights. ``zero_states`` are the inputs of the file that were initial states; ``steps_first`` says
    whether its input has the batch as its second axis. ``joined`` are the shapes of its inputs where it has several:
    ``graph`` reads them as one vector, see ``ir.joined_inputs``, of which ``input_shape`` is the length.
    """

    graph: Graph
    input_shape: Shape
    usual_shape: Shape
    metadata: Mapping[str, str] = field(repr=False)
    sha256: str
    zero_states: tuple[str, ...]
    steps_first: bool
    joined: Shapes = field(default_factory=dict)


def import_network(
    path: Path, input_shape: Union[Shape, Shapes, None] = None, steps_first: Optional[bool] = None
) -> Imported:
    """Read an FP32 network (16-bit floating-point weights become 32-bit ones) from an ONNX file, opset 6 to 24.

    A fixed batch size becomes open. An input with the channels last is read with the channels first; sequences with the
    batch as their second axis are read with the batch first, and outputs have it first, too. Inputs that are initial
    states of recurrent layers become zero.

    Args:
        path: the file; weights outside it must lie in the same folder or below.
        input_shape: of one input without the batch, if the file leaves it open or the network takes others, too; by
            their names where there are several.
        steps_first: whether an input of sequences has the batch as its second axis; None: as its recurrent layers read
            it. Several inputs begin with the batch.

    Raises:
        ModelError: the file cannot be read or is damaged, is an INT8 network, has no input or one that is not
            read, or has operators that the engine lacks; the message names them.
        UserError: the package ``onnx`` is not installed.
    """
    network = with_zero_states(read_network(path))
    check_inputs(network, path)
    if len(network.inputs) > 1:
        return _with_several_inputs(network, path, input_shape)
    (image,) = network.inputs
    shape = shape_of_one(image, input_shape, path)
    likely = has_steps_first(network, image) if steps_first is None else steps_first and may_be_sequence(image)
    for tried in (likely, not likely) if steps_first is None else (likely,):
        with suppress(OtherBatchAxis):
            return _imported(network, image, path, shape, tried)
    if steps_first is not None:
        raise ModelError(
            f"{path}: its recurrent layers would take the samples of a batch for steps with that layout; leave the "
            "layout out: they tell which axis comes first"
        )
    raise ModelError(
        f"{path}: its recurrent layers do not agree on which axis of the input {image.name!r} is the batch; "
        "export the network with one order of steps and batch"
    )


def _imported(
    network: OnnxNetwork, image: Input, path: Path, input_shape: Optional[Shape], steps_first: bool
) -> Imported:
    """The network; with ``steps_first`` the batch is the second axis of its input in the file."""
    fixed, told, last = told_shape(image, network.nodes, 4 if input_shape is None else len(input_shape) + 1)
    if steps_first:
        fixed, told = told[0], (fixed, *told[1:])
    shape = checked_shape(image, told, input_shape, path)
    state = _begun(network, fixed)
    state.values[image.name] = Computed(Tensor(image.name), (BATCH, *shape), integral=not image.floating)
    if steps_first:
        entry = OnnxNode("Transpose", f"{image.name}_batch_first", (image.name,), (image.name,), {})
        axes = (1, 0, *range(2, len(shape) + 1))
        turned = transposed(state, entry, state.computed(entry), axes, "turned")
        state.values[image.name] = replace(turned, integral=not image.floating)
    if last:
        entry = OnnxNode("Transpose", f"{image.name}_channels_last", (image.name,), (image.name,), {})
        state.values[image.name] = transposed(state, entry, state.computed(entry), _TO_CHANNELS_LAST, "turned")
    graph = _converted(state, network, path)
    usual = tuple(own or asked for own, asked in zip(told, shape))
    return Imported(graph, shape, usual, network.metadata, network.sha256, network.zero_states, steps_first)


def _with_several_inputs(network: OnnxNetwork, path: Path, given: Union[Shape, Shapes, None]) -> Imported:
    """The network with its inputs in one vector."""
    fixed, shapes = shapes_of_several(network.inputs, given, path)
    state = _begun(network, fixed)
    for each in network.inputs:
        shape = (BATCH, *shapes[each.name])
        state.values[each.name] = Computed(Tensor(each.name), shape, integral=not each.floating)
    try:
        graph = _converted(state, network, path)
    except OtherBatchAxis as error:
        raise ModelError(
            f"{path}: its recurrent layers read steps before the batch; export the network with the batch first"
        ) from error
    joined = {name: shapes[name] for name in graph.inputs}
    values: Shape = (sum(map(prod, joined.values())),)
    if len(joined) == 1:
        # Another one was needed for its shape alone.
        ((_, values),) = joined.items()
        joined = {}
    graph = with_inputs_joined(graph, free_name(graph.names, joined), joined)
    return Imported(graph, values, values, network.metadata, network.sha256, network.zero_states, False, joined)


def _begun(network: OnnxNetwork, fixed: Optional[int]) -> Construction:
    """The construction of a network, with its constants."""
    inputs, outputs = frozenset(each.name for each in network.inputs), frozenset(network.outputs)
    names = Names((*inputs, *outputs, *(node.name for node in network.nodes)))
    budget = Budget(_FEW_BYTES + _MOST_TIMES * network.size)
    constants: dict[str, Value] = {name: Constant(name, array) for name, array in network.constants.items()}
    return Construction(network.opset, inputs, outputs, names, budget, Budget(_FILLED_BYTES), fixed, constants)


def _converted(state: Construction, network: OnnxNetwork, path: Path) -> Graph:
    """The whole network, with those of its inputs that it reads."""
    convert(state, network.nodes, path)
    graph = with_biases(_graph(state, network, path))
    check_finite(graph.params, str(path))
    return graph


def _graph(state: Construction, network: OnnxNetwork, path: Path) -> Graph:
    outputs = network.outputs
    values = {name: _output(state, name, path) for name in outputs}
    inside = {name: value for name, value in values.items() if value.shape[0] != BATCH}
    values.update(_batch_first(state, inside))
    tensors = tuple(values[name].tensor for name in outputs)
    graph = Graph(
        tuple(state.nodes.values()), tuple(each.name for each in network.inputs), tensors, state.params
    ).pruned()
    read = {tensor.node for node in graph.nodes for tensor in node.inputs} | {tensor.node for tensor in tensors}
    return replace(graph, inputs=tuple(name for name in graph.inputs if name in read) or graph.inputs[:1])


def _output(state: Construction, name: str, path: Path) -> Computed:
    value = state.values.get(name)
    if not isinstance(value, Computed):
        raise ModelError(f"{path}: the output {name!r} does not depend on the input; leave it out of the network")
    if BATCH not in value.shape:
        raise ModelError(
            f"{path}: the output {name!r} has the shape {shown(value.shape)}, not the batch as its first axis; "
            "end the network before that"
        )
    return value


def _batch_first(state: Construction, outputs: Mapping[str, Computed]) -> dict[str, Computed]:
    """Outputs with their batch moved to the front, under their names; what they were has others from here on."""
    own = {name: Tensor(state.names.take(f"{name}_batch_inside")) for name in outputs}
    moved = {value.tensor: own[name] for name, value in outputs.items()}
    nodes = tuple(state.nodes.values())
    state.nodes.clear()
    for node in nodes:
        name = own[node.name].node if node.name in own else node.name
        inputs = tuple(moved.get(each, each) for each in node.inputs)
        state.nodes[name] = replace(node, name=name, inputs=inputs)
    found = {}
    for name, value in outputs.items():
        position = value.shape.index(BATCH)
        axes = (position, *(axis for axis in range(len(value.shape)) if axis != position))
        entry = OnnxNode("Transpose", name, (name,), (name,), {})
        found[name] = transposed(state, entry, replace(value, tensor=own[name]), axes)
    return found
