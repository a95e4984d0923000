"""The steps of a sequence, one tensor each, and the sequence that they come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

from quantkit.fusion.rewriting.draft import Draft
from quantkit.ir.graph import Node, Tensor
from quantkit.ir.operators import flag, integer
from quantkit.ir.recurrent_layer import swapped


@dataclass(frozen=True)
class WholeSequence:
    """All steps of a sequence: the operator that takes it apart, and whether the last step comes first."""

    split: Node
    backward: bool

    @property
    def tensor(self) -> Tensor:
        """The sequence."""
        return self.split.inputs[0]

    def axis(self, count: int) -> int:
        """The axis of the steps, of the ``count`` axes of the sequence."""
        return integer(self.split, "axis", 1) % count

    def ordered(self, draft: Draft, name: str, origin: tuple[str, ...]) -> tuple[Node, ...]:
        """The operators that make a sequence of three axes batch first, and put its steps in their order."""
        nodes: list[Node] = []
        tensor = self.tensor
        if self.axis(3) == 0:
            nodes.append(swapped(draft.free_name(f"{name}_batch_first"), tensor, origin))
            tensor = nodes[-1].output
        if self.backward:
            nodes.append(Node(draft.free_name(f"{name}_reversed"), "reverse", (tensor,), {"axis": "1"}, origin))
        return tuple(nodes)


def whole_sequence(draft: Draft, steps: Sequence[Tensor]) -> Optional[WholeSequence]:
    """The sequence of which ``steps`` are all, from the first to the last or the other way round; None for others."""
    split = draft.producer(steps[0])
    if split is None or split.op != "SliceChannel" or not flag(split, "squeeze_axis"):
        return None
    if integer(split, "num_outputs", 1) != len(steps):
        return None
    forward = [Tensor(split.name, place) for place in range(len(steps))]
    given = list(steps)
    return WholeSequence(split, given != forward) if given in (forward, forward[::-1]) else None
