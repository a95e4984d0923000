"""The INT8 network operator by operator, in real numbers that are those of its integers, and FP32 beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Optional, Protocol

import numpy as np

from quantkit.ir.fused_layer import FusedLayer, fused_layer_of, has_constant_weights
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.recurrent_layer import RecurrentLayer, exchanges_batch, known_matrices
from quantkit.quantization.plan import TensorQuantization
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.quantization.recurrent_weights import RecurrentIntegers, lstm_integers
from quantkit.quantization.simulation.constants import batch_constants
from quantkit.quantization.simulation.integer_sums import IntegerWeights, integer_layer, integer_weights
from quantkit.quantization.simulation.operators import activated, linear, operator_results
from quantkit.quantization.simulation.recurrent import int8_lstm
from quantkit.quantization.simulation.rounding import rounded, rounded_sum

Values = Mapping[Tensor, np.ndarray]
"""Tensors, each (images, ...)."""

_PASSING_ON = ("Flatten", "flatten")


@dataclass(frozen=True, eq=False)
class Int8Network:
    """A quantized network, and its layers' integer weights by layer."""

    network: QuantizedGraph
    weights: Mapping[str, IntegerWeights]

    @property
    def graph(self) -> Graph:
        """The fused network."""
        return self.network.graph

    @cached_property
    def lstm_weights(self) -> Mapping[str, RecurrentIntegers]:
        """The integer weights of INT8 LSTM layers, by layer."""
        return {lstm.node.name: lstm_integers(self.network, lstm) for lstm in self.network.int8_lstms}

    def is_layer(self, node: Node) -> bool:
        """Whether a node runs in INT8 and does more than to pass integers on."""
        return self.network.is_int8(node) and node.op not in _PASSING_ON

    def has_seven_bits(self, tensor: Tensor) -> bool:
        """Whether a tensor is an unsigned sum in place of a signed addend, which takes every second integer."""
        fused_layer = self.network.int8_layer(self.graph.producer(tensor))
        addend = None if fused_layer is None else self.network.addend_form(fused_layer)
        return addend is not None and (self.network.form(tensor).dtype, addend.dtype) == ("uint8", "int8")

    def rounded_input(
        self, tensor: Tensor, values: np.ndarray, form: Optional[TensorQuantization] = None
    ) -> np.ndarray:
        """A tensor after its way through the integers that are planned for it, or those of ``form``."""
        return rounded(values, form or self.network.form(tensor))

    def results(self, node: Node, values: Values) -> list[np.ndarray]:
        """What a node computes in the INT8 network, from inputs that need not be rounded yet."""
        if not self.network.is_int8(node):
            return float_results(self.graph, node, values)
        fused_layer = fused_layer_of(node)
        if fused_layer is not None:
            return [self.layer(fused_layer, values, self.weights[node.name])]
        lstm = self.network.int8_recurrent(node)
        if lstm is not None:
            return self._lstm(lstm, values)
        inputs = {tensor: self.rounded_input(tensor, values[tensor]) for tensor in node.inputs}
        return [self.rounded_input(node.output, float_results(self.graph, node, inputs)[0])]

    def _lstm(self, lstm: RecurrentLayer, values: Values) -> list[np.ndarray]:
        weights, integers = known_matrices(self.graph, lstm), self.lstm_weights[lstm.node.name]
        form, state = self.network.form(lstm.data), self.network.form(lstm.node.output).params
        initial = [values[each] for each in lstm.states]
        return list(int8_lstm(values[lstm.data], weights, integers, form, state, initial))

    def layer(
        self, fused_layer: FusedLayer, values: Values, weights: IntegerWeights, lost: Optional[np.ndarray] = None
    ) -> np.ndarray:
        """What an INT8 layer with these weights puts out; ``lost`` is what its sums lose on their way."""
        inputs = self.rounded_input(fused_layer.data, values[fused_layer.data])
        result = self.sums(fused_layer, inputs, weights, self.addend(fused_layer, values))
        if lost is not None:
            result -= lost
        return self.finished(fused_layer, result)

    def sums(
        self, fused_layer: FusedLayer, inputs: np.ndarray, weights: IntegerWeights, addend: Optional[np.ndarray]
    ) -> np.ndarray:
        """An INT8 layer's result before its activation, an array of its own, from inputs that are rounded already."""
        bias = None if fused_layer.bias is None else self.graph.params[fused_layer.bias.node]
        result = integer_layer(fused_layer, inputs, self.network.form(fused_layer.data).params, weights, bias)
        if addend is not None:
            result += addend
        return result

    def addend(self, fused_layer: FusedLayer, values: Values) -> Optional[np.ndarray]:
        """What an INT8 layer adds, after its way through integers; None where it adds nothing."""
        if fused_layer.addend is None:
            return None
        return self.rounded_input(fused_layer.addend, values[fused_layer.addend], self.network.addend_form(fused_layer))

    def finished(self, fused_layer: FusedLayer, sums: np.ndarray) -> np.ndarray:
        """What becomes of an INT8 layer's sums, which are overwritten: its activation, then its result's integers."""
        return self.rounded_result(fused_layer, activated(fused_layer, sums, out=sums), out=sums)

    def rounded_result(
        self, fused_layer: FusedLayer, values: np.ndarray, out: Optional[np.ndarray] = None
    ) -> np.ndarray:
        """What a layer puts out after its way through integers, if it puts out such."""
        if not self.network.computes_integers(fused_layer.node):
            return values
        form, addend = self.network.form(fused_layer.node.output), self.network.addend_form(fused_layer)
        return rounded(values, form, out) if addend is None else rounded_sum(values, form, addend, out)


def int8_network(network: QuantizedGraph) -> Int8Network:
    """The network with the integer weights of its INT8 layers, made once and for all."""
    params = network.graph.params
    weights = {
        layer.node.name: integer_weights(params[layer.weight.node], network.weight_rounding(layer.node))
        for layer in network.int8_layers
    }
    return Int8Network(network, weights)


def float_results(graph: Graph, node: Node, values: Values) -> list[np.ndarray]:
    """What a node of a fused network computes in FP32: its outputs up to the last that something reads."""
    fused_layer = fused_layer_of(node)
    if fused_layer is not None and has_constant_weights(graph.params, fused_layer):
        addend = None if fused_layer.addend is None else values[fused_layer.addend]
        result = summed(graph, fused_layer, graph.params[fused_layer.weight.node], values[fused_layer.data], addend)
        return [activated(fused_layer, result, out=result)]
    if not node.inputs:
        # Whatever reads a constant without a value computes it, since its shape may follow from there.
        return []
    read = {tensor.index for tensor in (*graph.consumers, *graph.outputs) if tensor.node == node.name}
    inputs = [values.get(tensor, tensor.node) for tensor in node.inputs]
    producers = (graph.producer(tensor) for tensor in node.inputs if tensor not in values)
    constants = [each for each in producers if each is not None and not each.inputs]
    return operator_results(node, inputs, graph.params, max(read, default=0) + 1, constants, _moves_images(graph))


def _moves_images(graph: Graph) -> bool:
    """Whether images may be along another axis than the first, as where recurrent layers could not be fused."""
    return any(node.op == "RNN" or exchanges_batch(node) or node.op == "transpose" for node in graph.nodes)


def summed(
    graph: Graph, fused_layer: FusedLayer, weight: np.ndarray, data: np.ndarray, addend: Optional[np.ndarray]
) -> np.ndarray:
    """A layer's result before its activation, an array of its own."""
    result = linear(
        fused_layer, data, weight, None if fused_layer.bias is None else graph.params[fused_layer.bias.node]
    )
    if addend is not None:
        result += addend
    return result


class Hooks(Protocol):
    """Computes INT8 layers in place of the simulator: from FP32's and INT8's tensors both results."""

    def layer(self, fused_layer: FusedLayer, exact: Values, quantized: Values) -> tuple[np.ndarray, np.ndarray]:
        """What a convolution or a dense layer puts out in FP32 and in INT8."""

    def lstm(
        self, lstm: RecurrentLayer, exact: Values, quantized: Values
    ) -> tuple[Sequence[np.ndarray], Sequence[np.ndarray]]:
        """What an LSTM layer puts out in FP32 and in INT8, the final state of its cells included."""


class SideBySide:
    """FP32 and INT8 over the same images, operator by operator; what nothing will read is dropped.

    Args:
        reference: the FP32 network.
        network: the INT8 network, with nodes and tensors of the same names.
        images: the network's input, float32 (images, ...).
        hooks: compute the INT8 layers; None: they are computed as they are.

    Attributes:
        exact: the tensors that are still to be read, as FP32 has them.
        quantized: the same tensors as INT8 has them.
    """

    def __init__(
        self, reference: Graph, network: Int8Network, images: np.ndarray, hooks: Optional[Hooks] = None
    ) -> None:
        """Start before the first operator."""
        (name,) = reference.inputs
        self._reference, self._network, self._hooks = reference, network, hooks
        given = {Tensor(name): images, **batch_constants(reference, len(images))}
        self.exact: MutableMapping[Tensor, np.ndarray] = dict(given)
        self.quantized: MutableMapping[Tensor, np.ndarray] = dict(given)
        self._last_reader = {tensor: node.name for node in reference.nodes for tensor in node.inputs}

    def run(self) -> Iterator[Node]:
        """The nodes of the INT8 network in topological order, each once its results are there."""
        for node in self._reference.nodes:
            other = self._network.graph.by_name[node.name]
            results = self._computed_by_hooks(other)
            if results is None:
                exact = float_results(self._reference, node, self.exact)
                results = exact, self._network.results(other, self.quantized)
            for values, own in zip((self.exact, self.quantized), results):
                values.update({Tensor(node.name, index): value for index, value in enumerate(own)})
            yield other
            for tensor in set(node.inputs) - set(self._reference.outputs):
                if self._last_reader[tensor] == node.name:
                    self.exact.pop(tensor, None)
                    self.quantized.pop(tensor, None)

    def _computed_by_hooks(self, node: Node) -> Optional[tuple[Sequence[np.ndarray], Sequence[np.ndarray]]]:
        network = self._network.network
        fused_layer, lstm = network.int8_layer(node), network.int8_recurrent(node)
        if self._hooks is not None and fused_layer is not None:
            exact, quantized = self._hooks.layer(fused_layer, self.exact, self.quantized)
            return [exact], [quantized]
        if self._hooks is not None and lstm is not None:
            return self._hooks.lstm(lstm, self.exact, self.quantized)
        return None
