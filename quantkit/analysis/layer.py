"""One layer alone: what it computes in FP32 and in INT8, and which part of its error is whose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Optional

import numpy as np

from quantkit.analysis.overflow import Saturating, can_saturate, saturating
from quantkit.fusion.unit import Unit, has_constant_weights, unit_of
from quantkit.graph.graph import Graph, Node, Tensor
from quantkit.quantization.arithmetic import quantize
from quantkit.quantization.plan import Activation
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.quantization.weights import engine_integers
from quantkit.recovery.simulation import (
    activated,
    engine_rounded,
    layer_integers,
    linear,
    operator_results,
    rounded,
    rounded_sum,
)

Values = Mapping[Tensor, np.ndarray]


@dataclass(frozen=True, eq=False)
class Int8Network:
    """A quantized network, and the real values of its layers' integer weights by layer."""

    network: QuantizedGraph
    weights: Mapping[str, np.ndarray]

    @property
    def graph(self) -> Graph:
        """The fused network."""
        return self.network.graph

    def is_int8(self, node: Node) -> bool:
        """Whether a node runs in INT8."""
        return self.network.is_int8(node)

    def is_layer(self, node: Node) -> bool:
        """Whether a node runs in INT8 and does more than to pass integers on."""
        return self.is_int8(node) and node.op != "Flatten"

    def has_seven_bits(self, tensor: Tensor) -> bool:
        """Whether a tensor is an unsigned sum in place of a signed addend, which takes every second integer."""
        unit = self.network.int8_layer(self.graph.producer(tensor))
        addend = None if unit is None else self.network.addend_form(unit)
        return addend is not None and (self.network.form(tensor).dtype, addend.dtype) == ("uint8", "int8")

    def rounded_result(self, unit: Unit, values: np.ndarray) -> np.ndarray:
        """What a layer puts out after its way through integers; dense layers put out floats."""
        if not unit.is_convolution:
            return values
        form, addend = self.network.form(unit.node.output), self.network.addend_form(unit)
        return rounded(values, form) if addend is None else rounded_sum(values, form, addend)

    def rounded_input(self, tensor: Tensor, values: np.ndarray, form: Optional[Activation] = None) -> np.ndarray:
        """A tensor after its way through the integers that are planned for it, or those of ``form``."""
        return rounded(values, form or self.network.form(tensor))


def int8_network(network: QuantizedGraph) -> Int8Network:
    """The network with the weights of its INT8 layers rounded, once and for all."""
    params = network.graph.params
    weights = {unit.node.name: engine_rounded(unit, params[unit.weight.node]) for unit in network.int8_layers}
    return Int8Network(network, weights)


def float_results(graph: Graph, node: Node, values: Values) -> list[np.ndarray]:
    """What a node of a fused network computes in FP32: its outputs up to the last that something reads."""
    unit = unit_of(node)
    if unit is not None and has_constant_weights(graph.params, unit):
        weight = graph.params[unit.weight.node]
        return [activated(unit, _summed(graph, unit, weight, values[unit.data], _addend(unit, values)))]
    read = {tensor.index for tensor in (*graph.consumers, *graph.outputs) if tensor.node == node.name}
    inputs = [values.get(tensor, tensor.node) for tensor in node.inputs]
    return operator_results(node, inputs, graph.params, max(read, default=0) + 1)


def int8_results(network: Int8Network, node: Node, values: Values) -> list[np.ndarray]:
    """What a node computes in the INT8 network, in real numbers, from inputs that need not be rounded yet."""
    if not network.is_int8(node):
        return float_results(network.graph, node, values)
    unit = unit_of(node)
    if unit is not None:
        return [_int8_layer(network, unit, values, network.weights[node.name])]
    inputs = {tensor: network.rounded_input(tensor, values[tensor]) for tensor in node.inputs}
    return [network.rounded_input(node.output, float_results(network.graph, node, inputs)[0])]


def _int8_layer(
    network: Int8Network, unit: Unit, values: Values, weight: np.ndarray, lost: Optional[np.ndarray] = None
) -> np.ndarray:
    """What an INT8 layer with these weights puts out; ``lost`` is what its sums lose on their way."""
    data = network.rounded_input(unit.data, values[unit.data])
    addend = _addend(unit, values)
    if unit.addend is not None and addend is not None:
        addend = network.rounded_input(unit.addend, addend, network.network.addend_form(unit))
    result = _summed(network.graph, unit, weight, data, addend)
    return network.rounded_result(unit, activated(unit, result if lost is None else result - lost))


def without_vnni(network: Int8Network, node: Node, values: Values) -> tuple[Optional[Saturating], np.ndarray]:
    """What saturates in an INT8 layer on processors without VNNI, and what it puts out there; see ``overflow``.

    Nothing (None) where nothing can saturate.
    """
    unit = unit_of(node)
    if unit is None:
        return None, int8_results(network, node, values)[0]
    weight = network.graph.params[unit.weight.node]
    form = network.network.form(unit.data)
    if unit.is_convolution and form.dtype == "int8":
        whole, scale = engine_integers(weight, halved=True)
        return None, _int8_layer(network, unit, values, whole * scale.reshape(-1, *(1,) * (weight.ndim - 1)))
    if not can_saturate(unit, form.dtype):
        return None, int8_results(network, node, values)[0]
    whole, scale = layer_integers(unit, weight)
    found = saturating(unit, quantize(values[unit.data], form.params), whole)
    step = (scale * np.float32(form.params.scale)).reshape(-1, *(1,) * (found.lost.ndim - 2))
    return found, _int8_layer(network, unit, values, network.weights[node.name], found.lost * step)


class Parts(NamedTuple):
    """What a layer puts out for FP32's own inputs.

    ``own`` is with everything in INT8; in ``weights`` only weights and biases are those of INT8 (None for what has no
    weights), in ``activations`` only the tensors that it reads and writes go through integers. ``without_vnni`` is
    ``own`` on processors without VNNI, where ``saturating`` sums lose something.
    """

    own: np.ndarray
    weights: Optional[np.ndarray]
    activations: np.ndarray
    without_vnni: np.ndarray
    saturating: Optional[Saturating]


def parts(network: Int8Network, reference: Graph, node: Node, exact: Values, shifts: Values) -> Parts:
    """Run an INT8 layer alone.

    Args:
        network: the INT8 network.
        reference: the FP32 network, with nodes and tensors of the same names.
        node: a node of ``network``.
        exact: FP32's tensors.
        shifts: what some of the INT8 network's tensors are shifted by, in a shape that can be added to them. It is
            taken out of the results again.
    """
    moved = {
        tensor: exact[tensor] + shifts[tensor] if tensor in shifts else exact[tensor] for tensor in _data(node, exact)
    }
    back = shifts.get(node.output, np.float32(0.0))
    own = int8_results(network, node, moved)[0] - back
    lossy, narrow = without_vnni(network, node, moved)
    unit, original = unit_of(node), unit_of(reference.by_name[node.name])
    if unit is None or original is None:
        return Parts(own, None, own, own, None)
    weights = _summed(network.graph, unit, network.weights[node.name], moved[unit.data], _addend(unit, moved)) - back

    def through(tensor: Tensor, form: Optional[Activation] = None) -> np.ndarray:
        return network.rounded_input(tensor, moved[tensor], form) - shifts.get(tensor, np.float32(0.0))

    addend = None if unit.addend is None else through(unit.addend, network.network.addend_form(unit))
    weight = reference.params[original.weight.node]
    result = activated(original, _summed(reference, original, weight, through(unit.data), addend))
    activations = network.rounded_result(unit, result + back) - back
    return Parts(own, activated(original, weights), activations, narrow - back, lossy)


def _data(node: Node, exact: Values) -> set[Tensor]:
    """The tensors that a node reads, without parameters."""
    return {tensor for tensor in node.inputs if tensor in exact}


def _addend(unit: Unit, values: Values) -> Optional[np.ndarray]:
    return None if unit.addend is None else values[unit.addend]


def _summed(graph: Graph, unit: Unit, weight: np.ndarray, data: np.ndarray, addend: Optional[np.ndarray]) -> np.ndarray:
    """A layer's result before its activation."""
    bias = None if unit.bias is None else graph.params[unit.bias.node]
    result = linear(unit, data, weight, bias)
    return result if addend is None else result + addend
