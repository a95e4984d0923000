"""What of a network learns."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quantkit.errors import UserError
from quantkit.ir.operators import flag
from quantkit.training.trainable import trainable
from tests.training.conftest import tiny

GRAPH = tiny().graph
STATISTICS = {"normal_moving_mean", "normal_moving_var"}


def test_everything_but_moving_statistics_learns() -> None:
    network = trainable(GRAPH, "dense", ())
    assert network.learned == GRAPH.params.keys() - STATISTICS
    assert network.decayed == {"first_weight", "dense_weight"}


def test_the_scores_are_those_before_the_softmax() -> None:
    network = trainable(GRAPH, "dense", ())
    assert str(network.graph.outputs[0]) == "dense"
    logarithms = replace(GRAPH.by_name["probabilities"], op="log_softmax")
    nodes = tuple(logarithms if node.name == logarithms.name else node for node in GRAPH.nodes)
    assert str(trainable(replace(GRAPH, nodes=nodes), "dense", ()).graph.outputs[0]) == "dense"
    without = replace(GRAPH, outputs=(GRAPH.by_name["dense"].output,))
    assert trainable(without, "dense", ()).graph.outputs == without.outputs


def test_a_frozen_body_leaves_the_last_layer_and_fixes_statistics() -> None:
    network = trainable(GRAPH, "dense", ("body",))
    assert network.learned == {"dense_weight", "dense_bias"}
    assert flag(network.graph.by_name["normal"], "use_global_stats")


def test_operators_and_parameters_are_frozen_by_globs() -> None:
    first = trainable(GRAPH, "dense", ("fir*",))
    assert first.learned == GRAPH.params.keys() - STATISTICS - {"first_weight"}
    assert not flag(first.graph.by_name["normal"], "use_global_stats")
    scale = trainable(GRAPH, "dense", ("*_gamma",))
    assert "normal_beta" in scale.learned and "normal_gamma" not in scale.learned
    assert not flag(scale.graph.by_name["normal"], "use_global_stats")
    both = trainable(GRAPH, "dense", ("normal",))
    assert flag(both.graph.by_name["normal"], "use_global_stats")


def test_what_is_not_there_or_leaves_nothing_is_refused() -> None:
    with pytest.raises(UserError, match="nothing to freeze is called 'stage1'"):
        trainable(GRAPH, "dense", ("stage1",))
    with pytest.raises(UserError, match="all parameters are frozen"):
        trainable(GRAPH, "dense", ("*",))
