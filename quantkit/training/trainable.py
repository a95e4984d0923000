"""A network in the form in which it is trained: its class scores before any softmax, and which parameters learn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import numpy as np

from quantkit.errors import UserError
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.operators import SOFTMAX, auxiliary_inputs, computing

BODY = "body"
"""What ``freeze`` calls everything but the last layer."""

_NORMALIZATION = "BatchNorm"


@dataclass(frozen=True, eq=False)
class Trainable:
    """A network to be trained.

    Attributes:
        graph: its first output are class scores before any softmax, of shape (batch, classes), perhaps with further
            axes of 1.
        learned: the names of the parameters that are trained.
    """

    graph: Graph
    learned: frozenset[str]

    @property
    def decayed(self) -> frozenset[str]:
        """The names of the parameters that weight decay applies to: matrices and kernels, no biases and scales.

        He et al. 2019, "Bag of Tricks for Image Classification with Convolutional Neural Networks", section 3.1.
        """
        return frozenset(name for name in self.learned if self.graph.params[name].ndim > 1)


def trainable(graph: Graph, head: str, freeze: Sequence[str]) -> Trainable:
    """A network with what may learn of it.

    Args:
        graph: the network for inference.
        head: the name of its last layer.
        freeze: see ``TrainingConfig``.

    Raises:
        UserError: something to be frozen is not there, or nothing is left to learn.
    """
    frozen = _frozen(graph, head, freeze)
    auxiliary = {tensor.node for node in graph.nodes for tensor in auxiliary_inputs(node)}
    learned = frozenset(
        name for name, value in graph.params.items() if value.dtype == np.float32 and name not in frozen | auxiliary
    )
    if not learned:
        raise UserError("all parameters are frozen; leave some to be trained, such as --freeze body for the last layer")
    nodes = tuple(_with_fixed_statistics(node) if _is_fixed(node, frozen) else node for node in graph.nodes)
    scores = before_softmax(graph, graph.outputs[0])
    return Trainable(replace(graph, nodes=nodes, outputs=(scores,)).pruned(), learned)


def _frozen(graph: Graph, head: str, freeze: Iterable[str]) -> frozenset[str]:
    """The names of the parameters that stay as they are."""
    frozen: set[str] = set()
    of_head = {tensor.node for tensor in graph.by_name[head].inputs if tensor.node in graph.params}
    for pattern in freeze:
        if pattern == BODY:
            frozen |= graph.params.keys() - of_head
            continue
        matching = {name for name in graph.params if fnmatchcase(name, pattern)}
        for node in graph.nodes:
            if any(fnmatchcase(name, pattern) for name in (node.name, *node.origin)):
                matching |= {tensor.node for tensor in node.inputs if tensor.node in graph.params}
        if not matching:
            raise UserError(
                f"nothing to freeze is called {pattern!r}; the network has operators such as {graph.nodes[0].name!r} "
                f"and {head!r}, which the symbol file lists"
            )
        frozen |= matching
    return frozenset(frozen)


def _is_fixed(node: Node, frozen: frozenset[str]) -> bool:
    return node.op == _NORMALIZATION and {tensor.node for tensor in node.inputs[1:3]} <= frozen


def _with_fixed_statistics(node: Node) -> Node:
    return replace(node, attrs={**node.attrs, "use_global_stats": "True"})


def before_softmax(graph: Graph, output: Tensor) -> Tensor:
    """What a softmax at the end of the network reads; the output itself if there is none."""
    last = computing(graph, output)
    return last.inputs[0] if last is not None and last.op in SOFTMAX else output
