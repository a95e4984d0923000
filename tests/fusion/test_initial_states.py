"""Recurrent layers that begin at given states, against the definition of each layer."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.benchmark.suites.suite import Recurrent
from quantkit.errors import EngineError
from quantkit.formats.mxnet import nnvm
from quantkit.fusion.float_symbol import float_graph, fused_graph
from quantkit.fusion.fuse import fuse
from quantkit.ir.graph import Graph
from quantkit.ir.recurrent_layer import RECURRENT, recurrent_layer_of
from tests.initial_states import NAMES, begun_network, encoder_and_decoder, expected
from tests.sequences import FEATURES, STEPS, sequences

pytestmark = pytest.mark.usefixtures("engine")

LSTMS = product(("lstm",), (1, 3), (False, True), (NAMES, ("state",), ("cell",)), ((0,), (2, 0), (0, 1, 2)))
OTHERS = product(("gru", "rnn_tanh"), (1, 3), (False, True), (("state",),), ((0,),))


def stack(mode: str, layers: int, both: bool) -> Recurrent:
    return Recurrent(mode=mode, layers=layers, bidirectional=both, steps=STEPS, inputs=FEATURES, hidden=4)  # type: ignore[arg-type]


def operators(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


@pytest.mark.parametrize(("mode", "layers", "both", "given", "outputs"), [*LSTMS, *OTHERS])
def test_layers_begin_at_the_states_that_are_given(
    mode: str, layers: int, both: bool, given: tuple[str, ...], outputs: tuple[int, ...]
) -> None:
    form = stack(mode, layers, both)
    graph = begun_network(form, given, outputs)
    fused = fuse(graph, (STEPS, FEATURES)).graph
    assert "RNN" not in operators(fused) and "SwapAxis" not in operators(fused)
    assert operators(fused).count(RECURRENT) == (layers * (1 + both) if mode == "lstm" else 1)
    for count in (1, 3):
        data = sequences(count, tokens=False)
        wanted = expected(graph, form, data)
        for index, result in zip(outputs, run(float_graph(fused), {"data": data})):
            np.testing.assert_allclose(result, wanted[index], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("both", [False, True], ids=["forward", "bidirectional"])
def test_the_engines_form_leads_back_to_layers_with_states(both: bool) -> None:
    fused = fuse(begun_network(stack("lstm", 2, both), NAMES, (0, 1, 2)), (STEPS, FEATURES)).graph
    floats = float_graph(fused)
    again = fused_graph(floats)
    assert [(node.name, node.op, node.inputs, node.attrs) for node in again.nodes] == [
        (node.name, node.op, node.inputs, node.attrs) for node in fused.nodes
    ]
    assert nnvm.serialize(float_graph(again)) == nnvm.serialize(floats)


def test_final_states_are_handed_to_the_next_layers_without_exchanges_of_axes() -> None:
    graph, data = encoder_and_decoder(), sequences(3, tokens=False)
    fused = fuse(graph, (STEPS, FEATURES)).graph
    assert {"RNN", "SwapAxis"}.isdisjoint(operators(fused))
    layers = [layer for node in fused.nodes if (layer := recurrent_layer_of(node)) is not None]
    assert [len(layer.states) for layer in layers] == [0, 0, 2, 2]
    assert [layer.puts_out_cell for layer in layers] == [True, True, False, False]
    for expected_values, values in zip(run(graph, {"data": data}), run(float_graph(fused), {"data": data})):
        np.testing.assert_allclose(values, expected_values, rtol=1e-5, atol=1e-6)


def test_states_that_do_not_fit_are_refused() -> None:
    graph = begun_network(stack("lstm", 1, both=False))
    nodes = tuple(
        replace(node, attrs={"shape": "(-1, 2, 2)"}) if node.name == "cell_parts" else node for node in graph.nodes
    )
    with pytest.raises(EngineError, match="rnn"):
        fuse(replace(graph, nodes=nodes), (STEPS, FEATURES))
