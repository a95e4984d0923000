"""The engine's fused operators, ``_sg_mkldnn_conv`` and ``_sg_mkldnn_fully_connected``, in FP32 and INT8.

Their parameters follow MXNet's sources (src/operator/subgraph/mkldnn, releases 1.5 to 1.9): the
sub-network says what is computed, the flags repeat it. Every convolution and dense layer is emitted in
this form, FP32 ones too, so that stock MXNet finds nothing left to fuse when it loads the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from quantkit.fusion.unit import Unit
from quantkit.graph.graph import Graph, Node, Tensor
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.quantization.weights import without_dead_channels

CONVOLUTION = "_sg_mkldnn_conv"
DENSE = "_sg_mkldnn_fully_connected"


def fused_layer(unit: Unit, name: str, inputs: tuple[Tensor, ...], extra: dict[str, str]) -> Node:
    """The engine's node for a unit.

    Args:
        unit: the convolution or dense layer with what is fused into it.
        name: the new node's name.
        inputs: its inputs in the engine's order: data, weight, bias, addend, then ranges for INT8.
        extra: further attributes, those of INT8.
    """
    flags: dict[str, str] = {}
    if unit.is_convolution:
        if unit.addition is not None:
            flags["with_sum"] = "true"
        if unit.activation is not None:
            flags["with_postsum_act" if unit.addition is not None else "with_act"] = "true"
    elif unit.activation is not None:
        flags["with_relu"] = "true"  # the name of MXNet 1.5, which later releases still read
    op = CONVOLUTION if unit.is_convolution else DENSE
    return Node(name, op, inputs, {**flags, **extra}, unit.node.origin, unit.node.body or _body(unit.core))


def _body(core: Node) -> Graph:
    names = ("data", "weight", "bias")[: len(core.inputs)]
    inner = replace(core, inputs=tuple(Tensor(name) for name in names))
    return Graph((inner,), names, (inner.output,))


def with_core_attrs(unit: Unit, attrs: Mapping[str, str]) -> Unit:
    """The unit with other parameters of its convolution or dense layer."""
    core = replace(unit.core, attrs={**unit.core.attrs, **attrs})
    if unit.node.body is None:
        return replace(unit, core=core)
    nodes = tuple(core if inner is unit.core else inner for inner in unit.node.body.nodes)
    return replace(unit, core=core, node=replace(unit.node, body=replace(unit.node.body, nodes=nodes)))


def with_relu_only(unit: Unit) -> Unit:
    """The unit with a clipping activation replaced by plain ReLU.

    For INT8 results whose range ends at or below the clip, saturation does the clipping.
    """
    if unit.activation_kind != "relu6" or unit.node.body is None or unit.activation is None:
        return unit
    relu = replace(unit.activation, op="Activation", attrs={"act_type": "relu"})
    nodes = tuple(relu if inner is unit.activation else inner for inner in unit.node.body.nodes)
    return replace(unit, node=replace(unit.node, body=replace(unit.node.body, nodes=nodes)), activation=relu)


def engine_weight(network: QuantizedGraph, unit: Unit) -> np.ndarray:
    """The weights that an INT8 convolution is lowered with: its own, where the engine can quantize these."""
    params = network.graph.params
    bias = params[unit.bias.node] if unit.bias else None
    steps = (network.form(tensor).params.scale for tensor in (unit.data, unit.node.output))
    return without_dead_channels(params[unit.weight.node], bias, *steps)
