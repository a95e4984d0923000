"""A graph while it is built: its operators and constants so far."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from quantkit.ir.graph import Node, Tensor
from quantkit.ir.names import Names


@dataclass
class GraphDraft:
    """The operators so far, and parameters that are added beside those of the network.

    ``names`` reserves all names. ``reasons`` says, by their names, why added parameters are not trained.
    """

    names: Names
    nodes: list[Node] = field(default_factory=list)
    params: dict[str, np.ndarray] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    shared: dict[str, Tensor] = field(default_factory=dict)

    def add(self, node: Node) -> Tensor:
        """Add an operator whose name is free, or reserved for it."""
        self.nodes.append(node)
        return node.output

    def op(self, wanted: str, op: str, *inputs: Tensor, **attrs: object) -> Tensor:
        """Add an operator under the name ``wanted``, or a free one like it."""
        return self.add(Node(self.names.take(wanted), op, inputs, {key: str(value) for key, value in attrs.items()}))

    def name_last(self, name: str) -> Tensor:
        """Give the last operator, which nothing reads yet, a name that is reserved for it."""
        return self.add(replace(self.nodes.pop(), name=name))

    def add_constant(self, wanted: str, value: np.ndarray, reason: str) -> Tensor:
        """Add a parameter that is not trained for a reason."""
        name = self.names.take(wanted)
        self.params[name], self.reasons[name] = value, reason
        return Tensor(name)

    def shared_constant(self, wanted: str, value: np.ndarray, reason: str) -> Tensor:
        """The parameter of this name, added when it is first asked for."""
        if wanted not in self.shared:
            self.shared[wanted] = self.add_constant(wanted, value, reason)
        return self.shared[wanted]
