"""A quantized network as a network of plain operators with QuantizeLinear and DequantizeLinear between them.

This is ONNX's form of INT8 networks (QDQ): operators compute with real numbers, and every tensor that has an integer
form is rounded to it and back. Engines recognise the pattern and compute in integers. Scales and integer weights are
those of MXNet's INT8 kernels, so the result is what MXNet computes, with some exceptions: tensors with negative
values are uint8 with zero point 128, which has the same levels as int8; a sum with an addend keeps all 8 bits; and
a layer's result is rounded before an addend is added, since ONNX Runtime adds integers to integers. INT8 LSTM layers
have forms of their own, see ``lowering.onnx_lstm``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Optional

import numpy as np

from quantkit.calibration.ranges import Range
from quantkit.ir.fused_layer import FusedLayer, fused_layer_of, layer_of, unrolled, with_relu_only
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.names import Names
from quantkit.ir.operators import DEQUANTIZE, QUANTIZE, activation_kind, flag
from quantkit.ir.recurrent_layer import (
    CELL_OUTPUT,
    RecurrentLayer,
    batch_first_cell,
    hands_on_cell_of,
    recurrent_layer_of,
    swapped,
    time_major,
)
from quantkit.lowering.onnx_lstm import LstmForm, check_lstm_form, written_features, written_lstm
from quantkit.lowering.subsampling import with_subsampling
from quantkit.lowering.weights import engine_weight
from quantkit.quantization.arithmetic import QuantParams, affine_params
from quantkit.quantization.layer_weights import layer_integers
from quantkit.quantization.plan import QuantizationPlan, TensorQuantization
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.quantization.reduced_range import ReduceRange, with_reduced_range

Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class QdqNetwork:
    """The network; its ``QuantizeLinear`` and ``DequantizeLinear`` read scale and zero point as further inputs.

    ``shapes`` are those of all its tensors.
    """

    graph: Graph
    shapes: Mapping[Tensor, Shape] = field(repr=False)


def qdq_network(
    network: QuantizedGraph,
    shapes: Mapping[Tensor, Shape],
    reduce_range: ReduceRange = "none",
    lstm: LstmForm = "qdq",
) -> QdqNetwork:
    """Lower a quantized network to QDQ form: separate operators, and each rounding as two nodes.

    Tensors of the fused network keep their names; a tensor with an integer form keeps it for the dequantized values.

    Args:
        network: the quantized network.
        shapes: of the fused network's tensors.
        reduce_range: which weights get fewer than 8 bits; see ``quantization.reduced_range``.
        lstm: the form of INT8 LSTM layers.

    Raises:
        UserError: ``reduce_range`` or ``lstm`` is unknown.
    """
    check_lstm_form(lstm)
    network, known = with_subsampling(network, shapes)
    lstm_features = written_features(network)
    graph, lowering = network.graph, _Lowering(network, reduce_range, known, Names(network.graph.names))
    for node in graph.nodes:
        recurrent, ended = recurrent_layer_of(node), hands_on_cell_of(graph, node)
        if network.int8_recurrent(node) is not None:
            _write_int8_lstm(lowering, RecurrentLayer(node), lstm, lstm_features[node.name])
        elif recurrent is not None:
            _write_recurrent(lowering, recurrent)
        elif ended is not None:
            cell = batch_first_cell(node.name, lowering.recurrent[ended.node.name], node.origin)
            lowering.add(cell, lowering.shapes[node.output])
        elif not network.is_int8(node):
            lowering.write_out(node, lowering.read_in_fp32(node))
        elif node.op == "Concat" and _is_rectified(graph, node):
            _write_rounded_parts(lowering, node)
        elif fused_layer_of(node) is None:
            lowering.write_out(node, tuple(map(lowering.rounded, node.inputs)))
        else:
            _write_int8_layer(lowering, node)
    made = Graph(tuple(lowering.nodes), graph.inputs, graph.outputs, {**graph.params, **lowering.params}).pruned()
    return QdqNetwork(made, lowering.shapes)


@dataclass
class _Lowering:
    """The nodes written so far.

    ``in_integers`` has the rounded form of tensors that are computed in FP32, ``of_rounded`` the tensors with the same
    values that ReLUs read in place of rounded concatenations, and ``recurrent``, by recurrent layers, the operator that
    computes each, steps first.
    """

    network: QuantizedGraph
    reduce_range: ReduceRange
    shapes: dict[Tensor, Shape]
    names: Names
    nodes: list[Node] = field(default_factory=list)
    params: dict[str, np.ndarray] = field(default_factory=dict)
    in_integers: dict[Tensor, Tensor] = field(default_factory=dict)
    of_rounded: dict[Tensor, Tensor] = field(default_factory=dict)
    recurrent: dict[str, str] = field(default_factory=dict)

    @property
    def graph(self) -> Graph:
        return self.network.graph

    def add(self, node: Node, shape: Shape) -> Tensor:
        self.nodes.append(node)
        self.shapes[node.output] = shape
        return node.output

    def add_recurrent(self, node: Node, layer: RecurrentLayer) -> Tensor:
        """Add the operator that computes a recurrent layer, steps first."""
        batch, steps, across = self.shapes[layer.node.output]
        self.recurrent[layer.node.name] = node.name
        self.shapes[Tensor(node.name, CELL_OUTPUT)] = (layer.layers * layer.directions, batch, layer.hidden)
        return self.add(node, (steps, batch, across))

    def add_param(self, wanted: str, value: np.ndarray) -> Tensor:
        name = self.names.take(wanted)
        self.params[name] = value
        self.shapes[Tensor(name)] = value.shape
        return Tensor(name)

    def read_in_fp32(self, node: Node) -> tuple[Tensor, ...]:
        """What an operator reads that runs in FP32."""
        rectifies = activation_kind(node) == "relu"
        return tuple(self.of_rounded.get(tensor, tensor) for tensor in node.inputs) if rectifies else node.inputs

    def rounded(self, tensor: Tensor) -> Tensor:
        """The tensor after rounding to the integers of the plan."""
        producer = self.graph.producer(tensor)
        if producer is not None and self.network.computes_integers(producer):
            return tensor
        if tensor not in self.in_integers:
            name = tensor.stem
            params = tensor_params(self.network.form(tensor))
            self.in_integers[tensor] = self.round(tensor, params, name, self.names.take(f"{name}_dequantized"))
        return self.in_integers[tensor]

    def round(self, tensor: Tensor, params: QuantParams, name: str, last: str) -> Tensor:
        """Add the rounding of a tensor to integers and back; the last node is called ``last``."""
        scale = self.add_param(f"{name}_scale", np.array(params.scale, np.float32))
        zero_point = self.add_param(f"{name}_zero_point", np.array(params.zero_point, params.dtype))
        shape = self.shapes[tensor]
        quantized = Node(self.names.take(f"{name}_quantized"), QUANTIZE, (tensor, scale, zero_point))
        stored = self.add(quantized, shape)
        return self.add(Node(last, DEQUANTIZE, (stored, scale, zero_point)), shape)

    def constant(self, name: str, integers: np.ndarray, scale: np.ndarray) -> Tensor:
        """Add a parameter that is stored as integers, with one scale per element of its first axis."""
        zero_points = np.zeros(len(integers), integers.dtype)
        values = {"integers": integers, "scale": scale, "zero_points": zero_points}
        stored = tuple(self.add_param(f"{name}_{what}", value) for what, value in values.items())
        node = Node(self.names.take(f"{name}_dequantized"), DEQUANTIZE, stored, {"axis": "0"})
        return self.add(node, integers.shape)

    def write_out(self, node: Node, inputs: Sequence[Tensor], pre_add: Optional[QuantParams] = None) -> None:
        """Add a node of the fused network, operator by operator, and its rounding if its output is integers.

        ``pre_add`` is the rounding of a layer's result before the addend is added.
        """
        rounds = self.network.computes_integers(node)
        last = self.names.take(f"{node.name}_unrounded") if rounds else node.name
        first, *rest = unrolled(node, inputs, last, self.names.take)
        shape = self.shapes[node.output]
        result = self.add(first, shape)
        if pre_add is not None:
            result = self.round(result, pre_add, first.name, self.names.take(f"{first.name}_dequantized"))
        if rest and first.op == "FullyConnected" and self.network.is_int8(node) and not rounds:
            # ONNX Runtime fuses an activation into a dense layer before it looks for integers, which leaves it in FP32.
            bound = {"scalar": repr(float(np.finfo(np.float32).max))}
            bounded = Node(self.names.take(f"{first.name}_bounded"), "_minimum_scalar", (result,), bound, node.origin)
            result = self.add(bounded, shape)
        for part in rest:
            operands = tuple(result if tensor == first.output else tensor for tensor in part.inputs)
            self.add(replace(part, inputs=operands), shape)
        if rounds:
            self.round(Tensor(last), tensor_params(self.network.form(node.output)), node.name, node.name)


def _write_recurrent(lowering: _Lowering, layer: RecurrentLayer) -> None:
    """Recurrent layers in FP32, as operators of MXNet's that read steps first."""
    batch, steps, features = lowering.shapes[layer.data]
    exchanged, *states, rnn, last = time_major(layer)
    lowering.add(exchanged, (steps, batch, features))
    for state in states:
        lowering.add(state, (layer.layers * layer.directions, batch, layer.hidden))
    lowering.add_recurrent(rnn, layer)
    lowering.add(last, lowering.shapes[layer.node.output])


def _write_int8_lstm(lowering: _Lowering, layer: RecurrentLayer, form: LstmForm, width: int) -> None:
    """An INT8 LSTM layer as one operator, which reads and puts out steps first; ``width``: see ``written_features``."""
    node = layer.node
    batch, steps, features = lowering.shapes[layer.data]
    exchanged = swapped(lowering.names.take(f"{node.name}_time_major"), layer.data, node.origin)
    lstm = written_lstm(lowering.network, layer, form, width)
    constants = [lowering.add_param(f"{node.name}_{what}", value) for what, value in lstm.constants.items()]
    data = lowering.add(exchanged, (steps, batch, features))
    initial = [
        lowering.add(swapped(lowering.names.take(f"{node.name}_{what}"), state, node.origin), (1, batch, layer.hidden))
        for what, state in zip(("initial_state", "initial_cell"), layer.states)
    ]
    operator = lowering.names.take(f"{node.name}_lstm")
    result = lowering.add_recurrent(Node(operator, lstm.operator, (data, *constants, *initial), {}, node.origin), layer)
    lowering.add(swapped(node.name, result, node.origin), lowering.shapes[node.output])


def _is_rectified(graph: Graph, node: Node) -> bool:
    """Whether a ReLU reads a result."""
    return any(activation_kind(reader) == "relu" for reader in graph.consumers.get(node.output, ()))


def _write_rounded_parts(lowering: _Lowering, node: Node) -> None:
    """A concatenation whose parts are rounded to its integers one by one, which gives the same values.

    OpenVINO 2026.4 ends the process that loads a concatenation which is rounded itself, with negative values, and
    whose rectified values are rounded once more. Readers other than ReLUs read it rounded, which marks their integers.
    """
    form, graph = lowering.network.form(node.output), lowering.graph
    parts = []
    for place, tensor in enumerate(node.inputs):
        part = lowering.rounded(tensor)
        if lowering.network.form(tensor) != form:
            name = lowering.names.take(f"{node.name}_part{place}")
            part = lowering.round(part, tensor_params(form), name, lowering.names.take(f"{name}_dequantized"))
        parts.append(part)
    others = [each for each in graph.consumers.get(node.output, ()) if activation_kind(each) != "relu"]
    read = bool(others) or node.output in graph.outputs
    joined = lowering.names.take(f"{node.name}_unrounded") if read else node.name
    whole = lowering.add(replace(node, name=joined, inputs=tuple(parts)), lowering.shapes[node.output])
    if read:
        lowering.of_rounded[node.output] = whole
        lowering.round(whole, tensor_params(form), node.name, node.name)


def tensor_params(form: TensorQuantization) -> QuantParams:
    """The rounding of MXNet's kernels, in unsigned integers."""
    return replace(form.params, dtype="uint8", zero_point=128) if form.dtype == "int8" else form.params


def _write_int8_layer(lowering: _Lowering, node: Node) -> None:
    layer = layer_of(node)
    params = lowering.graph.params
    rounding = lowering.network.weight_rounding(node)
    weight = engine_weight(lowering.network, layer) if rounding.kind == "engine" else params[layer.weight.node]
    integers, scale = layer_integers(weight, rounding)
    depthwise = layer.groups == len(weight) > 1
    integers, scale = with_reduced_range(weight, integers, scale, lowering.reduce_range, depthwise)
    data = lowering.rounded(layer.data)
    if not layer.is_convolution and flag(layer.core, "flatten", default=True) and len(lowering.shapes[data]) != 2:
        data = _flattened(lowering, node, data, tensor_params(lowering.network.form(layer.data)))
    inputs = [data, lowering.constant(layer.weight.node, integers, scale)]
    if layer.bias is not None:
        step = tensor_params(lowering.network.form(layer.data)).scale * scale
        stored = np.rint(params[layer.bias.node].reshape(-1) / step.astype(np.float64)).astype(np.int32)
        inputs.append(lowering.constant(layer.bias.node, stored, step.astype(np.float32)))
    pre_add = None
    if layer.addend is not None:
        inputs.append(lowering.rounded(layer.addend))
        pre_add = affine_params(_pre_add_range(layer, layer.addend, lowering.network.plan))
    lowering.write_out(with_relu_only(layer).node if layer.is_convolution else node, inputs, pre_add)


def _flattened(lowering: _Lowering, node: Node, data: Tensor, params: QuantParams) -> Tensor:
    """The layer's input as rows: engines treat the flattening of integers as a separate step."""
    batch, *rest = lowering.shapes[data]
    name = lowering.names.take(f"{node.name}_flat")
    flat = lowering.add(Node(name, "Flatten", (data,), {}, node.origin), (batch, int(np.prod(rest))))
    return lowering.round(flat, params, name, lowering.names.take(f"{name}_dequantized"))


def _pre_add_range(layer: FusedLayer, addend: Tensor, plan: QuantizationPlan) -> Range:
    """The pre-add range: the values of a layer's result that matter before the addend is added.

    Beyond it the sum saturates whatever the addend is; the measured range narrows it further.
    """
    low, high = _limits(plan.tensors[layer.node.output])
    addend_low, addend_high = _limits(plan.tensors[addend])
    low, high = low - addend_high, high - addend_low
    measured = plan.pre_add_ranges.get(layer.node.output, Range(low, high))
    return Range(min(max(low, measured.low), 0.0), max(min(high, measured.high), 0.0))


def _limits(form: TensorQuantization) -> tuple[float, float]:
    peak = form.range.largest
    return (0.0 if form.dtype == "uint8" else -peak), peak
