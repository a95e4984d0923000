"""One step of a recurrent cell, as Gluon's ``LSTMCell``, ``GRUCell`` and ``RNNCell`` compute it.

A cell is a table of formulas. A name in a formula is a tensor: one that another formula of the table computes, or one
that the step reads. All cells read ``of_input`` and ``of_state``, dense layers over the data and the state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Optional, Union

from quantkit.fusion.rewriting.draft import Draft
from quantkit.ir.graph import Node, Tensor
from quantkit.ir.operators import flag, integer


@dataclass(frozen=True)
class _Formula:
    """What an operator computes of its operands; ``output`` is the place of the tensor among its outputs."""

    function: str
    operands: tuple[Union[str, _Formula], ...]
    output: int = 0


def _of(function: str, *operands: Union[str, _Formula]) -> _Formula:
    return _Formula(function, operands)


def _sum(*operands: Union[str, _Formula]) -> _Formula:
    return _Formula("elemwise_add", operands)


def _product(*operands: Union[str, _Formula]) -> _Formula:
    return _Formula("elemwise_mul", operands)


def _part(tensor: str, place: int, count: int) -> _Formula:
    """The rows of one of ``count`` gates."""
    return _Formula(f"{count} parts", (tensor,), place)


_DENSE = {
    "of_input": _of("FullyConnected", "data", "input_weight", "input_bias"),
    "of_state": _of("FullyConnected", "state", "state_weight", "state_bias"),
}
_PARAMETERS = ("input_weight", "state_weight", "input_bias", "state_bias")

# Gates as MXNet's RNN has them: input, forget, new cell, output.
_LSTM = {
    **_DENSE,
    "gates": _sum("of_input", "of_state"),
    "next_cell": _sum(
        _product(_of("sigmoid", _part("gates", 1, 4)), "cell"),
        _product(_of("sigmoid", _part("gates", 0, 4)), _of("tanh", _part("gates", 2, 4))),
    ),
    "next_state": _product(_of("sigmoid", _part("gates", 3, 4)), _of("tanh", "next_cell")),
}

# Reset, update, new state.
_GRU = {
    **_DENSE,
    "reset": _of("sigmoid", _sum(_part("of_input", 0, 3), _part("of_state", 0, 3))),
    "update": _of("sigmoid", _sum(_part("of_input", 1, 3), _part("of_state", 1, 3))),
    "new": _of("tanh", _sum(_part("of_input", 2, 3), _product("reset", _part("of_state", 2, 3)))),
    "next_state": _sum(
        _product(_of("elemwise_sub", _of("ones_like", "update"), "update"), "new"), _product("update", "state")
    ),
}

# By the mode of MXNet's RNN.
_CELLS = {
    "lstm": _LSTM,
    "gru": _GRU,
    "rnn_tanh": {**_DENSE, "next_state": _of("tanh", _sum("of_input", "of_state"))},
    "rnn_relu": {**_DENSE, "next_state": _of("relu", _sum("of_input", "of_state"))},
}
_MODES = {formulas["next_state"].function: mode for mode, formulas in _CELLS.items()}


@dataclass(frozen=True)
class Step:
    """The operators that compute one step, the first of them the next state.

    Attributes:
        mode: of the layer that computes the same, see ``ir.recurrent_layer.GATES``.
        nodes: the operators.
        tensors: by their names in the cell's formulas.
        reads: how often the operators read each tensor.
    """

    mode: str
    nodes: tuple[Node, ...]
    tensors: Mapping[str, Tensor]
    reads: Mapping[Tensor, int]

    @property
    def parameters(self) -> tuple[Tensor, ...]:
        """Weights of data and state, then their biases."""
        return tuple(self.tensors[name] for name in _PARAMETERS)

    @property
    def states(self) -> tuple[Tensor, ...]:
        """What the step begins with: the state, and that of the cells of LSTMs."""
        return tuple(self.tensors[name] for name in ("state", "cell") if name in self.tensors)

    @property
    def next_states(self) -> tuple[Tensor, ...]:
        """What the step ends with."""
        return tuple(self.tensors[name] for name in ("next_state", "next_cell") if name in self.tensors)

    def shown(self, draft: Draft, following: Optional[Step] = None) -> Optional[Tensor]:
        """A tensor inside of the step that something else reads, too; None if there is none.

        The state of the cells is inside where another step is ``following``, and may be read by that.
        """
        own = {node.name for node in self.nodes}
        ends = self.next_states[: 1 if following is not None else None]
        further: Mapping[Tensor, int] = following.reads if following is not None else {}
        for tensor, count in self.reads.items():
            inside = tensor.node in own and tensor not in ends
            if inside and is_read_beyond(draft, tensor, count + further.get(tensor, 0)):
                return tensor
        return None


def step_of(draft: Draft, node: Optional[Node]) -> Optional[Step]:
    """The step whose next state a node computes; None for other nodes."""
    mode = _MODES.get(_function(node)) if node is not None else None
    if node is None or mode is None:
        return None
    matching = _Matching(draft, _CELLS[mode])
    if not matching.fits("next_state", node.output):
        return None
    return Step(mode, tuple(matching.nodes.values()), matching.tensors, matching.reads)


def is_read_beyond(draft: Draft, tensor: Tensor, count: int) -> bool:
    """Whether ``tensor`` is an output of the network, or read more than ``count`` times."""
    return draft.is_output(tensor) or sum(islice(draft.readers(tensor).values(), count + 1)) > count


class _Matching:
    """The operators and tensors of a network that stand for those of formulas, so far."""

    def __init__(self, draft: Draft, formulas: Mapping[str, _Formula]) -> None:
        self.nodes: dict[str, Node] = {}
        self.tensors: dict[str, Tensor] = {}
        self.reads: Counter[Tensor] = Counter()
        self._draft, self._formulas = draft, formulas

    def fits(self, wanted: Union[str, _Formula], tensor: Tensor) -> bool:
        """Whether ``tensor`` is what a formula computes, or the tensor of a name."""
        if isinstance(wanted, _Formula):
            return self._computes(wanted, tensor)
        if wanted in self.tensors:
            return self.tensors[wanted] == tensor
        self.tensors[wanted] = tensor
        return wanted not in self._formulas or self._computes(self._formulas[wanted], tensor)

    def _computes(self, formula: _Formula, tensor: Tensor) -> bool:
        node = self._draft.producer(tensor)
        if node is None or (_function(node), tensor.index) != (formula.function, formula.output):
            return False
        if node.name not in self.nodes:
            self.nodes[node.name] = node
            self.reads.update(node.inputs)
        operands = formula.operands
        return len(node.inputs) == len(operands) and all(map(self.fits, operands, node.inputs))


def _function(node: Node) -> str:
    if node.op == "Activation":
        return node.attrs.get("act_type", "")
    if node.op == "SliceChannel" and integer(node, "axis", 1) in (1, -1) and not flag(node, "squeeze_axis"):
        return f"{integer(node, 'num_outputs', 1)} parts"
    return node.op
