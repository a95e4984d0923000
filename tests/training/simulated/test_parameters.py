"""Which parameters of training graphs are trained, and why others are not."""

from __future__ import annotations

import numpy as np
import pytest

from quantkit.ir.fused_layer import fused_layer_of
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.training.simulated.parameters import channel_units
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


def test_units_are_the_magnitudes_of_channels() -> None:
    training = of_network("v1")
    for layer in filter(None, map(fused_layer_of, training.network.graph.nodes)):
        units = channel_units(training.graph.params[layer.weight.node])
        for tensor in filter(None, (layer.weight, layer.bias)):
            assert np.array_equal(training.trained[tensor.node].units, units)
    assert all(each.units.tolist() == [1.0] for each in training.trained.values() if each.kind == "range")


def test_units_are_powers_of_two_up_to_the_magnitude() -> None:
    random = np.random.default_rng(0)
    weight = random.normal(size=(64, 5, 3, 3)) * np.exp(random.normal(size=(64, 1, 1, 1)) * 8)
    units = channel_units(weight.astype(np.float32))
    assert units.dtype == np.float32 and units.shape == (64,)
    assert np.array_equal(np.frexp(units)[0], np.full(64, 0.5))
    magnitudes = np.sqrt(np.square(weight).mean(axis=(1, 2, 3)))
    assert (units <= magnitudes).all() and (magnitudes < 2 * units).all()


def test_channels_of_zeros_have_the_units_of_the_layer() -> None:
    weight = np.array([[0, 0], [4, 4], [0, 0], [2, 2]], np.float32)
    assert channel_units(weight).tolist() == [2, 4, 2, 2]
    assert channel_units(np.zeros((3, 2), np.float32)).tolist() == [1, 1, 1]


def test_units_of_tiny_weights_do_not_make_values_infinite() -> None:
    weight = np.full((2, 3), 1e-44, np.float32)
    weight[0, 0] = 1e-9
    unit = channel_units(weight)
    assert (unit > 0).all() and np.isfinite(weight / unit[:, None]).all()


@pytest.mark.parametrize("exclude", [(), ("*",)])
def test_weights_that_become_integers_keep_their_scale(exclude: tuple[str, ...]) -> None:
    training = of_network("v1", *exclude)
    weights = {each.keeps_scale for each in training.trained.values() if each.kind == "weight"}
    assert weights == {not exclude}
    assert not any(each.keeps_scale for each in training.trained.values() if each.kind != "weight")


@pytest.mark.parametrize("exclude", ["first", "second"])
def test_weights_that_an_fp32_layer_reads_too_keep_their_scale(exclude: str) -> None:
    b = Builder()
    first = b.relu("relu", b.conv("first", DATA, 3, 3))
    weight, bias = b.nodes[0].inputs[1:]
    attrs = {"kernel": (3, 3), "pad": (1, 1), "num_filter": 3}
    second = b.op("Convolution", "second", first, weight, bias, **attrs)
    fused, plan = planned(b.graph(b.relu("last", second)), images(), exclude)
    network = QuantizedGraph(fused.graph, plan)
    assert len(network.int8_layers) == 1
    assert training_graph(network, (3, 16, 16)).trained[weight.node].keeps_scale


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
