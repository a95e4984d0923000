"""The value between quantization and lowering: a fused network, and how everything in it is quantized."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Optional

import numpy as np

from quantkit.backends.mxnet.instructions import may_rule_out_vnni
from quantkit.errors import ModelError
from quantkit.ir.fused_layer import FusedLayer, fused_layer_of, has_constant_weights, layer_of
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.recurrent_layer import RecurrentLayer, lstm_matrices, recurrent_layer_of
from quantkit.quantization.layer_weights import WeightRounding
from quantkit.quantization.plan import (
    WITHOUT_WEIGHTS,
    QuantizationPlan,
    TensorQuantization,
    operator_name,
)


@dataclass(frozen=True, eq=False)
class QuantizedGraph:
    """A fused network with the weights and biases that are to be quantized, and the plan of its quantization.

    ``plan`` decides on every node of ``graph``, and has the integer form of every tensor that has one.
    ``weight_scales`` has, by the node's name, the scale of each row of an INT8 LSTM layer, float32 (gates x hidden,),
    or of each channel of a dense layer, where the weights in ``graph`` are multiples of it already; other layers'
    weights are rounded when they are lowered.
    """

    graph: Graph
    plan: QuantizationPlan
    weight_scales: Mapping[str, np.ndarray] = field(default_factory=dict)

    def is_int8(self, node: Node) -> bool:
        """Whether a node runs in INT8."""
        return self.plan.is_int8(node)

    def int8_layer(self, node: Optional[Node]) -> Optional[FusedLayer]:
        """The convolution or dense layer that a node is, if it runs in INT8."""
        layer = fused_layer_of(node)
        return layer if layer is not None and self.is_int8(layer.node) else None

    def int8_convolution(self, node: Optional[Node]) -> Optional[FusedLayer]:
        """The convolution that a node is, if it runs in INT8."""
        layer = self.int8_layer(node)
        return layer if layer is not None and layer.is_convolution else None

    @cached_property
    def int8_layers(self) -> tuple[FusedLayer, ...]:
        """The convolutions and dense layers that run in INT8, in topological order."""
        return tuple(layer for node in self.graph.nodes if (layer := self.int8_layer(node)) is not None)

    @cached_property
    def int8_lstms(self) -> tuple[RecurrentLayer, ...]:
        """The LSTM layers that run in INT8, in topological order."""
        return tuple(layer for node in self.graph.nodes if (layer := self.int8_recurrent(node)) is not None)

    @property
    def rules_out_vnni(self) -> bool:
        """Whether LSTM layers make the network's process do without VNNI, or may do so."""
        return bool(self.int8_lstms) or may_rule_out_vnni(self.graph)

    @property
    def needing_vnni(self) -> tuple[str, ...]:
        """The names of INT8 layers whose sums can saturate without VNNI."""
        names = tuple(layer.node.name for layer in self.int8_layers)
        return () if self.rules_out_vnni else names

    @cached_property
    def int8_weighted(self) -> tuple[Node, ...]:
        """The nodes with weights that run in INT8, convolutions, dense and LSTM layers, in topological order."""
        return tuple(node for node in self.graph.nodes if has_weights(node) and self.is_int8(node))

    def computes_integers(self, node: Node) -> bool:
        """Whether a node puts out integers.

        All INT8 operators do but LSTM layers, and dense layers that others than dense layers read: their results are
        FP32. Layers that put out integers have FP32 weights, which the engine rounds.
        """
        layer = fused_layer_of(node)
        if layer is not None and not layer.is_convolution:
            return self.plan.hands_on_integers(self.graph, node)
        return self.is_int8(node) and recurrent_layer_of(node) is None

    def weight_rounding(self, node: Node) -> WeightRounding:
        """How the weights of an INT8 convolution or dense layer become integers."""
        if self.computes_integers(node):
            return WeightRounding("engine", groups=layer_of(node).groups)
        return WeightRounding("pairs" if self.rules_out_vnni else "rows", self.weight_scales.get(node.name))

    def int8_recurrent(self, node: Optional[Node]) -> Optional[RecurrentLayer]:
        """The LSTM layer that a node is, if it runs in INT8."""
        layer = recurrent_layer_of(node)
        return layer if layer is not None and self.is_int8(layer.node) else None

    def addend_form(self, layer: FusedLayer) -> Optional[TensorQuantization]:
        """The integers that an INT8 layer adds to, None where it adds nothing.

        The kernel adds in place, in the addend's type: a signed result needs a signed addend.
        """
        if layer.addend is None:
            return None
        form = self.form(layer.addend)
        return replace(form, dtype="int8") if self.form(layer.node.output).dtype == "int8" else form

    def form(self, tensor: Tensor) -> TensorQuantization:
        """The integer form of a tensor that has one."""
        return self.plan.tensors[tensor]


def has_weights(node: Node) -> bool:
    """Whether a node is a convolution, a dense layer or recurrent layers."""
    return fused_layer_of(node) is not None or recurrent_layer_of(node) is not None


def check_quantized(network: QuantizedGraph) -> None:
    """Make sure that a network and its plan belong together, so that it can be lowered.

    Raises:
        ModelError: the plan is not of these nodes and operators, makes INT8 of what has no INT8 form, or lacks a
            tensor's integers; weights and a bias do not go together, or are not float32.
    """
    names = {node.name for node in network.graph.nodes}
    if other := sorted(names ^ network.plan.decisions.keys()):
        raise ModelError(f"network and plan do not agree on whether there is a node {other[0]!r}")
    for node in network.graph.nodes:
        name = operator_name(node)
        # Channel shift ends a layer whose result it makes unsigned with a ReLU that the plan knows nothing of.
        if network.plan.decisions[node.name].operator not in (name, name.removesuffix("+relu")):
            raise ModelError(f"node {node.name!r} ({node.op}) is another operator in the plan")
    for node in filter(network.is_int8, network.graph.nodes):
        layer, recurrent = fused_layer_of(node), recurrent_layer_of(node)
        if recurrent is not None:
            _check_recurrent(network, recurrent)
            continue
        if not (node.op in WITHOUT_WEIGHTS if layer is None else has_constant_weights(network.graph.params, layer)):
            raise ModelError(f"node {node.name!r} ({node.op}) has no INT8 form")
        if layer is not None and (problem := _weight_problem(network.graph.params, layer)):
            raise ModelError(f"node {node.name!r} ({node.op}) {problem}")
        read = node.inputs if layer is None else filter(None, (layer.data, layer.addend))
        wanted = (*read, *((node.output,) if network.computes_integers(node) else ()))
        if missing := [tensor for tensor in wanted if tensor not in network.plan.tensors]:
            raise ModelError(f"tensor {str(missing[0])!r} has no integer form, and node {node.name!r} runs in INT8")


def _check_recurrent(network: QuantizedGraph, layer: RecurrentLayer) -> None:
    node = layer.node
    if lstm_matrices(network.graph.params, layer) is None:
        raise ModelError(f"node {node.name!r} ({node.op}) has no INT8 form")
    if any(tensor.node not in network.graph.input_dependent for tensor in layer.states):
        raise ModelError(f"the initial states of node {node.name!r} ({node.op}) do not follow from the network's input")
    for tensor in (layer.data, node.output):
        if tensor not in network.plan.tensors:
            raise ModelError(f"tensor {str(tensor)!r} has no integer form, and node {node.name!r} runs in INT8")
    if network.form(node.output).dtype != "int8":
        raise ModelError(f"the state of node {node.name!r} is {network.form(node.output).dtype}, and must be int8")


def _weight_problem(params: Mapping[str, np.ndarray], layer: FusedLayer) -> Optional[str]:
    weight = params[layer.weight.node]
    bias = None if layer.bias is None else params[layer.bias.node]
    if weight.ndim < 2 or weight.dtype != np.float32:
        return f"has weights of shape {weight.shape} and type {weight.dtype}"
    if bias is not None and (bias.shape != weight.shape[:1] or bias.dtype != np.float32):
        return f"has a bias of shape {bias.shape} and type {bias.dtype} for {len(weight)} channels"
    return None
