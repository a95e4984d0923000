"""A dense layer that reads feature maps of one pixel in a layout of MKL-DNN gets them flattened.

From its second run on, MXNet 1.9.1's fused dense layer fails on them: "We can't generate TBlob for MKLDNN data". It can
read larger maps in such layouts.
"""

from __future__ import annotations

from dataclasses import replace

from quantkit.fusion.rewriting.draft import Draft
from quantkit.fusion.rewriting.rule import Match, Replacement, Rule, Shapes
from quantkit.ir.graph import Node
from quantkit.ir.operators import ADDITIONS, flag

# What puts out such layouts, or is fused into a convolution.
_IN_LAYOUTS = frozenset({"Convolution", "Activation", "relu", "clip", "LeakyReLU", "BatchNorm", "Concat"}) | ADDITIONS


def _flattened(draft: Draft, node: Node, shapes: Shapes) -> Match:
    if node.op != "FullyConnected" or not flag(node, "flatten", default=True):
        return None
    data = node.inputs[0]
    producer, shape = draft.producer(data), shapes.get(data, ())
    # One that changes nothing keeps the layout.
    while producer is not None and producer.op == "Reshape":
        producer = draft.producer(producer.inputs[0])
    if producer is None or producer.op not in _IN_LAYOUTS or len(shape) < 3 or any(size != 1 for size in shape[2:]):
        return None
    rows = Node(draft.free_name(f"{node.name}_rows"), "Flatten", (data,), {}, node.origin)
    return Replacement((rows, replace(node, inputs=(rows.output, *node.inputs[1:]))))


DENSE_OF_ONE_PIXEL = Rule("flatten maps of one pixel before a dense layer", _flattened)
