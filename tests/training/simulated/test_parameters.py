"""Which parameters of training graphs are trained, and why others are not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from quantkit.ir.fused_layer import fused_layer_of
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.training.simulated.training_graph import SimulatedTraining, training_graph
from tests.lowering.networks import quantized
from tests.networks import DATA, Builder, images
from tests.quantization.algorithms.networks import planned

pytestmark = pytest.mark.usefixtures("engine")


def of_network(name: str, *exclude: str) -> SimulatedTraining:
    return training_graph(quantized(name, "none", *exclude), (3, 16, 16))


@pytest.mark.parametrize("exclude", [(), ("conv1", "dense"), ("*",)])
def test_weights_and_biases_are_trained_in_int8_and_in_fp32(exclude: tuple[str, ...]) -> None:
    training = of_network("v1", *exclude)
    kinds = {name: each.kind for name, each in training.trained.items()}
    layers = [layer for node in training.network.graph.nodes if (layer := fused_layer_of(node))]
    assert len(layers) == 4
    for layer in layers:
        assert kinds[layer.weight.node] == "weight"
        assert layer.bias is not None
        assert kinds[layer.bias.node] == "bias"
    assert ("range" in kinds.values()) == (exclude != ("*",))
    assert set(training.graph.params) == training.trained.keys() | training.frozen.keys()
    assert not training.trained.keys() & training.frozen.keys()


def test_rates_are_the_magnitudes_of_weights() -> None:
    training = of_network("v1")
    weight = training.graph.params["dense_weight"]
    assert training.trained["dense_weight"].rate == pytest.approx(float(np.sqrt(np.mean(weight**2))))
    assert training.trained["dense_bias"].rate == training.trained["dense_weight"].rate
    assert {each.rate for each in training.trained.values() if each.kind == "range"} == {1.0}
    assert {each.decays for each in training.trained.values() if each.kind == "weight"} == {True}
    assert {each.decays for each in training.trained.values() if each.kind != "weight"} == {False}


def test_weights_of_zeros_can_be_trained() -> None:
    network = quantized("v1")
    zeros = np.zeros_like(network.graph.params["dense_weight"])
    graph = replace(network.graph, params={**network.graph.params, "dense_weight": zeros})
    training = training_graph(QuantizedGraph(graph, network.plan), (3, 16, 16))
    assert training.trained["dense_weight"].rate == 1.0


def test_normalization_that_is_left_is_frozen() -> None:
    training = of_network("v2")
    assert training.frozen["bn0_gamma"] == training.frozen["bn0_moving_mean"] == "batch normalization is frozen"
    assert "constant of the training graph" in training.frozen["scaling_variance_16"]


def test_weights_of_groups_of_channels_are_frozen() -> None:
    training = of_network("grouped")
    assert "groups of channels" in training.frozen["relu1_weight_int8"]
    assert training.trained["wide_bias"].kind == "bias"
    assert "wide_weight" not in training.graph.params


def test_other_parameters_are_frozen() -> None:
    b = Builder()
    slope = b.param("slope", np.full(8, 0.1))
    graph = b.graph(b.op("LeakyReLU", "prelu", b.conv("conv", DATA, 3, 8), slope, act_type="prelu"))
    fused, plan = planned(graph, images())
    training = training_graph(QuantizedGraph(fused.graph, plan), (3, 16, 16))
    assert training.frozen["slope"] == "it is no weight or bias of a layer"
