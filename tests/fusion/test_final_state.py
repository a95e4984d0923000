"""Recurrent layers whose final state is read, against the definition of each layer."""

from __future__ import annotations

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.benchmark.suites.suite import Recurrent
from quantkit.benchmark.workloads.recurrent import recurrent_graph
from quantkit.fusion.float_symbol import float_graph
from quantkit.fusion.fuse import Fused, fuse
from quantkit.ir.graph import Graph, Tensor
from quantkit.ir.recurrent_layer import RECURRENT
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


@pytest.mark.parametrize("both", [False, True], ids=["forward", "bidirectional"])
@pytest.mark.parametrize(("mode", "layers"), [("lstm", 1), ("lstm", 3), ("gru", 1), ("rnn_relu", 1)])
@pytest.mark.parametrize("outputs", [(0, 1), (1,), (1, 0)])
def test_the_final_state_is_that_of_the_definition(
    mode: str, layers: int, both: bool, outputs: tuple[int, ...]
) -> None:
    form = stack(mode, layers, both)
    data = np.random.default_rng(0).normal(size=(2, STEPS, FEATURES)).astype(np.float32)
    fused = fuse(network(form, outputs), (STEPS, FEATURES))
    operators = [node.op for node in fused.graph.nodes]
    assert "RNN" not in operators and "SwapAxis" not in operators
    assert operators.count(RECURRENT) == (layers * (1 + both) if mode == "lstm" else 1)
    assert all("rnn" in node.origin for node in fused.graph.nodes)
    (flat,) = recurrent_graph(form).params.values()
    wanted = recurrent.outputs_and_final_state(form, flat, data.transpose(1, 0, 2))
    for index, result in zip(outputs, run(float_graph(fused.graph), {"data": data})):
        np.testing.assert_allclose(result, wanted[index].swapaxes(0, 1), rtol=1e-5, atol=1e-6)


def test_other_layers_after_each_other_stay_together() -> None:
    fused = fuse(network(stack("gru", 2, False), (0, 1)), (STEPS, FEATURES))
    assert RECURRENT not in [node.op for node in fused.graph.nodes]
    assert "its final states are read" in reasons(fused)


def test_the_final_state_of_cells_keeps_a_layer_as_it_is() -> None:
    fused = fuse(network(stack("lstm", 1, False), (0, 1, 2)), (STEPS, FEATURES))
    assert RECURRENT not in [node.op for node in fused.graph.nodes]
    assert "the final state of its cells is read" in reasons(fused)
