"""The engine's fused operators, ``_sg_mkldnn_conv`` and ``_sg_mkldnn_fully_connected``, in FP32 and INT8.

Their parameters follow MXNet's sources (src/operator/subgraph/mkldnn, releases 1.5 to 1.9): the
sub-network says what is computed, and the flags repeat it. Every convolution and dense layer is lowered in
this form, FP32 ones too, so that stock MXNet finds nothing left to fuse when it loads the result.
"""

from __future__ import annotations

from dataclasses import replace

from quantkit.ir.fused_layer import FusedLayer
from quantkit.ir.graph import Graph, Node, Tensor

CONVOLUTION = "_sg_mkldnn_conv"
DENSE = "_sg_mkldnn_fully_connected"


def engine_operator(layer: FusedLayer, name: str, inputs: tuple[Tensor, ...], extra: dict[str, str]) -> Node:
    """The engine's node for a layer.

    Args:
        layer: the convolution or dense layer with what is fused into it.
        name: the new node's name.
        inputs: its inputs in the engine's order: data, weight, bias, addend, then ranges for INT8.
        extra: further attributes, for INT8.
    """
    flags: dict[str, str] = {}
    if layer.is_convolution:
        if layer.addition is not None:
            flags["with_sum"] = "true"
        if layer.activation is not None:
            flags["with_postsum_act" if layer.addition is not None else "with_act"] = "true"
    elif layer.activation is not None:
        flags["with_relu"] = "true"  # the name of MXNet 1.5, which later releases still read
    op = CONVOLUTION if layer.is_convolution else DENSE
    return Node(name, op, inputs, {**flags, **extra}, layer.node.origin, layer.node.body or _body(layer.core))


def _body(core: Node) -> Graph:
    names = ("data", "weight", "bias")[: len(core.inputs)]
    inner = replace(core, inputs=tuple(Tensor(name) for name in names))
    return Graph((inner,), names, (inner.output,))
