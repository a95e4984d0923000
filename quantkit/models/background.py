"""What detectors take most boxes for: the background."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.operators import flag, integer, integers

# The share of boxes taken for an object: Lin et al. 2017, "Focal Loss for Dense Object Detection", section 4.1.
_OBJECTS = 0.01

_MOVES = frozenset({"Concat", "Flatten", "Reshape", "transpose"})


def background_biases(graph: Graph, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """Biases, by name, with which untrained detectors take boxes for the background as often as trained ones do.

    Without them every box counts as a detection of every class, and sorting these takes longer than the network does.
    They belong to the layers whose results, class by class with the background first, a softmax over the last axis
    turns into scores, of which the first is cut off. Logits have variance 1.
    """
    biases = {}
    for node in graph.nodes:
        if node.op != "softmax" or integer(node, "axis", -1) != -1 or not _without_first(graph, node.output):
            continue
        before = graph.producer(node.inputs[0])
        (*_, known) = (integers(before, "shape") if before is not None and before.op == "Reshape" else ()) or (0,)
        for layer in _predictors(graph, node.inputs[0]):
            bias = layer.inputs[2].node if not flag(layer, "no_bias") and len(layer.inputs) > 2 else ""
            outputs = shapes[bias][0] if bias in shapes else 0
            width = known if known > 0 else outputs
            if width > 1 and outputs and outputs % width == 0:
                values = np.zeros((outputs // width, width), np.float32)
                # The mean of e^x over normally distributed x of variance 1 is e^(1/2).
                values[:, 0] = 0.5 + math.log((width - 1) * (1 - _OBJECTS) / _OBJECTS)
                biases[bias] = values.ravel()
    return biases


def _without_first(graph: Graph, scores: Tensor) -> bool:
    return any(
        reader.op == "slice_axis" and integer(reader, "axis", 0) == -1 and integer(reader, "begin", 0) == 1
        for reader in graph.consumers.get(scores, ())
    )


def _predictors(graph: Graph, tensor: Tensor) -> Iterator[Node]:
    """The layers whose results a tensor consists of."""
    seen, left = {tensor}, [tensor]
    while left:
        node = graph.producer(left.pop())
        if node is not None and node.op in ("Convolution", "FullyConnected"):
            yield node
        elif node is not None and node.op in _MOVES:
            left += dict.fromkeys(each for each in node.inputs if each not in seen)
            seen.update(node.inputs)
