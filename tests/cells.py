"""Gluon's recurrent cells, unrolled over the steps of sequences as hybrid blocks do."""

from __future__ import annotations

from typing import Any, Literal, Optional

import numpy as np

import quantkit
from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.ir.graph import Graph
from tests.sequences import FEATURES, STEPS

HIDDEN = 4
MODES = ("lstm", "gru", "rnn_tanh", "rnn_relu")

Reads = Literal["all", "last", "states", "final", "final cell"]


def cell(mode: str, inputs: int, hidden: int = HIDDEN, prefix: Optional[str] = None) -> Any:
    """A cell of Gluon that computes what MXNet's ``RNN`` does in this mode."""
    rnn = load_mxnet().gluon.rnn
    if mode == "lstm":
        return rnn.LSTMCell(hidden, input_size=inputs, prefix=prefix)
    if mode == "gru":
        return rnn.GRUCell(hidden, input_size=inputs, prefix=prefix)
    return rnn.RNNCell(hidden, activation=mode.removeprefix("rnn_"), input_size=inputs, prefix=prefix)


def stacked(mode: str, layers: int, both: bool = False) -> Any:
    """Layers of cells after each other, with dropout between them, in one direction or both; one is ``cell_...``."""
    rnn = load_mxnet().gluon.rnn
    if layers == 1 and not both:
        return cell(mode, FEATURES, prefix="cell_")
    whole = rnn.HybridSequentialRNNCell()
    for number in range(layers):
        inputs = FEATURES if number == 0 else HIDDEN * (1 + both)
        if number:
            whole.add(rnn.DropoutCell(0.3))
        one = cell(mode, inputs)
        whole.add(rnn.BidirectionalCell(one, cell(mode, inputs)) if both else one)
    return whole


def block(cells: Any, layout: str = "NTC", reads: Reads = "all", classes: int = 0) -> Any:
    """A block with random weights that unrolls cells, and scores ``classes`` at each step or at the last one."""
    mx = load_mxnet()

    class Unrolled(mx.gluon.HybridBlock):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            with self.name_scope():
                self.cells = cells
                self.scores = mx.gluon.nn.Dense(classes, flatten=False, in_units=HIDDEN) if classes else None

        def hybrid_forward(self, symbol: Any, data: Any) -> Any:
            results, states = self.cells.unroll(STEPS, data, layout=layout, merge_outputs=reads in ("all", "states"))
            if reads == "final cell":
                return states[-1]
            if reads == "final":
                return tuple(states)
            result = results[-1] if reads == "last" else results
            result = result if self.scores is None else self.scores(result)
            return (result, *states) if reads == "states" else result

    return initialized(Unrolled())


def initialized(network: Any) -> Any:
    """The block with random values in all its parameters, biases among them."""
    mx, random = load_mxnet(), np.random.default_rng(3)
    network.initialize()
    for parameter in network.collect_params().values():
        parameter.set_data(mx.nd.array(random.normal(scale=0.5, size=parameter.shape)))
    return network


def traced(network: Any, layout: str = "NTC", shape: tuple[int, ...] = (STEPS, FEATURES)) -> Graph:
    """The network that a block is loaded as."""
    return quantkit.load_model(network, input_shape=shape, layout=layout, quiet=True).graph
