"""Networks whose recurrent layers begin at states that follow from the input, and what they compute by definition."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quantkit.benchmark.suites.suite import Recurrent
from quantkit.benchmark.workloads.recurrent import recurrent_graph
from quantkit.ir.graph import Graph, Tensor
from tests.networks import DATA, Builder
from tests.recurrent import outputs_and_final_states
from tests.sequences import STACK, STEPS

NAMES = ("state", "cell")


def begun_network(form: Recurrent, given: Sequence[str] = NAMES, outputs: Sequence[int] = (0,)) -> Graph:
    """Recurrent layers on (batch, steps, features), whose states are the hyperbolic tangent of sums of the first step.

    Args:
        form: the layers.
        given: which of the states begin so; the others begin at zero.
        outputs: what the network puts out of results, final state and final state of the cells, batch first.
    """
    b = Builder()
    count = form.layers * form.directions
    first = b.op("slice_axis", "first", DATA, axis=1, begin=0, end=1)
    initial = []
    for name in NAMES if form.mode == "lstm" else NAMES[:1]:
        if name not in given:
            initial.append(b.op("_zeros", name, shape=(count, 0, form.hidden)))
            continue
        weight = b.param(f"{name}_weight", b.random.normal(size=(count * form.hidden, form.inputs)))
        sums = b.op("FullyConnected", f"{name}_sums", first, weight, num_hidden=count * form.hidden, no_bias=True)
        bounded = b.op("Activation", f"{name}_bounded", sums, act_type="tanh")
        parts = b.op("Reshape", f"{name}_parts", bounded, shape=(-1, count, form.hidden))
        initial.append(b.op("SwapAxis", name, parts, dim1=0, dim2=1))
    flat = b.param("flat", 2 * recurrent_graph(form).params["rnn_parameters"])
    steps_first = b.op("SwapAxis", "swap", DATA, dim1=0, dim2=1)
    b.op("RNN", "rnn", steps_first, flat, *initial, mode=form.mode, num_layers=form.layers, state_size=form.hidden,
         bidirectional=form.bidirectional, state_outputs=True)  # fmt: skip
    ends = tuple(b.op("SwapAxis", f"out{index}", Tensor("rnn", index), dim1=0, dim2=1) for index in outputs)
    return Graph(tuple(b.nodes), ("data",), ends, b.params)


def states_of(graph: Graph, form: Recurrent, data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The states that a ``begun_network`` begins with, float64 (layers x directions, batch, hidden)."""
    count = form.layers * form.directions

    def state(name: str) -> np.ndarray:
        weight = graph.params.get(f"{name}_weight", np.zeros((count * form.hidden, form.inputs)))
        sums = data[:, 0].astype(np.float64) @ weight.T
        return np.tanh(sums).reshape(len(data), count, form.hidden).swapaxes(0, 1)

    return state("state"), state("cell")


def expected(graph: Graph, form: Recurrent, data: np.ndarray) -> list[np.ndarray]:
    """Results, final state and final state of the cells of a ``begun_network``, batch first."""
    states = states_of(graph, form, data)
    computed = outputs_and_final_states(form, graph.params["flat"], data.swapaxes(0, 1), states)
    return [each.swapaxes(0, 1) for each in computed]


def encoder_and_decoder() -> Graph:
    """An LSTM that begins with the final states of another."""
    b = Builder()
    steps_first = b.op("SwapAxis", "swap", DATA, dim1=0, dim2=1)
    shape = (STACK.layers, 0, STACK.hidden)
    states = [b.op("_zeros", name, shape=shape) for name in NAMES]
    (flat,) = recurrent_graph(STACK).params.values()
    attrs = {"mode": "lstm", "num_layers": STACK.layers, "state_size": STACK.hidden, "state_outputs": True}
    b.op("RNN", "encoder", steps_first, b.param("flat", flat), *states, **attrs)
    b.op("RNN", "decoder", steps_first, Tensor("flat"), Tensor("encoder", 1), Tensor("encoder", 2), **attrs)
    first = b.op("SwapAxis", "back", Tensor("decoder"), dim1=0, dim2=1)
    return b.graph(b.dense("dense", b.op("Flatten", "flat_steps", first), STEPS * STACK.hidden, 3))
