"""A quantized network as an INT8 symbol that stock MXNet 1.5 to 1.9 runs.

Every INT8 tensor is a triple (integers, low, high), three outputs of one node. The FP32 form of a
tensor keeps the tensor's name, so the network's outputs keep theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Optional

import numpy as np

from quantkit.backends.mxnet.symbols import PER_CHANNEL
from quantkit.calibration.ranges import Range
from quantkit.fusion.engine_operators import engine_operator
from quantkit.fusion.float_symbol import float_nodes
from quantkit.ir.fused_layer import FusedLayer, fused_layer_of, layer_of, with_core_attrs, with_relu_only
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.names import Names
from quantkit.ir.operators import ADDITIONS, integer, integers
from quantkit.ir.recurrent_layer import RECURRENT, RecurrentLayer, known_matrices
from quantkit.lowering.weights import engine_weight
from quantkit.quantization.arithmetic import DType
from quantkit.quantization.grouped_weights import engine_form
from quantkit.quantization.layer_weights import layer_integers
from quantkit.quantization.plan import TensorQuantization
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.quantization.recurrent_weights import (
    STATE_ZERO_POINT,
    added_columns,
    engine_matrices,
    kernel_zero_point,
    lstm_integers,
)

PREFIX = "quantized_"

# For weights of this range, one integer step of the engine's INT8 dense layer is exactly 1.
UNIT_STEP_RANGE = 127.5


@dataclass(frozen=True)
class StoredIntegers:
    """Where a lowered network has the integers of a tensor, and the range that they stand for.

    The range differs from the planned one where the kernel requires it: see ``_lower_convolution``.
    """

    tensor: Tensor
    form: TensorQuantization


@dataclass(frozen=True)
class StoredWeight:
    """The lowered network's parameters for a weight of the fused network: integers, and one scale per channel."""

    integers: str
    scales: str


@dataclass(frozen=True, eq=False)
class LoweredLstm:
    """The lowered network's parameter for the weights of an INT8 LSTM layer.

    It has the integers of the first ``features`` columns and of those of the state times each row's ``scale``, float32
    (rows,).
    """

    parameters: str
    features: int
    scale: np.ndarray


@dataclass(frozen=True, eq=False)
class Int8Symbol:
    """The lowered network, and where it stores the integers of the fused one.

    ``integers`` has the fused network's tensors that the lowered one has as integers; ``weights`` has the parameters
    that it stores as integers only, and ``lstms`` those of LSTM layers, of which the kernel makes integers. The other
    parameters keep their names, or take the form that the engine needs.
    """

    graph: Graph
    integers: Mapping[Tensor, StoredIntegers] = field(repr=False)
    weights: Mapping[str, StoredWeight] = field(repr=False)
    lstms: Mapping[str, LoweredLstm] = field(repr=False)


def int8_graph(network: QuantizedGraph) -> Graph:
    """Lower a quantized network for MXNet."""
    return int8_symbol(network).graph


def int8_symbol(network: QuantizedGraph) -> Int8Symbol:
    """Lower a quantized network for MXNet, and record where its tensors' integers are."""
    graph, lowering = network.graph, _Lowering(network, Names(network.graph.names))
    for node in graph.nodes:
        if network.is_int8(node):
            _lowering_of(network, node)(lowering, node)
        else:
            for tensor in node.inputs:
                lowering.as_float(tensor)
            for each in float_nodes(graph, node):
                lowering.add(each)
    outputs = tuple(map(lowering.as_float, graph.outputs))
    lowered = Graph(tuple(lowering.nodes), graph.inputs, outputs, {**graph.params, **lowering.params}).pruned()
    stored = {tensor: each for tensor, each in lowering.stored.items() if each.tensor.node in lowered.by_name}
    # What an FP32 operator reads, too, is there as it was.
    weights = {name: each for name, each in lowering.weights.items() if name not in lowered.params}
    lstms = {name: each for name, each in lowering.lstms.items() if name not in lowered.params}
    return Int8Symbol(lowered, stored, weights, lstms)


@dataclass
class _Lowering:
    """The nodes lowered so far, and the forms of each tensor among them."""

    network: QuantizedGraph
    names: Names
    nodes: list[Node] = field(default_factory=list)
    params: dict[str, np.ndarray] = field(default_factory=dict)
    integers: dict[tuple[Tensor, DType], str] = field(default_factory=dict)
    stored: dict[Tensor, StoredIntegers] = field(default_factory=dict)
    weights: dict[str, StoredWeight] = field(default_factory=dict)
    lstms: dict[str, LoweredLstm] = field(default_factory=dict)
    native: dict[Tensor, str] = field(default_factory=dict)
    dequantized: set[Tensor] = field(default_factory=set)

    @property
    def graph(self) -> Graph:
        return self.network.graph

    def add(self, node: Node) -> Tensor:
        self.nodes.append(node)
        return node.output

    def add_beside(
        self, node: Node, name: str, op: str, inputs: tuple[Tensor, ...], attrs: Mapping[str, str]
    ) -> Tensor:
        """Add an operator that another one needs."""
        return self.add(Node(self.names.take(f"{node.name}_{name}"), op, inputs, attrs, node.origin))

    def add_int8(self, node: Node, stands_for: Tensor, values: Range) -> None:
        """Add a node whose integers stand for a tensor of the fused graph, with the range ``values``."""
        self.native[stands_for] = self.add(replace(node, name=self.names.take(node.name))).node
        self.store(stands_for, self.native[stands_for], TensorQuantization(values, self.network.form(stands_for).dtype))

    def store(self, tensor: Tensor, node: str, form: TensorQuantization) -> None:
        """Record that a node has a tensor's integers in this form."""
        self.integers[tensor, form.dtype] = node
        if form.dtype == self.network.form(tensor).dtype:
            self.stored[tensor] = StoredIntegers(Tensor(node), form)

    def add_param(self, name: str, value: np.ndarray) -> Tensor:
        free = self.names.take(name)
        self.params[free] = value
        return Tensor(free)

    def as_float(self, tensor: Tensor) -> Tensor:
        """The tensor in FP32, dequantized if only integers exist."""
        native = self.native.get(tensor)
        if native is not None and tensor not in self.dequantized:
            self.dequantized.add(tensor)
            origin = self.graph.by_name[tensor.node].origin
            self.add(Node(tensor.node, "_contrib_dequantize", _triple(native), {}, origin))
        return tensor

    def as_int8(self, tensor: Tensor, dtype: Optional[DType] = None) -> tuple[Tensor, Tensor, Tensor]:
        """The tensor as integers of ``dtype`` (None: as planned), quantized if it exists in FP32 only."""
        form = self.network.form(tensor)
        wanted: DType = dtype or form.dtype
        if (tensor, wanted) not in self.integers:
            self._quantize(tensor, replace(form, dtype=wanted))
        return _triple(self.integers[tensor, wanted])

    def _quantize(self, tensor: Tensor, form: TensorQuantization) -> None:
        name = self.names.take(f"{tensor.stem}_{form.dtype}")
        values = _calibrated_range(form)
        attrs = {"out_type": form.dtype, **_attributes(values)}
        producer = self.graph.producer(tensor)
        self.add(
            Node(name, "_contrib_quantize_v2", (self.as_float(tensor),), attrs, producer.origin if producer else ())
        )
        self.store(tensor, name, replace(form, range=values))


def _triple(name: str) -> tuple[Tensor, Tensor, Tensor]:
    return Tensor(name, 0), Tensor(name, 1), Tensor(name, 2)


def _calibrated_range(form: TensorQuantization, factor: float = 1.0) -> Range:
    peak = float(np.float32(form.range.largest * factor))
    return Range(0.0 if form.dtype == "uint8" else -peak, peak)


def _attributes(values: Range) -> dict[str, str]:
    """The range attributes in full precision: with MXNet's own six decimals, small ranges become 0."""
    return {"min_calib_range": repr(values.low), "max_calib_range": repr(values.high)}


def _lower_convolution(lowering: _Lowering, node: Node) -> None:
    layer = with_relu_only(layer_of(node))
    form = lowering.network.form(node.output)
    factor = 1.0
    data, *data_range = lowering.as_int8(layer.data)
    weight = _safe_weight(lowering, layer)
    if lowering.network.form(layer.data).dtype == "uint8" and _is_pointwise_depthwise(lowering.graph, layer):
        layer, weight = _widened(lowering, layer, weight)
    inputs = [data, weight, *((layer.bias,) if layer.bias else ())]
    sum_range: list[Tensor] = []
    added = lowering.network.addend_form(layer)
    if layer.addend is not None and added is not None:
        addend, *sum_range = lowering.as_int8(layer.addend, added.dtype)
        inputs.append(addend)
        if (form.dtype, added.dtype) == ("uint8", "int8"):
            # The unsigned result overwrites the signed addend and saturates at 127: fit the range into 7 bits.
            factor = 2.0
    inputs += [*data_range, *sum_range]
    values = _calibrated_range(form, factor)
    extra = {"quantized": "true", **_attributes(values)}
    lowering.add_int8(engine_operator(layer, PREFIX + node.name, tuple(inputs), extra), node.output, values)


def _is_pointwise_depthwise(graph: Graph, layer: FusedLayer) -> bool:
    weight = graph.params[layer.weight.node]
    return weight.shape[1:] == (1, 1, 1) and integer(layer.core, "num_group", 1) == len(weight)


def _widened(lowering: _Lowering, layer: FusedLayer, weight: Tensor) -> tuple[FusedLayer, Tensor]:
    """A 1x1 depthwise convolution as a 3x3 one with zeros around the centre.

    MKL-DNN 1.0 computes wrong 1x1 depthwise results of unsigned input on processors without AVX-512.
    """
    values = {**lowering.graph.params, **lowering.params}[weight.node]
    wide = lowering.add_param(f"{layer.node.name}_wide_weight", np.pad(values, ((0, 0), (0, 0), (1, 1), (1, 1))))
    down, across = integers(layer.core, "pad") or (0, 0)
    return with_core_attrs(layer, {"kernel": "(3, 3)", "pad": f"({down + 1}, {across + 1})", "dilate": "(1, 1)"}), wide


def _safe_weight(lowering: _Lowering, layer: FusedLayer) -> Tensor:
    """The weights as the engine needs them, to compute with those of the layer."""
    safe = engine_form(engine_weight(lowering.network, layer), layer.groups)
    if safe is lowering.graph.params[layer.weight.node]:
        return layer.weight
    return lowering.add_param(f"{layer.node.name}_safe_weight", safe)


def _lower_dense(lowering: _Lowering, node: Node) -> None:
    """An INT8 product with a float result, then scale and bias per channel in FP32.

    The engine's dense kernel has one weight scale and an 8-bit bias. With its float result each
    channel has its own scale, and the bias and the logits keep full precision, on every release.
    """
    layer = layer_of(node)
    weight = lowering.graph.params[layer.weight.node]
    integers, scale = layer_integers(weight.reshape(len(weight), -1), lowering.network.weight_rounding(node))
    stored = lowering.add_param(f"{node.name}_weight_int8", integers)
    low = lowering.add_param(f"{node.name}_weight_low", np.array([-UNIT_STEP_RANGE], np.float32))
    high = lowering.add_param(f"{node.name}_weight_high", np.array([UNIT_STEP_RANGE], np.float32))
    scales = lowering.add_param(f"{node.name}_weight_scale", scale.reshape(1, -1))
    lowering.weights[layer.weight.node] = StoredWeight(stored.node, scales.node)
    data, *data_range = lowering.as_int8(layer.data)
    core = replace(layer.core, attrs={**layer.core.attrs, "no_bias": "True"}, inputs=layer.core.inputs[:2])
    bare = FusedLayer(replace(core, inputs=(data, stored), origin=node.origin), core)
    inputs = (data, stored, *data_range, low, high)
    attrs = {"quantized": "true", "enable_float_output": "true"}
    product = lowering.add(engine_operator(bare, lowering.names.take(PREFIX + node.name), inputs, attrs))
    steps = [Node("scaled", "broadcast_mul", (product, scales))]
    if layer.bias is not None:
        row = lowering.add_param(f"{node.name}_bias_row", lowering.graph.params[layer.bias.node].reshape(1, -1))
        steps.append(Node("biased", "broadcast_add", (product, row)))
    if layer.activation is not None:
        steps.append(replace(layer.activation, name="activated"))
    result = product
    for step in steps:
        name = node.name if step is steps[-1] else lowering.names.take(f"{node.name}_{step.name}")
        result = lowering.add(replace(step, name=name, inputs=(result, *step.inputs[1:]), origin=node.origin))


def _lower_dense_to_integers(lowering: _Lowering, node: Node) -> None:
    """An INT8 product that becomes integers at once: the kernel rounds weights and result as a convolution's does."""
    layer = layer_of(node)
    data, *data_range = lowering.as_int8(layer.data)
    inputs = (data, _safe_weight(lowering, layer), *((layer.bias,) if layer.bias else ()), *data_range)
    values = _calibrated_range(lowering.network.form(node.output))
    extra = {"quantized": "true", PER_CHANNEL: "true", **_attributes(values)}
    lowering.add_int8(engine_operator(layer, PREFIX + node.name, inputs, extra), node.output, values)


def _lower_recurrent(lowering: _Lowering, node: Node) -> None:
    """An LSTM layer with its exchanges of axes; the kernel takes uint8 and weights in FP32, and puts out FP32."""
    layer = RecurrentLayer(node)
    for tensor in (layer.data, *layer.states):
        lowering.as_float(tensor)
    for each in float_nodes(lowering.graph, node):
        lowering.add(_int8_rnn(lowering, layer, each) if each.op == "RNN" else each)


def _int8_rnn(lowering: _Lowering, layer: RecurrentLayer, rnn: Node) -> Node:
    """The kernel in place of an FP32 ``RNN`` of the same name; its data are quantized before it."""
    data, state = (lowering.network.form(tensor).params for tensor in (layer.data, layer.node.output))
    weights = known_matrices(lowering.graph, layer)
    integers = lstm_integers(lowering.network, layer)
    flat = engine_matrices(weights, integers, data, state).flat
    parameters = lowering.add_param(f"{rnn.name}_int8_parameters", flat)
    if lowering.graph.sole_consumer(layer.parameters) is not None:
        features = weights.of_input.shape[1]
        lowering.lstms[layer.parameters.node] = LoweredLstm(parameters.node, features, integers.scale)
    read = rnn.inputs[0]
    if columns := added_columns(integers):
        zeros = lowering.add_beside(rnn, "zeros", "_zeros", (), {"shape": f"(0, 0, {columns})", "dtype": "float32"})
        read = lowering.add_beside(rnn, "padded", "Concat", (read, zeros), {"dim": "2", "num_args": "2"})
    offset = kernel_zero_point(data)
    span = Range((0 - offset) * data.scale, (255 - offset) * data.scale)
    quantized = lowering.add_beside(rnn, "uint8", "_contrib_quantize_asym", (read,), _attributes(span))
    scale = lowering.add_param(f"{rnn.name}_scale", np.array([1 / state.scale], np.float32))
    shift = lowering.add_param(f"{rnn.name}_shift", np.array([STATE_ZERO_POINT], np.float32))
    inputs = (quantized, parameters, *rnn.inputs[2:], scale, shift)
    return replace(rnn, op="_contrib_quantized_rnn", inputs=inputs)


def _lower_following(lowering: _Lowering, node: Node) -> None:
    operator = {"Pooling": "_contrib_quantized_pooling"}.get(node.op, "_contrib_quantized_flatten")
    # Global pooling needs no kernel, but the INT8 operator demands one.
    attrs = {"kernel": "(1, 1)", **node.attrs} if node.op == "Pooling" else node.attrs
    quantized = Node(PREFIX + node.name, operator, lowering.as_int8(node.inputs[0]), attrs, node.origin)
    lowering.add_int8(quantized, node.output, lowering.stored[node.inputs[0]].form.range)


def _lower_concat(lowering: _Lowering, node: Node) -> None:
    triples = [lowering.as_int8(tensor) for tensor in node.inputs]
    inputs = [triple[0] for triple in triples] + [bound for triple in triples for bound in triple[1:]]
    spans = [lowering.stored[tensor].form.range for tensor in node.inputs]
    values = Range(min(span.low for span in spans), max(span.high for span in spans))
    concat = Node(PREFIX + node.name, "_contrib_quantized_concat", tuple(inputs), node.attrs, node.origin)
    lowering.add_int8(concat, node.output, values)


def _lower_addition(lowering: _Lowering, node: Node) -> None:
    (first, *first_range), (second, *second_range) = (lowering.as_int8(tensor) for tensor in node.inputs)
    values = _calibrated_range(lowering.network.form(node.output))
    inputs = (first, second, *first_range, *second_range)
    addition = Node(PREFIX + node.name, "_contrib_quantized_elemwise_add", inputs, _attributes(values), node.origin)
    lowering.add_int8(addition, node.output, values)


def _lowering_of(network: QuantizedGraph, node: Node) -> Callable[[_Lowering, Node], None]:
    layer = fused_layer_of(node)
    if layer is not None:
        if layer.is_convolution:
            return _lower_convolution
        return _lower_dense_to_integers if network.computes_integers(node) else _lower_dense
    if node.op == RECURRENT:
        return _lower_recurrent
    if node.op in ADDITIONS:
        return _lower_addition
    return _lower_concat if node.op == "Concat" else _lower_following
