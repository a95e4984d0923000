"""The last layer of a classifier, and a new one for other classes."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from quantkit.backends.mxnet.shapes import infer_shapes
from quantkit.errors import EngineError, ModelError, UserError
from quantkit.ir.graph import Graph, Node
from quantkit.ir.operators import SOFTMAX, activation_kind, computing, integer
from quantkit.models.class_scores import is_row
from quantkit.models.model import Model

# By operator: the attribute with the number of its outputs.
_WIDTHS = {"FullyConnected": "num_hidden", "Convolution": "num_filter"}
_POOLING = frozenset({"Pooling", "mean"})


def last_layer(graph: Graph, name: str) -> Node:
    """The dense layer or convolution whose outputs are the class scores, of the network ``name``.

    A softmax, a pooling and a ReLU may follow it, as in SqueezeNet.

    Raises:
        ModelError: something else ends the network.
    """
    node = computing(graph, graph.outputs[0])
    while node is not None and (node.op in SOFTMAX | _POOLING or activation_kind(node) == "relu"):
        node = computing(graph, node.inputs[0])
    if node is None or node.op not in _WIDTHS or node.inputs[1].node not in graph.params:
        what = "nothing" if node is None else f"{node.op} {node.name!r}"
        raise ModelError(
            f"{name} does not end with a dense layer or a convolution that puts out class scores, but with {what}; "
            "give a classifier"
        )
    return node


def classes_of(model: Model) -> int:
    """The number of classes of a network for classification.

    Raises:
        ModelError: it has several inputs or passes on states, reads tokens, or its output is no row of class scores.
    """
    if model.joined or model.states or model.vocabulary:
        kind = "several inputs" if model.joined else "states" if model.states else "token ids"
        raise ModelError(f"{model.name} has {kind}; only classifiers with one input of numbers can be fine-tuned")
    if model.task not in (None, "classification") or len(model.graph.outputs) > 1:
        raise ModelError(f"{model.name} is for {model.task or 'several outputs'}; only classifiers can be fine-tuned")
    shape = _output_shape(model, model.graph)
    if not is_row(shape):
        raise ModelError(f"{model.name} puts out {shape} for each sample, no row of class scores; give a classifier")
    return shape[0]


def with_classes(model: Model, classes: int, seed: int) -> Model:
    """The network with a new last layer for other classes; its names stay.

    The weights are uniform up to one over the root of the number of inputs of each class (as PyTorch's and Gluon's
    dense layers have them), the biases 0.

    Args:
        model: a classifier.
        classes: from 2 up.
        seed: another one gives other weights.

    Raises:
        ModelError: see ``last_layer``; or more than the last layer would have to change.
        UserError: there are fewer than two classes.
    """
    if classes < 2:
        raise UserError(f"a classifier for {classes} class(es) has nothing to tell apart; give at least 2 (--classes)")
    head = last_layer(model.graph, model.name)
    weight, *biases = (tensor.node for tensor in head.inputs[1:])
    if integer(head, "num_group", 1) != 1:
        raise ModelError(
            f"the last layer of {model.name}, {head.name!r}, is a grouped convolution; give another network"
        )
    shape = (classes, *model.graph.params[weight].shape[1:])
    bound = 1 / math.sqrt(math.prod(shape[1:]))
    values = np.random.default_rng(seed).uniform(-bound, bound, shape).astype(np.float32)
    new = {weight: values, **{name: np.zeros(classes, np.float32) for name in biases}}
    node = replace(head, attrs={**head.attrs, _WIDTHS[head.op]: str(classes)})
    nodes = tuple(node if each.name == head.name else each for each in model.graph.nodes)
    graph = replace(model.graph, nodes=nodes, params={**model.graph.params, **new})
    if _output_shape(model, graph) != (classes, *_output_shape(model, model.graph)[1:]):
        raise ModelError(
            f"what follows the last layer of {model.name}, {head.name!r}, does not fit another number of classes; "
            "export the network with a Flatten in place of a Reshape"
        )
    return replace(model, graph=graph, labels=())


def _output_shape(model: Model, graph: Graph) -> tuple[int, ...]:
    try:
        shapes = infer_shapes(graph, {graph.inputs[0]: (1, *model.input_shape)})
    except EngineError as error:
        raise ModelError(f"{model.name} does not fit together: {error}") from error
    return shapes[graph.outputs[0]][1:]
