"""Rounded embedding tables, against the nearest integers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Optional

import numpy as np
import pytest

from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.recurrent_layer import known_matrices
from quantkit.progress import silent
from quantkit.quantization.algorithms import embedding_rounding
from quantkit.quantization.algorithms.apply import apply_algorithms
from quantkit.quantization.algorithms.embedding_rounding import with_rounded_embeddings
from quantkit.quantization.ptq_config import PTQConfig
from quantkit.quantization.quantized_graph import QuantizedGraph
from tests.quantization.recurrent_networks import quantized
from tests.sequences import sequence_network, sequences

DATA = sequences(8, tokens=True).astype(np.float32)


def network(monkeypatch: pytest.MonkeyPatch, graph: Optional[Graph] = None) -> QuantizedGraph:
    return quantized(monkeypatch, sequence_network("NT") if graph is None else graph, DATA)[1]


def table(of: QuantizedGraph) -> np.ndarray:
    return of.graph.params["table"]


@pytest.mark.parametrize("rows", [4, 4096])
def test_gates_change_less_than_with_the_nearest_integers(
    rows: int, engine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding_rounding, "_ROWS", rows)
    before = network(monkeypatch)
    (lstm, _), after = before.int8_lstms, with_rounded_embeddings(before)
    step = np.float32(before.form(lstm.data).params.scale)
    integers = table(after) / step
    np.testing.assert_allclose(integers, np.rint(integers), atol=1e-4)
    assert np.abs(integers).max() <= 127.001
    nearest = np.rint(table(before) / step).clip(-127, 127) * step
    assert not np.array_equal(table(after), nearest)
    of_input = known_matrices(before.graph, lstm).of_input
    errors = [float(np.square((each - table(before)) @ of_input.T).sum()) for each in (table(after), nearest)]
    # Five features leave little to make up for.
    assert errors[0] < 0.95 * errors[1]


def test_other_parameters_stay(engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    before = network(monkeypatch)
    after = with_rounded_embeddings(before)
    assert {name for name, value in after.graph.params.items() if value is not before.graph.params[name]} == {"table"}


def _shown(graph: Graph) -> Graph:
    return replace(graph, outputs=(*graph.outputs, Tensor("embedding")))


def _read_by_another(graph: Graph) -> Graph:
    other = Node("other", "tanh", (Tensor("embedding"),))
    return replace(graph, nodes=(*graph.nodes, other), outputs=(*graph.outputs, other.output))


def _tied(graph: Graph) -> Graph:
    other = Node("other", "tanh", (Tensor("table"),))
    return replace(graph, nodes=(*graph.nodes, other), outputs=(*graph.outputs, other.output))


def _positive(graph: Graph) -> Graph:
    return replace(graph, params={**graph.params, "table": np.abs(graph.params["table"])})


@pytest.mark.parametrize("change", [_shown, _read_by_another, _tied, _positive])
def test_tables_that_have_to_stay(
    change: Callable[[Graph], Graph], engine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = network(monkeypatch, change(sequence_network("NT")))
    assert len(before.int8_lstms) == 2
    assert table(with_rounded_embeddings(before)) is table(before)


@pytest.mark.parametrize("rounding", [False, True])
def test_tables_are_rounded_where_weights_are(rounding: bool, engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    fused, before = quantized(monkeypatch, sequence_network("NT"), DATA)
    algorithms = PTQConfig(rounding=rounding, bias=True)
    adjusted = apply_algorithms(before, fused.original, [DATA], "minmax", algorithms, silent)
    assert np.array_equal(table(adjusted.network), table(before)) != rounding
    np.testing.assert_array_equal(adjusted.exact.params["table"], table(before))
