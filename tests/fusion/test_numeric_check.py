from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from quantkit.errors import FusionError, ModelError
from quantkit.fusion.float_symbol import float_graph
from quantkit.fusion.fuse import fuse
from quantkit.fusion.numeric_check import check_fusion
from quantkit.fusion.rewriting.draft import Draft
from quantkit.fusion.rewriting.rule import why_not_fusible
from quantkit.ir.graph import Graph, Node, Tensor
from tests.networks import DATA, Builder, images, residual_v1, residual_v2

pytestmark = pytest.mark.usefixtures("engine")


@pytest.mark.parametrize("graph", [residual_v1(), residual_v1(True), residual_v2()], ids=["v1", "v1-conv", "v2"])
def test_every_rule_together_passes(graph: Graph) -> None:
    check = check_fusion(graph, float_graph(fuse(graph, (3, 16, 16)).graph), [images()], 4)
    assert check.samples == 4
    assert check.changed_predictions == 0
    assert check.difference <= 1e-5


def test_an_output_that_does_nothing_takes_the_name_of_what_it_reads() -> None:
    b = Builder()
    dropped = b.op("Dropout", "drop", b.conv("conv", DATA, 3, 8), p=0.5)
    graph = b.graph(dropped, b.relu("relu", dropped))
    fused = float_graph(fuse(graph, (3, 16, 16)).graph)
    assert "drop" not in fused.by_name
    assert check_fusion(graph, fused, [images()], 4).difference <= 1e-5


def test_what_stock_mxnet_does_to_preactivation_networks_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the check of readers a fused convolution takes the place of the one that the sum reads."""
    monkeypatch.setattr("quantkit.fusion.rules.batch_norm.why_not_fusible", lambda graph, tensor: None)
    graph = residual_v2()
    fused = fuse(graph, (3, 16, 16)).graph
    rewired = tuple(
        replace(node, inputs=tuple(Tensor("relu1") if tensor == Tensor("conv0") else tensor for tensor in node.inputs))
        if node.name == "add"
        else node
        for node in fused.nodes
    )
    with pytest.raises(FusionError, match="'add'"):
        check_fusion(graph, float_graph(replace(fused, nodes=rewired)), [images()], 4)


def test_a_small_error_in_one_weight_is_caught_and_located() -> None:
    graph = residual_v1()
    fused = float_graph(fuse(graph, (3, 16, 16)).graph)
    name = next(name for name in fused.params if name.startswith("bn1"))
    wrong = replace(fused, params={**fused.params, name: fused.params[name] * np.float32(1.001)})
    with pytest.raises(FusionError, match="'relu1'"):
        check_fusion(graph, wrong, [images()], 4)


def test_nan_does_not_pass() -> None:
    graph = residual_v1()
    fused = float_graph(fuse(graph, (3, 16, 16)).graph)
    broken = replace(fused, params={**fused.params, "dense_bias": np.full(10, np.nan, np.float32)})
    with pytest.raises(FusionError):
        check_fusion(graph, broken, [images()], 4)


def test_the_gate_needs_no_quiet_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXNET_SUBGRAPH_BACKEND", "MKLDNN")
    graph = residual_v2()
    assert check_fusion(graph, float_graph(fuse(graph, (3, 16, 16)).graph), [images()], 4).difference <= 1e-5


def test_reasons_name_the_readers() -> None:
    assert "bn1" in (why_not_fusible(Draft(residual_v2()), Tensor("conv0")) or "")


def test_a_softmax_does_not_hide_a_wrong_layer() -> None:
    graph = residual_v1()
    loud = {**graph.params, "dense_weight": graph.params["dense_weight"] * np.float32(1000)}
    softmax = Node("softmax", "softmax", (graph.outputs[0],), {"axis": "-1"}, ("softmax",))
    graph = replace(graph, nodes=(*graph.nodes, softmax), outputs=(softmax.output,), params=loud)
    fused = float_graph(fuse(graph, (3, 16, 16)).graph)
    wrong = replace(fused, params={**fused.params, "dense_weight": fused.params["dense_weight"] * np.float32(1.01)})
    with pytest.raises(FusionError):
        check_fusion(graph, wrong, [images()], 4)


def test_a_random_network_cannot_pass() -> None:
    graph = residual_v1()
    dropout = Node("drop", "Dropout", (graph.outputs[0],), {"p": "0.5", "mode": "always"}, ("drop",))
    graph = replace(graph, nodes=(*graph.nodes, dropout), outputs=(dropout.output,))
    with pytest.raises(FusionError, match="random"):
        check_fusion(graph, float_graph(fuse(graph, (3, 16, 16)).graph), [images()], 4)


@pytest.mark.parametrize("batch_size", [1, 4])
def test_a_network_that_overflows_itself_is_refused_for_that(batch_size: int) -> None:
    """With the sample, the output and the operator that the values come from."""
    b = Builder()
    dense = b.dense("dense", DATA, 3 * 16 * 16, 4)
    grown = b.op("exp", "grown", b.op("_mul_scalar", "large", dense, scalar=1.0))
    graph = b.graph(dense, b.op("_plus_scalar", "last", grown, scalar=1.0))
    data = images()
    data[2] *= np.float32(1e4)
    batches = [data[start : start + batch_size] for start in range(0, 4, batch_size)]
    fused = float_graph(fuse(graph, (3, 16, 16)).graph)
    with pytest.raises(ModelError, match=r"infinite values for sample 2 in 'last'; .* 'grown' \(exp\)") as caught:
        check_fusion(graph, fused, batches, batch_size)
    assert "random" not in str(caught.value)
    with pytest.raises(ModelError, match="values for c in 'last'"):
        check_fusion(graph, fused, batches, batch_size, "abcd")


def test_infinite_values_that_no_output_shows_do_not_matter() -> None:
    b = Builder()
    dense = b.op("_mul_scalar", "large", b.dense("dense", DATA, 3 * 16 * 16, 4), scalar=1e4)
    graph = b.graph(b.op("sigmoid", "last", b.op("exp", "grown", dense)))
    assert check_fusion(graph, float_graph(fuse(graph, (3, 16, 16)).graph), [images()], 4).difference <= 1e-5


def test_an_overflow_that_fusion_alone_has_is_fusions_fault() -> None:
    graph = residual_v1()
    fused = float_graph(fuse(graph, (3, 16, 16)).graph)
    name = next(name for name in fused.params if name.startswith("bn2"))
    broken = replace(fused, params={**fused.params, name: np.full_like(fused.params[name], 3e38)})
    with pytest.raises(FusionError, match="deviates"):
        check_fusion(graph, broken, [images()], 4)
