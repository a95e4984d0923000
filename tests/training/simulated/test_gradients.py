"""Gradients of whole INT8 layers against formulas that are derived by hand, in float64."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from quantkit.ir.fused_layer import layer_of
from quantkit.ir.graph import Graph, Tensor
from quantkit.quantization.arithmetic import LIMITS
from quantkit.quantization.layer_weights import layer_integers
from quantkit.quantization.plan import TensorQuantization
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.training.simulated.training_graph import training_graph
from tests.networks import DATA, Builder
from tests.quantization.algorithms.networks import planned
from tests.training.simulated.on_engine import trained

pytestmark = pytest.mark.usefixtures("engine")

IMAGES, FEATURES, UNITS = 6, 5, 7


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@dataclass(frozen=True)
class Rounded:
    """Values as multiples of a step, and the derivatives by the values and by the logarithm of the range."""

    real: np.ndarray
    by_values: np.ndarray
    by_logarithm: np.ndarray

    def gradient(self, outer: np.ndarray, dtype: str) -> float:
        """That of the logarithm, with LSQ's factor, given that of the real values."""
        factor = 1 / np.sqrt(outer[0].size * LIMITS[dtype][1])
        return float(factor * (outer * self.by_logarithm).sum())


def through(values: np.ndarray, form: TensorQuantization) -> Rounded:
    """Real numbers on their way through integers; the derivatives are those of LSQ, equations 3 and 5."""
    step, (low, high) = form.params.scale, LIMITS[form.dtype]
    exact = values.astype(np.float64) / step
    inside = (low < exact) & (exact < high)
    nearest = np.rint(exact).clip(low, high)
    return Rounded(nearest * step, inside.astype(float), step * np.where(inside, nearest - exact, nearest))


def check(found: np.ndarray, wanted: np.ndarray) -> None:
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())


@pytest.mark.parametrize("rectified", [False, True])
def test_of_a_dense_layer(rectified: bool) -> None:
    b = Builder()
    result = b.dense("dense", DATA, FEATURES, UNITS)
    graph = b.graph(b.relu("relu", result) if rectified else result)
    data = normal(IMAGES, FEATURES)
    fused, plan = planned(graph, data / 2)
    network, gradient = QuantizedGraph(fused.graph, plan), normal(IMAGES, UNITS, seed=1)
    outputs, found = trained(training_graph(network, (FEATURES,)).graph, data, [gradient])
    x = through(data, network.form(DATA))
    integers, scale = layer_integers(graph.params["dense_weight"], network.weight_rounding(fused.graph.nodes[0]))
    weight = integers * scale[:, None].astype(np.float64)
    sums = x.real @ weight.T + graph.params["dense_bias"]
    outer = gradient * (sums > 0) if rectified else gradient
    check(outputs[0], np.maximum(sums, 0) if rectified else sums)
    check(found["dense_weight"], outer.T @ x.real)
    check(found["dense_bias"], outer.sum(axis=0))
    check(found["data"], outer @ weight * x.by_values)
    check(found["data_log_range"], np.array([x.gradient(outer @ weight, "int8")]))


def two_branches() -> Graph:
    """Two 1x1 convolutions, one of which adds the other's signed result and is rectified, in 7 bits."""
    b = Builder()
    shortcut = b.conv("shortcut", DATA, FEATURES, UNITS, kernel=1)
    body = b.conv("body", DATA, FEATURES, UNITS, kernel=1)
    return b.graph(b.relu("relu", b.op("elemwise_add", "add", body, shortcut)))


def test_of_convolutions_with_a_sum() -> None:
    graph, data = two_branches(), normal(IMAGES, FEATURES, 4, 3)
    # Some values are beyond the ranges.
    fused, plan = planned(graph, data / 1.2)
    network, gradient = QuantizedGraph(fused.graph, plan), normal(IMAGES, UNITS, 4, 3, seed=1)
    outputs, found = trained(training_graph(network, data.shape[1:]).graph, data, [gradient])
    layers = {layer.core.name: layer for layer in map(layer_of, fused.graph.nodes)}
    assert layers["body"].addend == Tensor("shortcut")
    x = through(data, network.form(DATA))
    weights, sums = {}, {}
    for name, layer in layers.items():
        integers, scale = layer_integers(graph.params[f"{name}_weight"], network.weight_rounding(layer.node))
        weights[name] = integers[..., 0, 0] * scale[:, None].astype(np.float64)
        steps = scale * network.form(DATA).params.scale
        bias = np.rint(graph.params[f"{name}_bias"] / steps) * steps
        sums[name] = np.einsum("oi,nihw->nohw", weights[name], x.real) + bias.reshape(-1, 1, 1)
    shortcut = through(sums["shortcut"], network.form(Tensor("shortcut")))
    form = network.form(Tensor("relu"))
    step, total = 2 * form.params.scale, sums["body"] + shortcut.real
    exact = total / step
    inside = (exact > 0) & (exact < 127)
    nearest = np.rint(exact).clip(0, 127)
    assert np.abs(outputs[0] / step - nearest).max() < 1.01
    outer = {"body": gradient * inside}
    outer["shortcut"] = outer["body"] * shortcut.by_values
    of_data = np.zeros(data.shape)
    for name, weight in weights.items():
        check(found[f"{name}_weight"][..., 0, 0], np.einsum("nohw,nihw->oi", outer[name], x.real))
        check(found[f"{name}_bias"], outer[name].sum(axis=(0, 2, 3)))
        of_data += np.einsum("oi,nohw->nihw", weight, outer[name])
    check(found["data"], of_data * x.by_values)
    check(found["data_log_range"], np.array([x.gradient(of_data, "int8")]))
    check(found["shortcut_log_range"], np.array([shortcut.gradient(outer["body"], "int8")]))
    by_logarithm = step * np.where(inside, nearest - exact, nearest)
    # The range is that of 8 bits, whose largest integer LSQ's factor has.
    check(found["relu_log_range"], np.array([Rounded(total, inside, by_logarithm).gradient(gradient, "uint8")]))
