"""Graph and Node: an immutable network, the value that every stage of quantkit takes and returns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Optional, Union

import numpy as np

from quantkit.errors import ModelError
from quantkit.units import megabytes

# Tensors that a repr lists.
_MOST_SHOWN = 3


@dataclass(frozen=True, order=True)
class Tensor:
    """One output of a node; for a network input or a parameter, ``node`` is its name and ``index`` is 0."""

    node: str
    index: int = 0

    @property
    def stem(self) -> str:
        """The prefix for the names of operators and parameters that are made for this tensor."""
        return f"{self.node}_{self.index}" if self.index else self.node

    def __str__(self) -> str:
        return self.node if self.index == 0 else f"{self.node}[{self.index}]"


@dataclass(frozen=True)
class Node:
    """One operator. ``attrs`` are strings, as nnvm stores them.

    ``origin`` keeps the user's names of all operators that this one stands for, through every
    rewrite. ``body`` is the sub-network that a fused operator computes.
    """

    name: str
    op: str
    inputs: tuple[Tensor, ...]
    attrs: Mapping[str, str] = field(default_factory=dict)
    origin: tuple[str, ...] = ()
    body: Optional[Graph] = None

    @property
    def output(self) -> Tensor:
        """The first (for most operators the only) output."""
        return Tensor(self.name)

    def __repr__(self) -> str:
        return f"Node({self.name!r}: {self.op} of {_listed(self.inputs)})"


@dataclass(frozen=True, eq=False)
class Graph:
    """A network: operators in topological order, network inputs, outputs, and parameters by name.

    Raises:
        ModelError: a name occurs twice, or a node reads a tensor that nothing before it produces.
    """

    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[Tensor, ...]
    params: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = set(self.inputs) | set(self.params)
        if len(known) != len(self.inputs) + len(self.params):
            twice = sorted(set(self.inputs) & set(self.params)) or list(self.inputs)
            raise ModelError(f"network input {twice[0]!r} occurs twice or is also a parameter; rename it")
        for node in self.nodes:
            for tensor in node.inputs:
                if tensor.node not in known:
                    raise ModelError(
                        f"node {node.name!r} ({node.op}) reads {tensor.node!r}, which no input, "
                        "parameter or earlier node provides; the symbol and its parameters do not fit"
                    )
            if node.name in known:
                raise ModelError(f"the name {node.name!r} occurs twice in the network; rename one of them")
            known.add(node.name)
        for tensor in self.outputs:
            if tensor.node not in known:
                raise ModelError(
                    f"no node produces the network's output {tensor.node!r}; export the network with the operators "
                    "that compute it"
                )

    def __repr__(self) -> str:
        size = megabytes(sum(value.nbytes for value in self.params.values()))
        return (
            f"Graph({len(self.nodes)} nodes from {_listed(self.inputs)} to {_listed(self.outputs)}, "
            f"{len(self.params)} parameters of {size})"
        )

    @cached_property
    def by_name(self) -> Mapping[str, Node]:
        """Nodes by name."""
        return {node.name: node for node in self.nodes}

    @property
    def names(self) -> frozenset[str]:
        """The names of all nodes, inputs and parameters."""
        return frozenset((*self.by_name, *self.inputs, *self.params))

    @cached_property
    def consumers(self) -> Mapping[Tensor, tuple[Node, ...]]:
        """The nodes that read each tensor, once for each time they read it; graph outputs do not count."""
        readers: dict[Tensor, list[Node]] = {}
        for node in self.nodes:
            for tensor in node.inputs:
                readers.setdefault(tensor, []).append(node)
        return {tensor: tuple(nodes) for tensor, nodes in readers.items()}

    @cached_property
    def input_dependent(self) -> frozenset[str]:
        """The network's inputs and the names of all nodes whose results follow from them."""
        names = set(self.inputs)
        for node in self.nodes:
            if any(tensor.node in names for tensor in node.inputs):
                names.add(node.name)
        return frozenset(names)

    def producer(self, tensor: Tensor) -> Optional[Node]:
        """The node that computes ``tensor``; None for network inputs and parameters."""
        return self.by_name.get(tensor.node)

    def sole_consumer(self, tensor: Tensor) -> Optional[Node]:
        """The only node that reads ``tensor``; None if several do, or if it is an output of the network."""
        readers = self.consumers.get(tensor, ())
        return readers[0] if len(readers) == 1 and tensor not in self.outputs else None

    def pruned(self) -> Graph:
        """The same network without the nodes and parameters that no output needs (inputs stay)."""
        needed = {tensor.node for tensor in self.outputs}
        kept: list[Node] = []
        for node in reversed(self.nodes):
            if node.name in needed:
                kept.append(node)
                needed.update(tensor.node for tensor in node.inputs)
        params = {name: value for name, value in self.params.items() if name in needed}
        return Graph(tuple(reversed(kept)), self.inputs, self.outputs, params)

    def with_outputs(self, outputs: Iterable[Tensor]) -> Graph:
        """The same network with other tensors as its outputs."""
        return replace(self, outputs=tuple(outputs))


def _listed(tensors: Sequence[Union[Tensor, str]]) -> str:
    shown = ", ".join(map(str, tensors[:_MOST_SHOWN])) or "nothing"
    return shown if len(tensors) <= _MOST_SHOWN else f"{shown}, ... ({len(tensors)} in all)"
