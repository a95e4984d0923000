"""Recurrent cells, unrolled over the steps of a sequence, as one recurrent layer, batch first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice, pairwise
from typing import Optional, Union

from quantkit.fusion.rewriting.draft import Draft
from quantkit.fusion.rewriting.rule import Match, Rejection, Replacement, Rule, Shapes
from quantkit.fusion.rules.cell_step import Step, is_read_beyond, step_of
from quantkit.fusion.rules.initial_states import batch_first_states, states_obstacle
from quantkit.fusion.rules.step_sequences import WholeSequence, whole_sequence
from quantkit.ir.graph import Node, Tensor
from quantkit.ir.operators import integer
from quantkit.ir.recurrent_layer import Matrices, RecurrentLayer, final_cell, fused_recurrent, part_names

NAME = "steps of a recurrent cell as one layer"

# A state that more operators read is not followed further.
_MOST_READERS = 64

Origin = tuple[str, ...]


def _as_layer(draft: Draft, node: Node, shapes: Shapes) -> Match:
    last = step_of(draft, node)
    if last is None or _following(draft, last, draft.readers(node.output)) or _before(draft, last) is None:
        return None
    steps = _steps_to(draft, last)
    if isinstance(steps, str):
        return Rejection(NAME, node.name, steps)
    matrices = _matrices(draft, last)
    if matrices is None:
        return Rejection(NAME, node.name, "its weights are computed, not constant")
    data = _sequences(draft, [step.tensors["data"] for step in steps], shapes)
    if not data:
        return Rejection(NAME, node.name, "its steps do not read those of one sequence, one after the other")
    if obstacle := states_obstacle(draft, steps[0].states):
        return Rejection(NAME, node.name, obstacle)
    name = draft.free_name(f"{node.name}_layer")
    if any(draft.free_name(part) != part for part in part_names(name)):
        return Rejection(NAME, node.name, "other operators have the names of its parts")
    return _replacement(draft, steps, data, matrices, name)


def _steps_to(draft: Draft, last: Step) -> Union[Sequence[Step], str]:
    """The steps that end with ``last``, from the first on, or why they cannot be one layer.

    The search ends at the first obstacle, so that steps before a fork are not gone through again for each branch.
    """
    steps: list[Step] = [last]
    shown = last.shown(draft)
    while shown is None and (step := _before(draft, steps[-1])) is not None:
        shown = step.shown(draft, steps[-1])
        readers = tuple(islice(draft.readers(step.next_states[0]), _MOST_READERS + 1))
        if len(readers) > _MOST_READERS or _following(draft, step, readers) > 1:
            return f"several steps follow {step.next_states[0]}, or more than {_MOST_READERS} operators read it"
        steps.append(step)
    return steps[::-1] if shown is None else f"{shown}, a tensor inside of its steps, is read elsewhere, too"


def _before(draft: Draft, step: Step) -> Optional[Step]:
    """The step of the same cell that ends with the states that ``step`` begins with."""
    before = step_of(draft, draft.producer(step.states[0]))
    if before is None or (before.mode, before.parameters) != (step.mode, step.parameters):
        return None
    return before if before.next_states == step.states else None


def _following(draft: Draft, step: Step, readers: Iterable[str]) -> int:
    """How many dense layers among ``readers`` read the step's state, with the weights of the cell."""
    wanted = (step.next_states[0], step.tensors["state_weight"])
    nodes = map(draft.node, readers)
    return sum(node is not None and node.op == "FullyConnected" and node.inputs[:2] == wanted for node in nodes)


def _matrices(draft: Draft, step: Step) -> Optional[Matrices]:
    values = [draft.params.get(tensor.node) for tensor in step.parameters]
    known = [value for value in values if value is not None]
    return Matrices(*known) if len(known) == len(values) else None


def _sequences(draft: Draft, data: Sequence[Tensor], shapes: Shapes) -> tuple[WholeSequence, ...]:
    """The sequence of vectors whose steps are ``data``, or the two whose vectors they join; nothing for others."""
    sides: Sequence[Sequence[Tensor]] = [data]
    joined = [node for tensor in data if (node := draft.producer(tensor)) is not None and _joins_two(node)]
    if len(joined) == len(data):
        sides = [[node.inputs[side] for node in joined] for side in (0, 1)]
    wholes = [whole_sequence(draft, side) for side in sides]
    known = [
        whole
        for whole in wholes
        if whole is not None and len(shapes[whole.split.output]) == 2 and whole.axis(3) in (0, 1)
    ]
    return tuple(known) if len(known) == len(wholes) else ()


def _joins_two(node: Node) -> bool:
    return node.op == "Concat" and len(node.inputs) == 2 and integer(node, "dim", 1) in (1, -1)


def _replacement(
    draft: Draft, steps: Sequence[Step], sequences: Sequence[WholeSequence], matrices: Matrices, name: str
) -> Replacement:
    """The layer, and what its readers read of it: the last step alone, or all steps and the cells' final state."""
    first, last = steps[0], steps[-1]
    origin = _origin(draft, steps)
    data = _data(draft, sequences, name, origin)
    states = batch_first_states(draft, name, first.states, origin, _as_state)
    stored = draft.free_name(f"{name}_parameters")
    attrs = {"mode": last.mode, "num_layers": "1", "state_size": str(matrices.of_state.shape[1])}
    reads_cell = any(is_read_beyond(draft, state, last.reads[state]) for state in last.next_states[1:])
    rnn = Node(name, "RNN", (), attrs, origin)
    tensor = data[-1].output if data else sequences[0].tensor
    layer = fused_recurrent(name, rnn, tensor, Tensor(stored), states.tensors, reads_cell)
    nodes: tuple[Node, ...] = (*data, *states.nodes, layer)
    params = {stored: matrices.flat}
    if not reads_cell and not _shows_states(draft, steps):
        one = {"axis": "1", "begin": str(len(steps) - 1), "end": str(len(steps))}
        end = Node(draft.free_name(f"{name}_last"), "slice_axis", (layer.output,), one, origin)
        return Replacement((*nodes, end, _without_steps(last.next_states[0].node, end.output, origin)), params)
    # The states of all steps come where that of the first one was, before all that reads them.
    apart = first.next_states[0].node
    moved = {step.next_states[0]: Tensor(apart, place) for place, step in enumerate(steps) if place}
    if reads_cell:
        cell = final_cell(draft.free_name(f"{name}_final_cell"), RecurrentLayer(layer))
        ended = _without_steps(draft.free_name(f"{name}_cell"), cell.output, origin)
        nodes, moved = (*nodes, cell, ended), {**moved, last.next_states[1]: ended.output}
    split = {"num_outputs": str(len(steps)), "axis": "1", "squeeze_axis": "True"}
    return Replacement((*nodes, Node(apart, "SliceChannel", (layer.output,), split, origin)), params, moved)


def _shows_states(draft: Draft, steps: Sequence[Step]) -> bool:
    """Whether something besides the next steps reads the state of a step before the last."""
    pairs = ((step.next_states[0], after) for step, after in pairwise(steps))
    return any(is_read_beyond(draft, state, after.reads[state]) for state, after in pairs)


def _origin(draft: Draft, steps: Sequence[Step]) -> Origin:
    """The names of all operators of the steps, in the network's order."""
    nodes = sorted((node for step in steps for node in step.nodes), key=draft.place)
    return tuple(name for node in nodes for name in node.origin)


def _data(draft: Draft, sequences: Sequence[WholeSequence], name: str, origin: Origin) -> tuple[Node, ...]:
    """The operators that make one sequence, batch first and in the order of the steps."""
    if len(sequences) == 1:
        return sequences[0].ordered(draft, name, origin)
    sides = [whole.ordered(draft, f"{name}_side{number}", origin) for number, whole in enumerate(sequences)]
    inputs = tuple(nodes[-1].output if nodes else whole.tensor for nodes, whole in zip(sides, sequences))
    joined = Node(draft.free_name(f"{name}_data"), "Concat", inputs, {"dim": "2", "num_args": "2"}, origin)
    return (*sides[0], *sides[1], joined)


def _as_state(name: str, state: Tensor, origin: Origin) -> Node:
    """A state of shape (batch, hidden) as that of one layer."""
    return Node(name, "Reshape", (state,), {"shape": "(0, 1, -1)"}, origin)


def _without_steps(name: str, tensor: Tensor, origin: Origin) -> Node:
    return Node(name, "Reshape", (tensor,), {"shape": "(0, -1)"}, origin)


RECURRENT_CELLS = Rule(NAME, _as_layer)
