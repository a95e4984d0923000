"""A network as it is deployed: with inputs of its own for its states, and for what was one vector until then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Optional

import numpy as np

from quantkit.ir.graph import Graph
from quantkit.ir.handed_states import HandedState, from_zero_states, with_state_inputs, zeros_of
from quantkit.ir.joined_inputs import Shapes, apart, with_inputs_apart, with_inputs_joined


@dataclass(frozen=True)
class DeployedForm:
    """What a deployed network reads.

    Attributes:
        states: those that it hands on from one piece of a sequence to the next.
        joined: the shapes of its inputs where it has several besides its states; empty where it has one.
    """

    states: tuple[HandedState, ...] = ()
    joined: Shapes = field(default_factory=dict)

    def inputs(self, data: str) -> tuple[str, ...]:
        """The names of the inputs; ``data`` is that of the network's only input while it is measured."""
        return (*(self.joined or (data,)), *(state.input for state in self.states))

    def shapes(self, data: str, shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
        """The shapes of the inputs, for a batch of one; ``shape`` is that of ``data``, without the batch."""
        states = {state.input: (1, *state.shape) for state in self.states}
        return {**{name: (1, *each) for name, each in (self.joined or {data: shape}).items()}, **states}

    def network(self, graph: Graph) -> Graph:
        """The network as it is deployed, of the one that is measured."""
        return with_inputs_apart(with_state_inputs(graph, self.states), self.joined)

    def measured(self, graph: Graph, data: str, axes: int) -> Graph:
        """The inverse of ``network``.

        Args:
            graph: the network as it is deployed.
            data: the name of its only input while it is measured.
            axes: how many axes that has, the batch included.

        Raises:
            ModelError: an operator has the name of one that stands for an input.
        """
        return from_zero_states(with_inputs_joined(graph, data, self.joined), axes, self.states)

    def values(
        self, data: str, batch: np.ndarray, states: Optional[Mapping[str, np.ndarray]] = None
    ) -> dict[str, np.ndarray]:
        """What the deployed network reads for a batch of the measured one's input.

        Args:
            data: the name of that input.
            batch: of shape (samples, ...).
            states: by the names of their inputs; None: zero.
        """
        own = apart(batch, self.joined) if self.joined else {data: batch}
        return {**own, **(zeros_of(self.states, len(batch)) if states is None else states)}
