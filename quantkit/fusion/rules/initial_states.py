"""Initial states of recurrent layers, batch first: (batch, layers x directions, hidden)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Optional

from quantkit.fusion.rewriting.draft import Draft
from quantkit.ir.graph import Node, Tensor
from quantkit.ir.recurrent_layer import RecurrentLayer, swapped

_NAMES = ("state", "cell")


@dataclass(frozen=True)
class InitialStates:
    """Tensors that layers begin with, and the operators that compute them; none of both where the states are zero."""

    nodes: tuple[Node, ...] = ()
    tensors: tuple[Tensor, ...] = ()


def states_obstacle(draft: Draft, states: Sequence[Tensor]) -> Optional[str]:
    """Why a layer with these initial states cannot be batch first."""
    given = (state for state in states if not _is_zero(draft, state))
    return None if all(map(draft.depends_on_input, given)) else "its initial states are constants other than zero"


def initial_states(draft: Draft, rnn: Node) -> InitialStates:
    """The initial states of an ``RNN``, all of them if one is not zero."""
    return batch_first_states(draft, rnn.name, states_of(rnn), rnn.origin, swapped)


def batch_first_states(
    draft: Draft,
    name: str,
    states: Sequence[Tensor],
    origin: tuple[str, ...],
    batch_first: Callable[[str, Tensor, tuple[str, ...]], Node],
) -> InitialStates:
    """The initial states of a layer, all of them if one is not zero.

    Args:
        draft: the network.
        name: of the layer.
        states: what it begins with: the state, and that of the cells of LSTM layers.
        origin: of the operators.
        batch_first: makes the operator, by its name, the tensor and the origin, that brings a state into the form of
            batch-first layers.
    """
    names = [draft.free_name(f"{name}_initial_{what}") for what in _NAMES]
    named = dict(zip(names, states))
    given = [batch_first(each, state, origin) for each, state in named.items() if not _is_zero(draft, state)]
    if not given:
        return InitialStates()
    # Zeros for the same batch.
    like = (given[0].output,)
    zeros = [
        Node(each, "_mul_scalar", like, {"scalar": "0"}, origin)
        for each, state in named.items()
        if _is_zero(draft, state)
    ]
    return InitialStates((*given, *zeros), tuple(map(Tensor, named)))


def states_of_part(draft: Draft, whole: RecurrentLayer, name: str, begin: int, count: int) -> InitialStates:
    """The initial states of some of a layer's layers and directions.

    Args:
        draft: the network.
        whole: the layer.
        name: of the part.
        begin: the first of them, counting layers, and directions in each layer.
        count: how many they are.
    """
    slices = tuple(
        Node(
            draft.free_name(f"{name}_initial_{what}"),
            "slice_axis",
            (state,),
            {"axis": "1", "begin": str(begin), "end": str(begin + count)},
            whole.node.origin,
        )
        for what, state in zip(_NAMES, whole.states)
    )
    return InitialStates(slices, tuple(each.output for each in slices))


def states_of(rnn: Node) -> tuple[Tensor, ...]:
    """What an ``RNN`` begins with: the state, and that of the cells of LSTM layers."""
    return rnn.inputs[2:4] if rnn.attrs["mode"] == "lstm" else rnn.inputs[2:3]


def _is_zero(draft: Draft, state: Tensor) -> bool:
    made = draft.producer(state)
    if made is not None:
        return made.op == "_zeros"
    value = draft.params.get(state.node)
    return value is not None and not value.any()
