"""Exclusions where a rewrite made several operators of one, or added some."""

from __future__ import annotations

import pytest

from quantkit.errors import UserError
from quantkit.fusion.fuse import fuse
from quantkit.models.batch_first import with_batch_first_input
from quantkit.quantization.exclude import excluded_nodes
from tests.cells import block, stacked, traced
from tests.sequences import FEATURES, STEPS, sequence_network

pytestmark = pytest.mark.usefixtures("engine")


@pytest.mark.parametrize("pattern", ["FullyConnected", "dense", "dens[e]"])
def test_all_operators_that_stand_for_a_dense_layer_are_excluded(pattern: str) -> None:
    fused = fuse(sequence_network("NTC"), (STEPS, FEATURES))
    assert set(excluded_nodes(fused, [pattern])) == {"dense_rows", "dense_dense", "dense"}


def test_operators_that_stand_for_none_are_excluded_by_their_own_name() -> None:
    graph = with_batch_first_input(sequence_network("TN"), "data")
    added = next(node for node in graph.nodes if not node.origin)
    fused = fuse(graph, (STEPS,))
    assert added.name in fused.graph.by_name
    assert added.name not in excluded_nodes(fused, ["RNN"])
    assert added.name in excluded_nodes(fused, [added.name])


@pytest.mark.parametrize("pattern", ["RNN", "LSTM", "lstm"])
def test_recurrent_layers_are_excluded_by_the_name_of_reports(pattern: str) -> None:
    fused = fuse(sequence_network("NTC"), (STEPS, FEATURES))
    assert {"lstm_fused_0", "lstm_fused"} <= set(excluded_nodes(fused, [pattern]))


@pytest.mark.parametrize("pattern", ["LSTM", "FullyConnected", "cell_t2_i2h", "cell_*"])
def test_layers_of_unrolled_cells_are_excluded_by_their_operators_or_as_layers(pattern: str) -> None:
    fused = fuse(traced(block(stacked("lstm", 1))), (STEPS, FEATURES))
    assert set(excluded_nodes(fused, [pattern])) == {node.name for node in fused.graph.nodes}


def test_layers_of_another_kind_are_not_excluded() -> None:
    fused = fuse(sequence_network("NTC"), (STEPS, FEATURES))
    with pytest.raises(UserError, match="'GRU' matches no node or operator type"):
        excluded_nodes(fused, ["GRU"])
