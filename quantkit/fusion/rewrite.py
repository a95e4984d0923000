"""What a rewrite is: a rule that looks at one node and answers with a replacement, a refusal or nothing.

The replacement takes the name of the node whose output it provides, so that tensors keep the user's
names through every rewrite, and ``origin`` collects the names of all operators that it stands for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Optional, Union

import numpy as np

from quantkit.graph.graph import Graph, Node, Tensor

Shapes = Mapping[Tensor, tuple[int, ...]]


@dataclass(frozen=True)
class Replacement:
    """New nodes that stand where ``nodes[-1].name`` stood; what nothing reads any more is dropped."""

    nodes: tuple[Node, ...]
    params: Mapping[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True)
class Bypass:
    """The node computes nothing at inference: its readers read ``tensor`` instead."""

    tensor: Tensor


@dataclass(frozen=True)
class Refusal:
    """A rule found its pattern at ``node`` but must not fire, and why."""

    rule: str
    node: str
    reason: str


@dataclass(frozen=True)
class Applied:
    """A rule replaced the operators named in ``origin`` by the one named ``node``."""

    rule: str
    node: str
    origin: tuple[str, ...]


Answer = Union[Replacement, Bypass, Refusal, None]


@dataclass(frozen=True)
class Rule:
    """One rewrite: ``name`` as ``explain`` prints it, and ``answer(graph, node, shapes)``."""

    name: str
    answer: Callable[[Graph, Node, Shapes], Answer]


def apply_rule(graph: Graph, rule: Rule, shapes: Shapes) -> tuple[Graph, tuple[Applied, ...], tuple[Refusal, ...]]:
    """Offer every node to the rule, in topological order, and carry out its answers."""
    applied: list[Applied] = []
    refused: list[Refusal] = []
    for name in [node.name for node in graph.nodes]:
        node = graph.by_name.get(name)
        answer = rule.answer(graph, node, shapes) if node is not None else None
        if isinstance(answer, Refusal):
            refused.append(answer)
        elif isinstance(answer, Bypass):
            applied.append(Applied(rule.name, str(answer.tensor), (name,)))
            graph = _bypassed(graph, name, answer.tensor)
        elif answer is not None:
            applied.append(Applied(rule.name, name, answer.nodes[-1].origin))
            graph = _replaced(graph, name, answer)
    return graph, tuple(applied), tuple(refused)


def _replaced(graph: Graph, name: str, replacement: Replacement) -> Graph:
    nodes: list[Node] = []
    for node in graph.nodes:
        nodes.extend(replacement.nodes if node.name == name else (node,))
    return Graph(tuple(nodes), graph.inputs, graph.outputs, {**graph.params, **replacement.params}).pruned()


def _bypassed(graph: Graph, name: str, tensor: Tensor) -> Graph:
    def redirect(old: Tensor) -> Tensor:
        return tensor if old.node == name else old

    nodes = tuple(
        Node(node.name, node.op, tuple(map(redirect, node.inputs)), node.attrs, node.origin, node.body)
        for node in graph.nodes
        if node.name != name
    )
    return Graph(nodes, graph.inputs, tuple(map(redirect, graph.outputs)), graph.params).pruned()


def why_not_fusible(graph: Graph, tensor: Tensor) -> Optional[str]:
    """The reason why the operator that computes ``tensor`` may not be merged into its reader; None if it may.

    A result that somebody else reads too must stay: this is the check whose absence makes stock MXNet
    wrong on pre-activation ResNets.
    """
    if tensor in graph.outputs:
        return f"the result of {tensor} is also an output of the network"
    readers = graph.consumers.get(tensor, ())
    if len(readers) > 1:
        names = ", ".join(sorted({reader.name for reader in readers}))
        return f"the result of {tensor} has {len(readers)} readers: {names}"
    return None
