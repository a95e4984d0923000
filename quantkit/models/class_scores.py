"""The rule that decides whether a network's outputs are class scores, the largest of which is a prediction."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import prod
from typing import Optional

from quantkit.errors import UserError
from quantkit.ir.graph import Graph, Node
from quantkit.ir.operators import SOFTMAX, computing

_ENDS = SOFTMAX | {"SoftmaxOutput"}
_ADDITION = frozenset({"broadcast_add", "elemwise_add"})
_POOLING = frozenset({"Pooling", "mean"})
_CLASSIFYING = frozenset({"FullyConnected", "Convolution"})

# Embeddings and features have powers of two as widths: 128, 512, 1024, 2048. Sets of classes hardly ever do.
_NARROWEST_EMBEDDING = 64


@dataclass(frozen=True)
class ClassScores:
    """Whether each image's (first) output is a row of class scores, and the reason for deciding so.

    ``why`` completes "because". ``settled``: the user said so, or nothing the user says could change it.
    """

    yes: bool
    why: str
    settled: bool = False


def is_row(shape: tuple[int, ...]) -> bool:
    """Whether an output of this shape, without the batch axis, is a row of several values."""
    return bool(shape) and prod(shape) == shape[0] > 1


def class_scores(
    graph: Graph,
    shapes: Sequence[tuple[int, ...]],
    labels: Collection[str] = (),
    said: Optional[bool] = None,
    labelled: bool = False,
) -> ClassScores:
    """Decide whether a network's outputs are class scores.

    What the user says comes first. Several outputs, or one that is not a row of at least two values, are not class
    scores. A row is class scores if the classes have names, a softmax ends the network, or the images have labels.
    Otherwise it is presumed to be if a dense layer or a convolution computes it, unless a sigmoid follows or the row
    is as wide as embeddings are (a power of two from 64 on).

    Args:
        graph: the FP32 network, unfused.
        shapes: those of its outputs for one image, without the batch axis.
        labels: the names of the classes, if known.
        said: what the user says; ``True`` is about the first output and ignores the others.
        labelled: whether the images have class labels.

    Raises:
        UserError: the user says that the first output is class scores, and it is not a row.
    """
    first = shapes[0]
    row = is_row(first)
    form = f"an image's output has the shape ({', '.join(map(str, first))})"
    if said and not row:
        raise UserError(
            f"{form}, so the output {str(graph.outputs[0])!r} cannot be a row of class scores; "
            "leave --classes (class_scores=True) out"
        )
    if said:
        return ClassScores(True, "the caller or the bundle says so", settled=True)
    if len(shapes) > 1:
        return ClassScores(False, f"it has {len(shapes)} outputs", settled=not row)
    if not row:
        return ClassScores(False, form, settled=True)
    if said is not None:
        return ClassScores(False, "the caller or the bundle says so", settled=True)
    if len(labels) == first[0]:
        return ClassScores(True, "its classes have names")
    if labelled:
        return ClassScores(True, "the images have labels")
    last = computing(graph, graph.outputs[0])
    if last is not None and last.op in _ENDS:
        return ClassScores(True, "a softmax ends it")
    return _presumed(graph, last, first[0])


def _presumed(graph: Graph, last: Optional[Node], width: int) -> ClassScores:
    """The presumption about a row of values without names or labels."""
    if last is not None and last.op in _POOLING:
        pooled = computing(graph, last.inputs[0])
        last = graph.producer(pooled.inputs[0]) if pooled is not None and _is_relu(pooled) else pooled
    if last is not None and last.op in _ADDITION:
        # A bias that is not part of its layer.
        last = next((graph.producer(each) for each in last.inputs if each.node not in graph.params), None)
    if last is None or last.op not in _CLASSIFYING:
        return ClassScores(False, f"{'nothing' if last is None else last.op} ends it, and its values have no names")
    if width >= _NARROWEST_EMBEDDING and width & (width - 1) == 0:
        return ClassScores(False, f"its {width} values have no names and are as many as embeddings have")
    return ClassScores(True, f"a {last.op} layer ends it with {width} values")


def _is_relu(node: Node) -> bool:
    return node.op == "Activation" and node.attrs.get("act_type") == "relu"
