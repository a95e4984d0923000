"""Networks of sequences, whatever their own layout, with batches first."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest

import quantkit
from quantkit.backends.mxnet.execute import run
from quantkit.backends.mxnet.symbols import symbol_of
from quantkit.errors import ModelError
from quantkit.ir.graph import Graph, Node, Tensor
from tests.sequences import (
    FEATURES,
    STEPS,
    TOKENS,
    Layout,
    Merged,
    expected_scores,
    sequence_network,
    sequences,
)

pytestmark = pytest.mark.usefixtures("engine")

LAYOUTS: tuple[Layout, ...] = get_args(Layout)


def load(graph: Graph, layout: str | None, **options: Any) -> quantkit.Model:
    shape = (STEPS,) if "table" in graph.params else (STEPS, FEATURES)
    return quantkit.load_model(symbol_of(graph), params=graph.params, input_shape=shape, layout=layout, **options)


def computed(model: quantkit.Model, data: np.ndarray) -> list[np.ndarray]:
    return run(model.graph, {"data": data.astype(np.float32)})


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("merged", [None, "steps first", "batch first"])
def test_every_layout_computes_the_same_with_batches_first(layout: Layout, merged: Merged) -> None:
    graph = sequence_network(layout, merged=merged)
    model = load(graph, layout)
    data = sequences(3, tokens="C" not in layout)
    (scores,) = computed(model, data)
    np.testing.assert_allclose(scores, expected_scores(graph, data), rtol=0, atol=2e-5)
    assert model.layout == layout.replace("TN", "NT")


def test_a_swap_at_the_beginning_and_the_opposite_one_cancel() -> None:
    """A network that makes (batch, steps) of (steps, batch) first has no swap left."""
    graph = sequence_network("NT")
    swap = Node("first", "SwapAxis", (Tensor("data"),), {"dim1": "1", "dim2": "0"})
    first, *rest = graph.nodes
    embedding = Node(first.name, first.op, (swap.output, *first.inputs[1:]), first.attrs)
    model = load(Graph((swap, embedding, *rest), graph.inputs, graph.outputs, graph.params), "TN")
    assert [node.name for node in model.graph.nodes if node.op == "SwapAxis"] == ["swap", "swap_back"]
    data = sequences(3, tokens=True)
    np.testing.assert_allclose(computed(model, data)[0], expected_scores(graph, data), rtol=0, atol=2e-5)


def test_final_states_begin_with_the_batch() -> None:
    model = load(sequence_network("TN", final_states=True), "TN")
    scores, state, cell = computed(model, sequences(3, tokens=True))
    assert (scores.shape, state.shape, cell.shape) == ((3, STEPS, 11), (3, 2, 8), (3, 2, 8))
    alone = computed(model, sequences(3, tokens=True)[2:])
    np.testing.assert_allclose(alone[1][0], state[2], rtol=0, atol=1e-6)


def test_what_loading_changed_is_told() -> None:
    assert load(sequence_network("NT"), "NT").notes == ()
    (note,) = load(sequence_network("TN"), "TN").notes
    assert note == "reads batches first, as do its outputs; its own layout is TN"


@pytest.mark.parametrize(("own", "said"), [("TN", None), ("TN", "NT"), ("NT", "TN"), ("TNC", None), ("NTC", "TNC")])
def test_samples_never_pass_for_steps(own: Layout, said: Layout | None) -> None:
    with pytest.raises(ModelError, match=r"'lstm' \(RNN\) would take the samples of a batch for steps; say .*layout"):
        load(sequence_network(own), said)


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ("NCT", "layout 'NCT' is unknown; give NTC or NT"),
        ("", "layout '' is unknown"),
        (3, "layout 3 is unknown"),
        ("TNC", r"layout TNC is for inputs of shape \(steps, features\) without the batch, not \(6,\)"),
    ],
)
def test_other_layouts_are_refused(layout: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        load(sequence_network("NT"), layout)


def test_an_output_that_mixes_samples_is_refused() -> None:
    graph = sequence_network("TN")
    mixed = Node("mixed", "mean", graph.outputs, {"axis": "(0, 1)"})
    with pytest.raises(ModelError, match=r"output 'mixed' has the shape .* does not tell the samples apart"):
        load(Graph((*graph.nodes, mixed), graph.inputs, (mixed.output,), graph.params), "TN")


def test_a_fixed_batch_is_refused() -> None:
    graph = sequence_network("TN")
    params = {**graph.params, "one": np.zeros((STEPS, 1, TOKENS), np.float32)}
    fixed = Node("fixed", "elemwise_add", (*graph.outputs, Tensor("one")), {})
    with pytest.raises(ModelError, match=r"does not accept sequences in batches: .*without a fixed batch size"):
        load(Graph((*graph.nodes, fixed), graph.inputs, (fixed.output,), params), "TN")
