"""Biases corrected by what batch normalization knows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.errors import UserError
from quantkit.fusion.float_symbol import float_graph
from quantkit.ir.fused_layer import FusedLayer, fused_layer_of
from quantkit.ir.graph import Graph, Tensor
from quantkit.progress import silent
from quantkit.quantization.algorithms.analytic_bias import clipped_normal_mean, with_analytic_biases
from quantkit.quantization.algorithms.apply import apply_algorithms
from quantkit.quantization.algorithms.own_params import with_own_params
from quantkit.quantization.layer_weights import WeightRounding
from quantkit.quantization.ptq_config import PTQConfig
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.quantization.simulation.integer_sums import integer_weights
from tests.networks import DATA, Builder, images
from tests.quantization.algorithms.networks import planned

pytestmark = pytest.mark.usefixtures("engine")

SEEN = images(64)
ENGINE = WeightRounding("engine")


@pytest.mark.parametrize(("low", "high"), [(-np.inf, np.inf), (0.0, np.inf), (0.0, 6.0), (0.5, 1.5)])
def test_the_mean_of_a_clipped_normal_variable(low: float, high: float) -> None:
    mean, deviation = np.array([-3.0, -0.5, 0.0, 2.0, 7.0]), np.array([1.0, 2.0, 0.5, 3.0, 1.0])
    points = np.linspace(-12, 12, 200_001)
    density = np.exp(-np.square(points) / 2) / np.sqrt(2 * np.pi)
    wanted = [np.trapz(np.clip(m + d * points, low, high) * density, points) for m, d in zip(mean, deviation)]
    np.testing.assert_allclose(clipped_normal_mean(mean, deviation, low, high), wanted, atol=1e-6)


def test_a_channel_without_deviation_is_a_constant() -> None:
    means = clipped_normal_mean(np.array([-1.0, 2.0, 9.0]), np.full(3, 1e-12), 0.0, 6.0)
    np.testing.assert_allclose(means, [0.0, 2.0, 6.0], atol=1e-9)


def normalized(activation: str = "relu", fix_gamma: bool = False) -> Graph:
    """conv, batch normalization with the statistics that the images really have, activation, 1x1 conv."""
    b = Builder()
    data = b.conv("conv0", DATA, 3, 8, kernel=1, bias=False)
    normed = b.batch_norm("bn0", data, 8, fix_gamma=fix_gamma)
    if activation == "relu":
        normed = b.relu("act", normed)
    elif activation == "clip":
        normed = b.op("clip", "act", normed, a_min=0.0, a_max=1.5)
    graph = b.graph(b.relu("last", b.conv("conv1", normed, 8, 8, kernel=1)))
    (found,) = run(graph.with_outputs([Tensor("conv0")]).pruned(), {"data": SEEN})
    measured = {"bn0_moving_mean": found.mean(axis=(0, 2, 3)), "bn0_moving_var": found.var(axis=(0, 2, 3))}
    return replace(graph, params={**graph.params, **measured})


def corrected(graph: Graph) -> tuple[Graph, Graph, FusedLayer]:
    fused, plan = planned(graph, SEEN)
    own = with_own_params(QuantizedGraph(fused.graph, plan)).graph
    layer = fused_layer_of(own.by_name["last"])
    assert layer is not None
    return own, with_analytic_biases(fused.original, QuantizedGraph(own, plan)).graph, layer


@pytest.mark.parametrize(
    ("activation", "fix_gamma"), [("relu", False), ("none", False), ("clip", False), ("relu", True)]
)
def test_the_mean_shift_of_rounded_weights_is_taken_back(activation: str, fix_gamma: bool) -> None:
    own, new, layer = corrected(normalized(activation, fix_gamma))
    (data,) = run(float_graph(own.with_outputs([layer.data]).pruned()), {"data": SEEN})
    weight = own.params[layer.weight.node]
    shift = np.einsum("oi,i->o", (integer_weights(weight, ENGINE).real - weight)[:, :, 0, 0], data.mean(axis=(0, 2, 3)))
    assert layer.bias is not None
    change = own.params[layer.bias.node] - new.params[layer.bias.node]
    assert np.abs(shift).max() > 1e-4
    # The images' values are normal, so that batch normalization knows all; what is left is their finite number.
    np.testing.assert_allclose(change, shift, atol=0.02 * np.abs(shift).max() + 1e-6)


def test_a_channel_that_is_switched_off_has_its_shift_for_mean() -> None:
    """Gamma of 0 leaves beta alone, and its sign does not matter."""
    graph = normalized()
    gamma, beta = graph.params["bn0_gamma"] * np.tile([1, -1], 4), np.full(8, 0.5)
    gamma[0] = 0
    params = {"bn0_gamma": gamma.astype(np.float32), "bn0_beta": beta.astype(np.float32)}
    own, new, layer = corrected(replace(graph, params={**graph.params, **params}))
    weight = own.params[layer.weight.node]
    z = np.linspace(-12, 12, 100_001)
    density = np.exp(-np.square(z) / 2) / np.sqrt(2 * np.pi)
    mean = np.array([np.trapz(np.maximum(0.5 + each * z, 0) * density, z) for each in np.abs(gamma)])
    wanted = (integer_weights(weight, ENGINE).real - weight).astype(np.float64).sum(axis=(2, 3)) @ mean
    assert layer.bias is not None
    change = own.params[layer.bias.node].astype(np.float64) - new.params[layer.bias.node]
    np.testing.assert_allclose(change, wanted, atol=1e-6)
    assert new.params[layer.bias.node].dtype == np.float32


def test_layers_in_fp32_and_dense_layers_behind_norms_stay() -> None:
    b = Builder()
    first = b.relu("act", b.batch_norm("bn", b.conv("conv", DATA, 3, 8, bias=False), 8))
    last = b.op("sigmoid", "bent", b.batch_norm("bn2", b.conv("conv2", first, 8, 4, bias=False), 4))
    graph = b.graph(b.dense("dense", b.op("Flatten", "flat", last), 1024, 3), b.conv("fp32", first, 8, 2))
    fused, plan = planned(graph, images(), "fp32")
    own = with_own_params(QuantizedGraph(fused.graph, plan)).graph
    new = with_analytic_biases(fused.original, QuantizedGraph(own, plan)).graph
    changed = {name for name, value in own.params.items() if not np.array_equal(value, new.params[name])}
    assert changed == {"bn2_bias"}
    assert new.nodes == own.nodes


def test_operators_before_the_layers_do_not_matter() -> None:
    b = Builder()
    data = b.conv("conv0", b.op("tanh", "bent", DATA), 3, 8, kernel=1, bias=False)
    data = b.relu("act", b.batch_norm("bn0", data, 8))
    own, new, layer = corrected(b.graph(b.relu("last", b.conv("conv1", data, 8, 8, kernel=1))))
    assert layer.bias is not None
    assert not np.array_equal(new.params[layer.bias.node], own.params[layer.bias.node])


def test_gamma_is_fixed_where_nothing_is_said() -> None:
    graph = normalized(fix_gamma=True)
    attrs = {key: value for key, value in graph.by_name["bn0"].attrs.items() if key != "fix_gamma"}
    nodes = tuple(replace(node, attrs=attrs) if node.name == "bn0" else node for node in graph.nodes)
    said, unsaid = (corrected(each)[1].params for each in (graph, replace(graph, nodes=nodes)))
    for name, value in said.items():
        np.testing.assert_array_equal(unsaid[name], value)


def test_without_batch_normalization_nothing_is_known() -> None:
    b = Builder()
    data = b.relu("act", b.conv("conv0", DATA, 3, 8))
    own, new, _ = corrected(b.graph(b.relu("last", b.conv("conv1", data, 8, 8))))
    for name, value in own.params.items():
        np.testing.assert_array_equal(new.params[name], value)


def test_a_sum_is_not_what_batch_normalization_put_out() -> None:
    b = Builder()
    first = b.relu("act", b.conv("conv0", DATA, 3, 8))
    total = b.op("elemwise_add", "add", b.batch_norm("bn", b.conv("conv2", first, 8, 8, bias=False), 8), first)
    own, new, layer = corrected(b.graph(b.relu("last", b.conv("conv1", total, 8, 8))))
    assert layer.bias is not None
    np.testing.assert_array_equal(new.params[layer.bias.node], own.params[layer.bias.node])


def test_it_needs_no_images_and_keeps_the_exact_network() -> None:
    fused, plan = planned(normalized(), SEEN)
    found = apply_algorithms(
        QuantizedGraph(fused.graph, plan), fused.original, [], "minmax", PTQConfig(analytic_bias=True), silent
    )
    assert found.algorithms == PTQConfig(analytic_bias=True, num_samples=0)
    layer = fused_layer_of(found.network.graph.by_name["last"])
    assert layer is not None
    assert layer.bias is not None
    assert not np.array_equal(found.network.graph.params[layer.bias.node], found.exact.params[layer.bias.node])
    np.testing.assert_array_equal(found.exact.params[layer.bias.node], fused.graph.params[layer.bias.node])


def test_it_stands_alone() -> None:
    with pytest.raises(UserError, match="without images"):
        PTQConfig(analytic_bias=True, bias=True)
