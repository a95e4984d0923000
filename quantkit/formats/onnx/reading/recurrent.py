"""Recurrent layers: LSTM, GRU and RNN as MXNet's ``RNN`` of one layer. After the ONNX operator specification.

MXNet's operator reads sequences as (steps, batch, features), one vector of all parameters (the matrices of each
direction, then their biases) and states of shape (directions, batch, units); it puts out (steps, batch, directions x
units) with the directions side by side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from quantkit.formats.onnx.reading.construction import Attr, Construction, Converter, reshaped, transposed
from quantkit.formats.onnx.reading.values import (
    BATCH,
    Computed,
    Constant,
    OnnxNode,
    Refused,
    Shape,
    in_batch,
    shown,
)
from quantkit.formats.repeated import in_memory
from quantkit.ir.graph import Tensor


class OtherBatchAxis(Exception):
    """A layer reads what has the batch where its steps should be: the network's input has both in the other order."""


@dataclass(frozen=True)
class _Kind:
    """An ONNX operator: its activations by the mode of MXNet that has them, and its gates in MXNet's order.

    ``gates`` are positions in ONNX's order: LSTM has input, output, forget, cell there, and input, forget, cell, output
    in MXNet; GRU has update, reset, new there, and reset, update, new in MXNet.
    """

    modes: Mapping[tuple[str, ...], str]
    gates: tuple[int, ...]


_KINDS = {
    "LSTM": _Kind({("sigmoid", "tanh", "tanh"): "lstm"}, (0, 2, 3, 1)),
    "GRU": _Kind({("sigmoid", "tanh"): "gru"}, (1, 0, 2)),
    "RNN": _Kind({("tanh",): "rnn_tanh", ("relu",): "rnn_relu"}, (0,)),
}

_DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}

# By the number of the axis that is the batch in ONNX: the order of axes that puts the steps, or directions, first.
_TO_STEPS_FIRST = (1, 0, 2)

INITIAL_STATES = (5, 6)
"""The positions of the initial state and, of LSTM, the initial cell among the inputs."""

_SEQUENCE_LENGTHS, _PEEPHOLES = 4, 7


def _recurrent(state: Construction, node: OnnxNode) -> None:
    kind, direction = _KINDS[node.op], node.text("direction", "forward")
    if direction not in _DIRECTIONS:
        raise Refused(f"its direction is {direction!r}; ONNX has {', '.join(_DIRECTIONS)}")
    directions, batches_first = _DIRECTIONS[direction], bool(node.integer("layout", 0))
    mode = _mode(node, kind, directions)
    _check_plain(state, node)
    data = _sequences(state, node, batches_first)
    steps, _, features = data.shape
    _check_lengths(state, node, steps)
    units, flat = _parameters(state, node, kind, directions, features)
    carried = INITIAL_STATES[: 2 if mode == "lstm" else 1]
    inner = (directions, BATCH, units)
    states = [_initial(state, node, position, data, inner, batches_first) for position in carried]
    if direction == "reverse":
        data = state.step(node, "reversed", "reverse", [data.tensor], data.shape, axis=(0,))
    attrs: dict[str, Attr] = {"mode": mode, "state_size": units, "num_layers": 1, "p": 0.0}
    if directions == 2:
        attrs["bidirectional"] = True
    if any(node.outputs[1:]):
        attrs["state_outputs"] = True
    layer = state.layer(node, "RNN", [data.tensor, flat, *states], (steps, BATCH, directions * units), **attrs)
    sequences = layer
    if direction == "reverse":
        sequences = state.step(node, "in_order", "reverse", [layer.tensor], layer.shape, axis=(0,))
    if node.outputs[0]:
        _put_out(state, node, 0, _by_direction(state, node, sequences, directions, units, batches_first))
    for position, output in enumerate(node.outputs[1:], 1):
        if output:
            final = Computed(Tensor(layer.tensor.node, position), inner)
            if batches_first:
                final = transposed(state, node, final, _TO_STEPS_FIRST, f"state{position}")
            _put_out(state, node, position, final)


def _mode(node: OnnxNode, kind: _Kind, directions: int) -> str:
    """MXNet's name of the layer's activations."""
    names = node.attributes.get("activations", ())
    if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names):
        raise Refused("its attribute 'activations' is not a list of texts")
    usual = next(iter(kind.modes))
    own = tuple(str(name).lower() for name in names) or usual * directions
    mode = kind.modes.get(own[: len(usual)])
    if mode is None or own != own[: len(usual)] * directions:
        known = " or ".join(", ".join(name.capitalize() for name in names) for names in kind.modes)
        raise Refused(f"its activations are {', '.join(map(str, names))}; the engine has {known} in every direction")
    return mode


def _check_plain(state: Construction, node: OnnxNode) -> None:
    """Refuse the variants that the engine lacks."""
    if node.attributes.get("clip") is not None:
        raise Refused("it clips what goes into its activations, which the engine cannot; train or export it without")
    if node.integer("input_forget", 0):
        raise Refused("it couples its input and forget gates, which the engine cannot; export it with separate gates")
    if node.op == "GRU" and not node.integer("linear_before_reset", 0):
        raise Refused(
            "it resets the state before the matrix product (linear_before_reset=0), and the engine resets the product; "
            "train it in that form, as PyTorch's GRU and Keras' with reset_after=True are"
        )
    peepholes = state.constant(node, _PEEPHOLES)
    if peepholes is not None and np.any(in_memory(peepholes.array)):
        raise Refused("it has peepholes, which the engine lacks; train it without")


def _sequences(state: Construction, node: OnnxNode, batches_first: bool) -> Computed:
    """The input as (steps, batch, features)."""
    data = state.computed(node)
    if len(data.shape) != 3 or sum(map(in_batch, data.shape)) != 1:
        raise Refused(f"it reads {shown(data.shape)}, which is not steps, batch and features")
    if batches_first and data.shape[0] == BATCH:
        return transposed(state, node, data, _TO_STEPS_FIRST, "steps_first")
    if not batches_first and data.shape[0] == BATCH:
        raise OtherBatchAxis
    if batches_first or data.shape[1] != BATCH:
        raise Refused(f"it reads {shown(data.shape)}, where the batch is not the axis that its layout says")
    return data


def _check_lengths(state: Construction, node: OnnxNode, steps: int) -> None:
    lengths = state.value(node, _SEQUENCE_LENGTHS)
    if lengths is not None and (isinstance(lengths, Computed) or not _all_are(steps, lengths.array)):
        raise Refused(
            f"its sequences have lengths of their own, and the engine runs all {steps} steps; "
            "export it for sequences of one length, without sequence_lens"
        )


def _all_are(value: int, array: np.ndarray) -> bool:
    """Whether all values are the same."""
    return bool(np.all(in_memory(array) == value))


def _parameters(state: Construction, node: OnnxNode, kind: _Kind, directions: int, features: int) -> tuple[int, Tensor]:
    """The number of units, and MXNet's vector of all parameters."""
    of_input, of_state, bias = state.weights(node, 1), state.weights(node, 2), state.constant(node, 3)
    units, gates = of_state.shape[-1], len(kind.gates)
    rows = gates * units
    shapes = {"W": (directions, rows, features), "R": (directions, rows, units), "B": (directions, 2 * rows)}
    for (name, shape), value in zip(shapes.items(), (of_input, of_state, bias)):
        if value is not None and value.shape != shape:
            raise Refused(f"its {name} has shape {value.shape} where {shape} is expected for {features} features")
    if node.integer("hidden_size", units) != units:
        raise Refused(f"its hidden_size is {node.integer('hidden_size')}, and its weights are for {units} units")
    state.budget.take(4 * directions * rows * (features + units + 2))
    biases = np.zeros(shapes["B"], np.float32) if bias is None else bias.array
    order = np.arange(rows).reshape(gates, units)[list(kind.gates)].reshape(-1)
    parts = [each.array[direction][order] for direction in range(directions) for each in (of_input, of_state)]
    parts += [half[order] for each in biases for half in np.split(each, 2)]
    flat = np.concatenate([np.asarray(part, np.float32).reshape(-1) for part in parts])
    return units, state.parameter(f"{node.name}_parameters", flat)


def _initial(
    state: Construction, node: OnnxNode, position: int, data: Computed, shape: Shape, batches_first: bool
) -> Tensor:
    """An initial state of shape (directions, batch, units)."""
    what = "state" if position == INITIAL_STATES[0] else "cell"
    value = state.value(node, position)
    wanted = (shape[1], shape[0], shape[2]) if batches_first else shape
    batch = int(not batches_first)
    if isinstance(value, Computed):
        if value.shape != wanted:
            raise Refused(f"its initial {what} has shape {shown(value.shape)} where {shown(wanted)} is expected")
        own = transposed(state, node, value, _TO_STEPS_FIRST, f"initial_{what}") if batches_first else value
        return own.tensor
    if value is not None:
        rows = _same_rows(state, value, wanted, batch, what)
        if np.any(in_memory(rows)):
            # Gluon's states take their batch from the layer, which only zeros can.
            row = state.parameter(value.name, rows)
            first = state.step(node, f"{what}_step", "slice_axis", [data.tensor], (1, BATCH, data.shape[2]), axis=0,
                               begin=0, end=1)  # fmt: skip
            one = state.step(node, f"{what}_feature", "slice_axis", [first.tensor], (1, BATCH, 1), axis=2, begin=0,
                             end=1)  # fmt: skip
            none = state.step(node, f"{what}_zeros", "_mul_scalar", [one.tensor], one.shape, scalar=0.0)
            return state.step(node, f"initial_{what}", "broadcast_add", [none.tensor, row], shape).tensor
    return state.step(node, f"initial_{what}", "_zeros", [], shape, shape=(shape[0], 0, shape[2])).tensor


def _same_rows(state: Construction, value: Constant, wanted: Shape, batch: int, what: str) -> np.ndarray:
    """The initial state of one sequence, of shape (directions, 1, units); it has to be that of all."""
    found = value.shape
    expected = tuple(extent for axis, extent in enumerate(wanted) if axis != batch)
    if len(found) != 3 or tuple(extent for axis, extent in enumerate(found) if axis != batch) != expected:
        raise Refused(f"its initial {what} has shape {shown(found)} where {shown(wanted)} is expected")
    rows = np.moveaxis(value.array, batch, 1)
    first = rows[:, :1]
    if found[batch] not in (BATCH, state.fixed) or np.any(in_memory(rows) != in_memory(first)):
        raise Refused(
            f"its initial {what} of shape {shown(found)} is not the same for every sequence of a batch of any size; "
            "export it with states of zero"
        )
    return first


def _by_direction(
    state: Construction, node: OnnxNode, data: Computed, directions: int, units: int, batches_first: bool
) -> Computed:
    """ONNX's form of the sequences: an axis for the directions, before the batch or, in its other layout, the units."""
    steps = data.shape[0]
    if not batches_first and directions == 1:
        return reshaped(state, node, data, (steps, 1, BATCH, units), "by_direction")
    split = reshaped(state, node, data, (steps, BATCH, directions, units), "by_direction")
    axes = (1, 0, 2, 3) if batches_first else (0, 2, 1, 3)
    return transposed(state, node, split, axes, "directions")


def _put_out(state: Construction, node: OnnxNode, position: int, value: Computed) -> None:
    output = node.outputs[position]
    if output in state.outputs:
        state.part(node, position, "_copy", [value.tensor], value.shape)
    else:
        state.values[output] = value


RECURRENT: Mapping[str, Converter] = dict.fromkeys(_KINDS, _recurrent)
