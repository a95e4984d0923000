"""Integer weights in training graphs against those that layers are lowered with."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from quantkit.calibration.ranges import Range
from quantkit.ir.fused_layer import FusedLayer, layer_of
from quantkit.ir.graph import Tensor
from quantkit.ir.names import Names
from quantkit.quantization.layer_weights import layer_integers
from quantkit.quantization.plan import Decision, QuantizationPlan, TensorQuantization
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.training.simulated.draft import TrainingDraft
from quantkit.training.simulated.weights import integer_weights, weight_obstacle, without_derived_scales
from tests.networks import DATA, Builder
from tests.training.simulated.on_engine import run_draft

pytestmark = pytest.mark.usefixtures("engine")


def layer_with(weight: np.ndarray, groups: int = 1) -> tuple[QuantizedGraph, FusedLayer]:
    """A convolution, or a dense layer where the weights have two axes, in INT8."""
    b = Builder()
    name, attrs = b.param("weight", weight), {"no_bias": True}
    if weight.ndim == 2:
        b.op("FullyConnected", "layer", DATA, name, num_hidden=len(weight), **attrs)
    else:
        b.op("Convolution", "layer", DATA, name, kernel=weight.shape[2:], num_filter=len(weight), num_group=groups,
             **attrs)  # fmt: skip
    form = TensorQuantization(Range(0.0, 1.0), "uint8")
    decision = Decision("layer", b.nodes[0].op, ("layer",), "int8")
    plan = QuantizationPlan({"layer": decision}, {DATA: form, Tensor("layer"): form})
    network = QuantizedGraph(b.graph(Tensor("layer")), plan)
    return network, layer_of(network.graph.nodes[0])


def computed(
    network: QuantizedGraph, layer: FusedLayer, *gradient: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Integers and scales in the training graph, and the gradient of the weights."""
    params = dict(network.graph.params)
    made = TrainingDraft(Names(network.graph.names), params=params, network=network, shapes={}, growth={})
    weight = integer_weights(made, layer)
    none = [np.zeros(len(params["weight"]), np.float32)] if gradient else []
    (integers, step), gradients = run_draft(made, [weight.values, weight.scale.step], *gradient, *none)
    return integers, step, gradients["weight"]


def weights(*shape: int) -> np.ndarray:
    """Weights whose largest is now positive, now negative, with a channel of zeros and one that counts as such."""
    found = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    found[3], found[5] = 0.0, found[5] * np.float32(1e-32)
    return found


@pytest.mark.parametrize("shape", [(64, 7, 3, 3), (32, 1, 1, 1), (40, 3, 2, 3, 3), (500, 300)])
def test_integers_and_scales_are_those_of_the_lowered_layer(shape: tuple[int, ...]) -> None:
    network, layer = layer_with(weights(*shape))
    wanted, steps = layer_integers(network.graph.params["weight"], network.weight_rounding(layer.node))
    integers, scale, _ = computed(network, layer)
    np.testing.assert_array_equal(integers, wanted)
    np.testing.assert_array_equal(scale, steps)


@pytest.mark.parametrize("shape", [(64, 7, 3, 3), (50, 30)])
def test_gradients_reach_all_weights_but_not_by_way_of_the_scale(shape: tuple[int, ...]) -> None:
    network, layer = layer_with(weights(*shape))
    assert weight_obstacle(network, layer) is None
    gradient = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    _, scale, found = computed(network, layer, gradient)
    # Integers are weights over their scale.
    np.testing.assert_allclose(found, gradient / scale.reshape(-1, *(1,) * (len(shape) - 1)), rtol=1e-6)


def test_groups_of_channels_are_not_trained() -> None:
    network, layer = layer_with(weights(8, 2, 3, 3), groups=4)
    assert "groups of channels" in str(weight_obstacle(network, layer))
    integers, scale, found = computed(network, layer, np.ones((8, 2, 3, 3), np.float32))
    wanted, steps = layer_integers(network.graph.params["weight"], network.weight_rounding(layer.node))
    np.testing.assert_array_equal(integers, wanted)
    np.testing.assert_array_equal(scale, steps)
    assert not found.any()


def test_multiples_of_a_scale_are_not_trained() -> None:
    network, layer = layer_with(weights(50, 30))
    network = replace(network, weight_scales={"layer": np.full(50, 0.02, np.float32)})
    assert weight_obstacle(without_derived_scales(network), layer) == (
        "the scale of the weights is not that of the largest (layer 'layer')"
    )
    wanted, _ = layer_integers(network.graph.params["weight"], network.weight_rounding(layer.node))
    np.testing.assert_array_equal(computed(network, layer)[0], wanted)


def test_scales_of_the_largest_weights_may_be_trained() -> None:
    """As in a bundle, which holds the integers and scales of dense layers."""
    network, layer = layer_with(weights(50, 30))
    integers, scale = layer_integers(network.graph.params["weight"], network.weight_rounding(layer.node))
    params = {"weight": (integers * scale[:, None]).astype(np.float32)}
    reread = replace(network, graph=replace(network.graph, params=params), weight_scales={"layer": scale})
    assert weight_obstacle(reread, layer) is not None
    found = without_derived_scales(reread)
    assert not found.weight_scales and weight_obstacle(found, layer) is None
    for one, other in zip(layer_integers(params["weight"], found.weight_rounding(layer.node)), (integers, scale)):
        np.testing.assert_array_equal(one, other)
