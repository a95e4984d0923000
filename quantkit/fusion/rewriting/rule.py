"""Rewrites: a rule looks at one node and returns a replacement, a rejection or nothing.

The replacement takes the name of the node whose output it provides, so that tensors keep the user's
names through every rewrite. ``origin`` collects the names of all operators that it stands for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Optional, Union

import numpy as np

from quantkit.fusion.rewriting.draft import Draft
from quantkit.ir.graph import Graph, Node, Tensor

Shapes = Mapping[Tensor, tuple[int, ...]]

# Readers of one tensor that a rejection names.
_MOST_NAMED = 8


@dataclass(frozen=True)
class Replacement:
    """New nodes in place of the node named ``nodes[-1].name``; whatever nothing reads any more is dropped.

    The last node computes the old one's first output; ``moved`` has the tensors that take the place of others.
    """

    nodes: tuple[Node, ...]
    params: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)
    moved: Mapping[Tensor, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Bypass:
    """The node does nothing at inference: its readers read ``tensor`` instead."""

    tensor: Tensor


@dataclass(frozen=True)
class Rejection:
    """A rule's pattern matches at ``node``, but the rule must not fire, for ``reason``."""

    rule: str
    node: str
    reason: str


@dataclass(frozen=True)
class Applied:
    """A rule replaced the operators named in ``origin`` by the one named ``node``."""

    rule: str
    node: str
    origin: tuple[str, ...]


Match = Union[Replacement, Bypass, Rejection, None]


@dataclass(frozen=True)
class Rule:
    """One rewrite: ``name`` as ``explain`` prints it, and the function that matches a node."""

    name: str
    match: Callable[[Draft, Node, Shapes], Match]


def apply_rule(
    graph: Graph, rule: Rule, shapes: Shapes, batch_axes: Optional[Mapping[Tensor, tuple[int, ...]]] = None
) -> tuple[Graph, tuple[Applied, ...], tuple[Rejection, ...]]:
    """Offer every node to the rule, in topological order, and apply its matches.

    Args:
        graph: the network.
        rule: the rule.
        shapes: of the original network's tensors, for a batch of 1.
        batch_axes: see ``Draft``.
    """
    draft = Draft(graph, batch_axes)
    applied: list[Applied] = []
    rejected: list[Rejection] = []
    for name in draft.names:
        node = draft.node(name)
        match = rule.match(draft, node, shapes) if node is not None else None
        if isinstance(match, Rejection):
            rejected.append(match)
        elif isinstance(match, Bypass):
            applied.append(Applied(rule.name, str(match.tensor), (name,)))
            draft.bypass(name, match.tensor)
        elif match is not None:
            applied.append(Applied(rule.name, match.nodes[-1].name, match.nodes[-1].origin))
            draft.replace(match.nodes, match.params, match.moved)
    return draft.graph(), tuple(applied), tuple(rejected)


def why_not_fusible(draft: Draft, tensor: Tensor) -> Optional[str]:
    """The reason why the operator that computes ``tensor`` may not be merged into its reader; None if it may.

    A result with other readers must stay. Stock MXNet lacks this check, which makes it wrong on
    pre-activation ResNets.
    """
    if draft.is_output(tensor):
        return f"the result of {tensor} is also an output of the network"
    readers = draft.readers(tensor)
    if sum(islice(readers.values(), 2)) < 2:
        return None
    count = len(readers) if len(readers) > 1 else sum(readers.values())
    named = sorted(islice(readers, _MOST_NAMED))
    others = f" and {len(readers) - _MOST_NAMED} others" if len(readers) > _MOST_NAMED else ""
    return f"the result of {tensor} has {count} readers: {', '.join(named)}{others}"
