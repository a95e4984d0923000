"""A 1x1 convolution over a 1x1 feature map is a dense layer, whose INT8 kernel keeps a float result.

A convolution's INT8 kernel rounds its result to 8 bits, which makes close logits equal.
MobileNetV2 and others end in such a convolution.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from quantkit.fusion.rewriting.draft import Draft
from quantkit.fusion.rewriting.rule import Match, Replacement, Rule, Shapes
from quantkit.ir.graph import Node, Tensor
from quantkit.ir.operators import flag, integer, integers

NAME = "1x1 convolution over one pixel as a dense layer"


def _as_dense(draft: Draft, node: Node, shapes: Shapes) -> Match:
    if node.op != "Convolution" or integers(node, "kernel") != (1, 1) or integer(node, "num_group", 1) != 1:
        return None
    if shapes[node.inputs[0]][2:] != (1, 1) or any(integers(node, "pad")):
        return None
    weight = draft.params.get(node.inputs[1].node)
    if weight is None:
        return None
    name, flat_weight = draft.free_name(f"{node.name}_dense"), draft.free_name(f"{node.name}_dense_weight")
    flat: dict[str, np.ndarray] = {flat_weight: weight.reshape(len(weight), -1)}
    no_bias = str(flag(node, "no_bias"))
    dense = Node(
        name,
        "FullyConnected",
        (node.inputs[0], Tensor(flat_weight), *node.inputs[2:]),
        {"num_hidden": str(len(weight)), "no_bias": no_bias, "flatten": "True"},
        node.origin,
    )
    map_of_one = replace(node, op="Reshape", inputs=(dense.output,), attrs={"shape": "(0, 0, 1, 1)"})
    return Replacement((dense, map_of_one), flat)


POINTWISE_DENSE = Rule(NAME, _as_dense)
