"""A quantized network as an INT8 symbol that stock MXNet 1.5 to 1.9 runs.

Every INT8 tensor is a triple (integers, low, high), three outputs of one node. The FP32 form of a
tensor keeps the tensor's name, so the network's outputs keep theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

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
from quantkit.lowering.int8_draft import (
    Int8Draft,
    LoweredLstm,
    StoredIntegers,
    StoredWeight,
    calibrated_range,
    range_attributes,
)
from quantkit.lowering.weights import engine_weight
from quantkit.quantization.grouped_weights import engine_form
from quantkit.quantization.layer_weights import layer_integers
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
    graph, draft = network.graph, Int8Draft(network, Names(network.graph.names))
    for node in graph.nodes:
        if network.is_int8(node):
            _lowering_of(network, node)(draft, node)
        else:
            for tensor in node.inputs:
                draft.as_float(tensor)
            for each in float_nodes(graph, node):
                draft.add(each)
    outputs = tuple(map(draft.as_float, graph.outputs))
    lowered = Graph(tuple(draft.nodes), graph.inputs, outputs, {**graph.params, **draft.params}).pruned()
    stored = {tensor: each for tensor, each in draft.stored.items() if each.tensor.node in lowered.by_name}
    # What an FP32 operator reads, too, is there as it was.
    weights = {name: each for name, each in draft.weights.items() if name not in lowered.params}
    lstms = {name: each for name, each in draft.lstms.items() if name not in lowered.params}
    return Int8Symbol(lowered, stored, weights, lstms)


def _lower_convolution(draft: Int8Draft, node: Node) -> None:
    layer = with_relu_only(layer_of(node))
    form = draft.network.form(node.output)
    factor = 1.0
    data, *data_range = draft.as_int8(layer.data)
    weight = _safe_weight(draft, layer)
    if draft.network.form(layer.data).dtype == "uint8" and _is_pointwise_depthwise(draft.graph, layer):
        layer, weight = _widened(draft, layer, weight)
    inputs = [data, weight, *((layer.bias,) if layer.bias else ())]
    sum_range: list[Tensor] = []
    added = draft.network.addend_form(layer)
    if layer.addend is not None and added is not None:
        addend, *sum_range = draft.as_int8(layer.addend, added.dtype)
        inputs.append(addend)
        if (form.dtype, added.dtype) == ("uint8", "int8"):
            # The unsigned result overwrites the signed addend and saturates at 127: fit the range into 7 bits.
            factor = 2.0
    inputs += [*data_range, *sum_range]
    values = calibrated_range(form, factor)
    extra = {"quantized": "true", **range_attributes(values)}
    draft.add_int8(engine_operator(layer, PREFIX + node.name, tuple(inputs), extra), node.output, values)


def _is_pointwise_depthwise(graph: Graph, layer: FusedLayer) -> bool:
    weight = graph.params[layer.weight.node]
    return weight.shape[1:] == (1, 1, 1) and integer(layer.core, "num_group", 1) == len(weight)


def _widened(draft: Int8Draft, layer: FusedLayer, weight: Tensor) -> tuple[FusedLayer, Tensor]:
    """A 1x1 depthwise convolution as a 3x3 one with zeros around the centre.

    MKL-DNN 1.0 computes wrong 1x1 depthwise results of unsigned input on processors without AVX-512.
    """
    values = {**draft.graph.params, **draft.params}[weight.node]
    wide = draft.add_param(f"{layer.node.name}_wide_weight", np.pad(values, ((0, 0), (0, 0), (1, 1), (1, 1))))
    down, across = integers(layer.core, "pad") or (0, 0)
    return with_core_attrs(layer, {"kernel": "(3, 3)", "pad": f"({down + 1}, {across + 1})", "dilate": "(1, 1)"}), wide


def _safe_weight(draft: Int8Draft, layer: FusedLayer) -> Tensor:
    """The weights as the engine needs them, to compute with those of the layer."""
    safe = engine_form(engine_weight(draft.network, layer), layer.groups)
    if safe is draft.graph.params[layer.weight.node]:
        return layer.weight
    return draft.add_param(f"{layer.node.name}_safe_weight", safe)


def _lower_dense(draft: Int8Draft, node: Node) -> None:
    """An INT8 product with a float result, then scale and bias per channel in FP32.

    The engine's dense kernel has one weight scale and an 8-bit bias. With its float result each
    channel has its own scale, and the bias and the logits keep full precision, on every release.
    """
    layer = layer_of(node)
    weight = draft.graph.params[layer.weight.node]
    integers, scale = layer_integers(weight.reshape(len(weight), -1), draft.network.weight_rounding(node))
    stored = draft.add_param(f"{node.name}_weight_int8", integers)
    low = draft.add_param(f"{node.name}_weight_low", np.array([-UNIT_STEP_RANGE], np.float32))
    high = draft.add_param(f"{node.name}_weight_high", np.array([UNIT_STEP_RANGE], np.float32))
    scales = draft.add_param(f"{node.name}_weight_scale", scale.reshape(1, -1))
    draft.weights[layer.weight.node] = StoredWeight(stored.node, scales.node)
    data, *data_range = draft.as_int8(layer.data)
    core = replace(layer.core, attrs={**layer.core.attrs, "no_bias": "True"}, inputs=layer.core.inputs[:2])
    bare = FusedLayer(replace(core, inputs=(data, stored), origin=node.origin), core)
    inputs = (data, stored, *data_range, low, high)
    attrs = {"quantized": "true", "enable_float_output": "true"}
    product = draft.add(engine_operator(bare, draft.names.take(PREFIX + node.name), inputs, attrs))
    steps = [Node("scaled", "broadcast_mul", (product, scales))]
    if layer.bias is not None:
        row = draft.add_param(f"{node.name}_bias_row", draft.graph.params[layer.bias.node].reshape(1, -1))
        steps.append(Node("biased", "broadcast_add", (product, row)))
    if layer.activation is not None:
        steps.append(replace(layer.activation, name="activated"))
    result = product
    for step in steps:
        name = node.name if step is steps[-1] else draft.names.take(f"{node.name}_{step.name}")
        result = draft.add(replace(step, name=name, inputs=(result, *step.inputs[1:]), origin=node.origin))


def _lower_dense_to_integers(draft: Int8Draft, node: Node) -> None:
    """An INT8 product that becomes integers at once: the kernel rounds weights and result as a convolution's does."""
    layer = layer_of(node)
    data, *data_range = draft.as_int8(layer.data)
    inputs = (data, _safe_weight(draft, layer), *((layer.bias,) if layer.bias else ()), *data_range)
    values = calibrated_range(draft.network.form(node.output))
    extra = {"quantized": "true", PER_CHANNEL: "true", **range_attributes(values)}
    draft.add_int8(engine_operator(layer, PREFIX + node.name, inputs, extra), node.output, values)


def _lower_recurrent(draft: Int8Draft, node: Node) -> None:
    """An LSTM layer with its exchanges of axes; the kernel takes uint8 and weights in FP32, and puts out FP32."""
    layer = RecurrentLayer(node)
    for tensor in (layer.data, *layer.states):
        draft.as_float(tensor)
    for each in float_nodes(draft.graph, node):
        draft.add(_int8_rnn(draft, layer, each) if each.op == "RNN" else each)


def _int8_rnn(draft: Int8Draft, layer: RecurrentLayer, rnn: Node) -> Node:
    """The kernel in place of an FP32 ``RNN`` of the same name; its data are quantized before it."""
    data, state = (draft.network.form(tensor).params for tensor in (layer.data, layer.node.output))
    weights = known_matrices(draft.graph, layer)
    integers = lstm_integers(draft.network, layer)
    flat = engine_matrices(weights, integers, data, state).flat
    parameters = draft.add_param(f"{rnn.name}_int8_parameters", flat)
    if draft.graph.sole_consumer(layer.parameters) is not None:
        features = weights.of_input.shape[1]
        draft.lstms[layer.parameters.node] = LoweredLstm(parameters.node, features, integers.scale)
    read = rnn.inputs[0]
    if columns := added_columns(integers):
        zeros = draft.add_beside(rnn, "zeros", "_zeros", (), {"shape": f"(0, 0, {columns})", "dtype": "float32"})
        read = draft.add_beside(rnn, "padded", "Concat", (read, zeros), {"dim": "2", "num_args": "2"})
    offset = kernel_zero_point(data)
    span = Range((0 - offset) * data.scale, (255 - offset) * data.scale)
    quantized = draft.add_beside(rnn, "uint8", "_contrib_quantize_asym", (read,), range_attributes(span))
    scale = draft.add_param(f"{rnn.name}_scale", np.array([1 / state.scale], np.float32))
    shift = draft.add_param(f"{rnn.name}_shift", np.array([STATE_ZERO_POINT], np.float32))
    inputs = (quantized, parameters, *rnn.inputs[2:], scale, shift)
    return replace(rnn, op="_contrib_quantized_rnn", inputs=inputs)


def _lower_following(draft: Int8Draft, node: Node) -> None:
    operator = {"Pooling": "_contrib_quantized_pooling"}.get(node.op, "_contrib_quantized_flatten")
    # Global pooling needs no kernel, but the INT8 operator demands one.
    attrs = {"kernel": "(1, 1)", **node.attrs} if node.op == "Pooling" else node.attrs
    quantized = Node(PREFIX + node.name, operator, draft.as_int8(node.inputs[0]), attrs, node.origin)
    draft.add_int8(quantized, node.output, draft.stored[node.inputs[0]].form.range)


def _lower_concat(draft: Int8Draft, node: Node) -> None:
    triples = [draft.as_int8(tensor) for tensor in node.inputs]
    inputs = [triple[0] for triple in triples] + [bound for triple in triples for bound in triple[1:]]
    spans = [draft.stored[tensor].form.range for tensor in node.inputs]
    values = Range(min(span.low for span in spans), max(span.high for span in spans))
    concat = Node(PREFIX + node.name, "_contrib_quantized_concat", tuple(inputs), node.attrs, node.origin)
    draft.add_int8(concat, node.output, values)


def _lower_addition(draft: Int8Draft, node: Node) -> None:
    (first, *first_range), (second, *second_range) = (draft.as_int8(tensor) for tensor in node.inputs)
    values = calibrated_range(draft.network.form(node.output))
    inputs = (first, second, *first_range, *second_range)
    addition = Node(
        PREFIX + node.name, "_contrib_quantized_elemwise_add", inputs, range_attributes(values), node.origin
    )
    draft.add_int8(addition, node.output, values)


def _lowering_of(network: QuantizedGraph, node: Node) -> Callable[[Int8Draft, Node], None]:
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
