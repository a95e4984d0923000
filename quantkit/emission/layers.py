"""The engine's fused operators, ``_sg_mkldnn_conv`` and ``_sg_mkldnn_fully_connected``, in FP32 and INT8.

Their parameters follow MXNet's sources (src/operator/subgraph/mkldnn, releases 1.5 to 1.9): the
sub-network says what is computed, the flags repeat it. Every convolution and dense layer is emitted in
this form, FP32 ones too, so that stock MXNet finds nothing left to fuse when it loads the result.
"""

from __future__ import annotations

from dataclasses import replace

from quantkit.fusion.unit import Unit
from quantkit.graph.graph import Graph, Node, Tensor

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
