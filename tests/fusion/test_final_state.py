"""Recurrent layers whose final states are read, against the definition of each layer."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.benchmark.suites.suite import Recurrent
from quantkit.benchmark.workloads.recurrent import recurrent_graph
from quantkit.fusion.float_symbol import float_graph
from quantkit.fusion.fuse import Fused, fuse
from quantkit.ir.graph import Graph, Tensor
from quantkit.ir.recurrent_layer import RECURRENT, RecurrentLayer
from tests import recurrent
from tests.networks import DATA, Builder

STEPS, FEATURES, HIDDEN = 4, 3, 5

pytestmark = pytest.mark.usefixtures("engine")


def stack(mode: str, layers: int, both: bool) -> Recurrent:
    return Recurrent(mode=mode, layers=layers, bidirectional=both, steps=STEPS, inputs=FEATURES, hidden=HIDDEN)  # type: ignore[arg-type]


def network(form: Recurrent, outputs: tuple[int, ...]) -> Graph:
    """Recurrent layers on data of shape (batch, steps, features); outputs are batch first, too."""
    b = Builder()
    count = form.layers * form.directions
    names = ("state", "cell") if form.mode == "lstm" else ("state",)
    states = [b.op("_zeros", name, shape=(count, 0, HIDDEN)) for name in names]
    (flat,) = recurrent_graph(form).params.values()
    swapped = b.op("SwapAxis", "swap", DATA, dim1=0, dim2=1)
    rnn = b.op("RNN", "rnn", swapped, b.param("flat", flat), *states, mode=form.mode, num_layers=form.layers,
               state_size=HIDDEN, bidirectional=form.bidirectional, state_outputs=True)  # fmt: skip
    ends = tuple(b.op("SwapAxis", f"out{index}", Tensor(rnn.node, index), dim1=0, dim2=1) for index in outputs)
    return Graph(tuple(b.nodes), ("data",), ends, b.params)


def reasons(fused: Fused) -> list[str]:
    return [rejection.reason for rejection in fused.rejected]


LSTM_OUTPUTS = [(0, 2), (2,), (2, 0, 1)]


@pytest.mark.parametrize("both", [False, True], ids=["forward", "bidirectional"])
@pytest.mark.parametrize(
    ("mode", "layers", "outputs"),
    [
        *(each for each in product(("lstm",), (1, 3), [(0, 1), (1,), (1, 0), *LSTM_OUTPUTS])),
        *(each for each in product(("gru", "rnn_relu"), (1,), [(0, 1), (1,)])),
    ],
)
def test_final_states_are_those_of_the_definition(mode: str, layers: int, both: bool, outputs: tuple[int, ...]) -> None:
    form = stack(mode, layers, both)
    data = np.random.default_rng(0).normal(size=(2, STEPS, FEATURES)).astype(np.float32)
    fused = fuse(network(form, outputs), (STEPS, FEATURES))
    operators = [node.op for node in fused.graph.nodes]
    assert "RNN" not in operators and "SwapAxis" not in operators
    assert operators.count(RECURRENT) == (layers * (1 + both) if mode == "lstm" else 1)
    assert all("rnn" in node.origin for node in fused.graph.nodes)
    (flat,) = recurrent_graph(form).params.values()
    wanted = recurrent.outputs_and_final_states(form, flat, data.transpose(1, 0, 2))
    for index, result in zip(outputs, run(float_graph(fused.graph), {"data": data})):
        np.testing.assert_allclose(result, wanted[index].swapaxes(0, 1), rtol=1e-5, atol=1e-6)


def test_the_state_of_cells_is_put_out_where_it_is_read_alone() -> None:
    form = stack("lstm", 1, both=False)
    graphs = [fuse(network(form, outputs), (STEPS, FEATURES)).graph for outputs in ((0, 1), (0, 2))]
    layers = [RecurrentLayer(node) for graph in graphs for node in graph.nodes if node.op == RECURRENT]
    assert [layer.puts_out_cell for layer in layers] == [False, True]


def test_other_layers_after_each_other_stay_together() -> None:
    fused = fuse(network(stack("gru", 2, False), (0, 1)), (STEPS, FEATURES))
    assert RECURRENT not in [node.op for node in fused.graph.nodes]
    assert "its final states are read" in reasons(fused)
