from __future__ import annotations

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.errors import UserError
from quantkit.fusion.float_symbol import float_graph
from quantkit.ir.graph import Graph
from quantkit.lowering.mxnet_int8 import int8_graph
from quantkit.mixed_precision.kept_in_fp32 import KEPT, kept_in_fp32
from quantkit.quantization.quantized_graph import QuantizedGraph
from tests.networks import fire, images, inverted_residual, residual_v1, residual_v2
from tests.quantization.algorithms.networks import planned
from tests.quantized import int8_names

pytestmark = pytest.mark.usefixtures("int8_engine")

NETWORKS = {"v1": residual_v1(True), "v2": residual_v2(), "inverted": inverted_residual()}
DATA = images(6)


@pytest.fixture(params=NETWORKS)
def graph(request: pytest.FixtureRequest) -> Graph:
    return NETWORKS[request.param]


def test_with_every_layer_kept_it_is_the_fp32_network(graph: Graph) -> None:
    fused, plan = planned(graph, DATA)
    layers = int8_names(fused.graph, plan)
    assert layers
    lowered = int8_graph(kept_in_fp32(QuantizedGraph(fused.graph, plan), layers))
    assert not any("quantize" in node.op or node.attrs.get("quantized") for node in lowered.nodes)
    exact = run(float_graph(fused.graph), {"data": DATA})[0]
    np.testing.assert_array_equal(run(lowered, {"data": DATA})[0], exact)


def test_one_layer_changes_its_own_decision_only(graph: Graph) -> None:
    fused, plan = planned(graph, DATA)
    for layer in int8_names(fused.graph, plan):
        mixed = kept_in_fp32(QuantizedGraph(fused.graph, plan), [layer]).plan
        changed = {name for name, decision in mixed.decisions.items() if decision != plan.decisions[name]}
        assert changed == {layer}
        assert (mixed.decisions[layer].precision, mixed.decisions[layer].reason) == ("fp32", KEPT)
        assert mixed.tensors == plan.tensors
        assert np.isfinite(run(int8_graph(QuantizedGraph(fused.graph, mixed)), {"data": DATA})[0]).all()


def test_every_layer_kept_brings_the_output_nearer_in_the_end() -> None:
    fused, plan = planned(residual_v1(True), DATA)
    exact = run(float_graph(fused.graph), {"data": DATA})[0]
    layers = int8_names(fused.graph, plan)
    errors = [
        np.abs(
            run(int8_graph(kept_in_fp32(QuantizedGraph(fused.graph, plan), layers[:count])), {"data": DATA})[0] - exact
        )
        for count in range(len(layers) + 1)
    ]
    assert errors[-1].max() == 0 < errors[0].mean()


def test_what_has_no_weights_goes_along_where_all_it_reads_is_fp32() -> None:
    fused, plan = planned(fire(), DATA)
    parts = ("max_part0", "max_part1")
    assert {plan.decisions[name].precision for name in (*parts, "max")} == {"int8"}
    one = kept_in_fp32(QuantizedGraph(fused.graph, plan), ["left_relu"]).plan.decisions
    two = kept_in_fp32(QuantizedGraph(fused.graph, plan), ["left_relu", "right_relu"]).plan.decisions
    assert [one[name].precision for name in (*parts, "max")] == ["fp32", "int8", "int8"]
    assert {two[name].precision for name in (*parts, "max")} == {"fp32"}
    assert {two[name].reason for name in (*parts, "max")} == {"all that it reads is FP32"}
    assert two["last_relu"].precision == "int8"


def test_only_layers_that_run_in_int8_can_be_kept() -> None:
    fused, plan = planned(residual_v1(), DATA, "conv1")
    for name in ("relu1", "pool", "nothing"):
        with pytest.raises(UserError, match=name):
            kept_in_fp32(QuantizedGraph(fused.graph, plan), [name])
