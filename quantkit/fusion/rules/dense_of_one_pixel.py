"""A dense layer that reads feature maps of one pixel from a convolution gets them flattened.

From its second run on, the kernel of MXNet 1.9.1's fused dense layer fails on what a convolution put out in a layout of
MKL-DNN, of maps of one pixel only: "We can't generate TBlob for MKLDNN data".
"""

from __future__ import annotations

from dataclasses import replace

from quantkit.fusion.rewriting.draft import Draft
from quantkit.fusion.rewriting.rule import Match, Replacement, Rule, Shapes
from quantkit.ir.graph import Node
from quantkit.ir.operators import flag

# What puts out the default layout, whatever it reads.
_IN_ROWS = frozenset({"Pooling", "Flatten", "Reshape"})


def _flattened(draft: Draft, node: Node, shapes: Shapes) -> Match:
    if node.op != "FullyConnected" or not flag(node, "flatten", default=True):
        return None
    data = node.inputs[0]
    producer, shape = draft.producer(data), shapes.get(data, ())
    if producer is None or producer.op in _IN_ROWS or len(shape) < 3 or any(size != 1 for size in shape[2:]):
        return None
    rows = Node(draft.free_name(f"{node.name}_rows"), "Flatten", (data,), {}, node.origin)
    return Replacement((rows, replace(node, inputs=(rows.output, *node.inputs[1:]))))


DENSE_OF_ONE_PIXEL = Rule("flatten maps of one pixel before a dense layer", _flattened)
