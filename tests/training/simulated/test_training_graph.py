"""Training graphs of whole networks, and the quantized networks that training leaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Optional

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.calibration.ranges import Range
from quantkit.data.preprocess import Preprocess
from quantkit.errors import ModelError, UserError
from quantkit.fusion.fused_model import FusedModel, fuse_model
from quantkit.ir.graph import Graph, Tensor
from quantkit.lowering.mxnet_int8 import int8_graph
from quantkit.models.dataset import CalibrationData, dataset
from quantkit.models.load import load_model
from quantkit.quantization.algorithms.stage import apply_algorithms, plan
from quantkit.quantization.calibrate import calibrate
from quantkit.quantization.ptq_config import PresetName
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.training.simulated.training_graph import SimulatedTraining, training_graph
from tests.lowering.networks import NETWORKS, quantized
from tests.networks import Builder, images
from tests.quantization import recurrent_networks
from tests.sequences import STACK, STEPS, sequence_network, sequences
from tests.training.simulated.on_engine import trained
from tests.training.simulated.test_operators import check, engine_integers, integers

pytestmark = pytest.mark.usefixtures("engine")

SHAPE = (3, 16, 16)


def changed(training: SimulatedTraining, seed: int = 0) -> dict[str, np.ndarray]:
    """The parameters as if they had been trained."""
    random = np.random.default_rng(seed)
    size = {"weight": 0.1, "bias": 0.5, "range": 0.1}
    params = dict(training.graph.params)
    for name, each in training.trained.items():
        noise = random.normal(size=params[name].shape).T * size[each.kind] * each.units
        params[name] = (params[name] + noise.T).astype(np.float32)
    return params


def check_same(found: QuantizedGraph, wanted: QuantizedGraph) -> None:
    assert found.plan.tensors == wanted.plan.tensors
    assert found.plan.decisions == wanted.plan.decisions
    assert found.plan.pre_add_ranges == wanted.plan.pre_add_ranges
    assert found.graph.params.keys() == wanted.graph.params.keys()
    for name, value in wanted.graph.params.items():
        np.testing.assert_array_equal(found.graph.params[name], value)


@pytest.mark.parametrize("name", NETWORKS)
def test_without_training_the_network_is_as_it_was(name: str) -> None:
    network = quantized(name, "best")
    network = replace(network, plan=replace(network.plan, pre_add_ranges={network.graph.outputs[0]: Range(-1.0, 1.0)}))
    training = training_graph(network, SHAPE)
    check_same(training.quantized_graph(training.graph.params), network)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_graph_has_the_outputs_and_inputs_of_the_network(name: str) -> None:
    network = quantized(name)
    training = training_graph(network, SHAPE)
    assert training.graph.outputs == network.graph.outputs
    assert training.graph.inputs == network.graph.inputs
    found, _ = trained(training.graph, images())
    for inference, in_training in zip(run(training.graph, {"data": images()}), found):
        np.testing.assert_array_equal(inference, in_training)


@pytest.mark.usefixtures("int8_engine")
@pytest.mark.requires("vnni")
@pytest.mark.parametrize("name", NETWORKS)
def test_a_trained_network_is_lowered_to_what_was_simulated(name: str) -> None:
    training = training_graph(quantized(name), SHAPE)
    params = changed(training)
    network = training.quantized_graph(params)
    assert network.plan.tensors != training.network.plan.tensors
    check(integers(network, images()), engine_integers(network, images()))
    outputs = run(replace(training.graph, params=params), {"data": images()})
    for found, wanted in zip(outputs, run(int8_graph(network), {"data": images()})):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6 * np.abs(wanted).max())


def test_pre_add_ranges_of_other_weights_are_left_out() -> None:
    network = quantized("v1")
    network = replace(network, plan=replace(network.plan, pre_add_ranges={Tensor("relu2"): Range(-1.0, 1.0)}))
    training = training_graph(network, SHAPE)
    assert not training.quantized_graph(changed(training)).plan.pre_add_ranges
    for name in ("dense_bias", "relu2_log_range"):
        one = {**training.graph.params, name: changed(training)[name]}
        assert not training.quantized_graph(one).plan.pre_add_ranges


def test_a_few_steps_bring_it_nearer_to_fp32() -> None:
    data = images(16)
    training = training_graph(quantized("signed shortcut"), SHAPE)
    wanted = run(NETWORKS["signed shortcut"](), {"data": data})[0]
    optimizer = Adam(training)
    losses = []
    for _ in range(30):
        graph = replace(training.graph, params=optimizer.params)
        error = run(graph, {"data": data})[0] - wanted
        losses.append(float(np.square(error).mean()))
        optimizer.step(trained(graph, data, [error / error.size])[1])
    assert np.mean(losses[-5:]) < 0.7 * losses[0]


class Adam:
    """Kingma and Ba, "Adam: a method for stochastic optimization" (ICLR 2015, arXiv:1412.6980), algorithm 1."""

    def __init__(self, training: SimulatedTraining, rate: float = 3e-4) -> None:
        self.params = dict(training.graph.params)
        self._rates = {name: rate * each.units for name, each in training.trained.items()}
        self._first = {name: np.zeros_like(self.params[name]) for name in self._rates}
        self._second = dict(self._first)
        self._steps = 0

    def step(self, gradients: Mapping[str, np.ndarray]) -> None:
        self._steps += 1
        for name, rate in self._rates.items():
            self._first[name] = 0.9 * self._first[name] + 0.1 * gradients[name]
            self._second[name] = 0.99 * self._second[name] + 0.01 * gradients[name] ** 2
            deviation = np.sqrt(self._second[name] / (1 - 0.99**self._steps)) + 1e-12
            change = self._first[name] / (1 - 0.9**self._steps) / deviation
            self.params[name] = (self.params[name].T - rate * change.T).T.astype(np.float32)


def recurrent() -> Graph:
    """An LSTM layer and two dense layers."""
    b = Builder()
    first, *others = sequence_network("NTC").nodes
    b.params.update(sequence_network("NTC").params)
    b.nodes += [first, *others[:-1]]
    hidden = b.relu("relu", b.dense("hidden", others[-2].output, STEPS * STACK.hidden, 12))
    return b.graph(b.dense("last", hidden, 12, 4))


def test_lstm_layers_in_int8_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    _, network = recurrent_networks.quantized(monkeypatch, recurrent(), sequences(4, tokens=False))
    with pytest.raises(ModelError, match=r"the LSTM layer 'lstm_fused_0' runs in INT8.*--exclude lstm\)"):
        training_graph(network, (STEPS, STACK.inputs))


def test_lstm_layers_in_fp32_stay_as_they_are(int8_engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    data = sequences(4, tokens=False)
    _, network = recurrent_networks.quantized(monkeypatch, recurrent(), data, exclude=("lstm",))
    training = training_graph(network, data.shape[1:])
    _, gradients = trained(training.graph, data, [np.ones((4, 4), np.float32)])
    assert np.isfinite(gradients["data"]).all()
    assert gradients["data"].any()
    (found,) = run(training.graph, {"data": data})
    (wanted,) = run(int8_graph(network), {"data": data})
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6 * np.abs(wanted).max())
    assert "overflow" in training.frozen["last_weight_int8"]
    check_same(training.quantized_graph(training.graph.params), network)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"dense_weight": None}, "the trained parameters lack 'dense_weight'"),
        ({"dense_bias": np.zeros(3, np.float32)}, r"'dense_bias' has shape \(3,\) and needs \(10,\)"),
        ({"dense_bias": np.full(10, np.nan, np.float32)}, "NaN or infinite values in 'dense_bias'; train with a small"),
        ({"data_log_range": np.full(1, np.inf, np.float32)}, "values in 'data_log_range'; train with a smaller"),
        ({"data_log_range": np.full(1, 200, np.float32)}, "training has scaled the range of tensor 'data' by"),
    ],
)
def test_what_training_cannot_have_left_is_told(change: dict[str, Optional[np.ndarray]], message: str) -> None:
    training = training_graph(quantized("v1"), SHAPE)
    params = {name: value for name, value in {**training.graph.params, **change}.items() if value is not None}
    with pytest.raises(UserError, match=message):
        training.quantized_graph(params)


def test_a_plan_of_another_network_is_refused() -> None:
    network = replace(quantized("v1"), plan=quantized("v2").plan)
    with pytest.raises(ModelError, match="do not agree"):
        training_graph(network, SHAPE)


def check_network(source: FusedModel, data: CalibrationData, preset: PresetName, most: int = 16) -> None:
    """Outputs and integers are the engine's, before training and after, and without training nothing changes."""
    table = calibrate(source, data, most)
    network = apply_algorithms(source, table, plan(source, table), data, preset).network
    (batch,) = dataset(source.model, data).subset(most).batches(most)
    training = training_graph(network, source.model.input_shape)
    check_same(training.quantized_graph(training.graph.params), network)
    for each in (network, training.quantized_graph(changed(training))):
        check(integers(each, batch.data), engine_integers(each, batch.data))


@pytest.mark.usefixtures("int8_engine")
@pytest.mark.requires("vnni")
@pytest.mark.parametrize("preset", ["none", "balanced"])
@pytest.mark.parametrize("name", ["digits_resnet20_v1", "digits_resnet20_v2"])
def test_networks_that_ship(name: str, preset: PresetName) -> None:
    check_network(fuse_model(load_model(name, quiet=True), "digits:train"), "digits:train", preset)


CIFAR = Preprocess(resize=None, crop=None, mean=(0.4914, 0.4822, 0.4465), std=(0.2023, 0.1994, 0.2010))
ROTATED = Preprocess(
    resize=256, crop=224, mean=(1.0, 1.0, 1.0), std=(1.0, 1.0, 1.0), scale=127.5, rotate180=True
)  # fmt: skip


@pytest.mark.usefixtures("int8_engine")
@pytest.mark.requires("vnni")
@pytest.mark.parametrize(
    "name, side, preprocess, data, most",
    [
        ("cifar_resnet20_v1", 32, CIFAR, "cifar10/train-2000.npz", 16),
        ("mobilenet0.25_relu6", 224, ROTATED, "imagenet:calib", 4),
    ],
)
def test_trained_networks(name: str, side: int, preprocess: Preprocess, data: str, most: int, real_data: Path) -> None:
    folder = real_data / "weights" / name
    model = load_model(folder, input_shape=(3, side, side), preprocess=preprocess, quiet=True)
    check_network(fuse_model(model, f"{real_data}/{data}"), f"{real_data}/{data}", "balanced", most)
