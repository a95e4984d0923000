"""The form in which parameters are trained."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.ir.graph import Graph
from quantkit.quantization.weights import engine_integers
from quantkit.training.simulated.parameters import TrainedParameter, channel_units
from quantkit.training.simulated.trained_form import TrainedForm, trained_form
from tests.networks import DATA, Builder, images
from tests.training.simulated.on_engine import trained

pytestmark = pytest.mark.usefixtures("engine")

CHANNELS = 8


def network() -> Graph:
    b = Builder()
    return b.graph(b.conv("conv", DATA, 3, CHANNELS))


def form_of(graph: Graph) -> TrainedForm:
    units = channel_units(graph.params["conv_weight"])
    return trained_form(
        graph,
        {
            "conv_weight": TrainedParameter("weight", units, keeps_scale=True),
            "conv_bias": TrainedParameter("bias", units),
        },
    )


def with_values(graph: Graph, params: Mapping[str, np.ndarray]) -> Graph:
    return Graph(graph.nodes, graph.inputs, graph.outputs, {**graph.params, **params})


def moved(form: TrainedForm, size: float) -> dict[str, np.ndarray]:
    """Weights and biases, moved at random by a share of their units."""
    random = np.random.default_rng(0)
    return {
        name: form.graph.params[name] + (random.normal(size=form.graph.params[name].shape) * size).astype(np.float32)
        for name in form.in_units.values()
    }


def test_without_training_all_bits_are_as_they_were() -> None:
    graph = network()
    form = form_of(graph)
    assert "conv_weight" not in form.graph.params
    for name, value in form.values(form.graph.params).items():
        assert np.array_equal(value, graph.params[name])
    assert np.array_equal(run(form.graph, {"data": images()})[0], run(graph, {"data": images()})[0])


@pytest.mark.parametrize("size", [0.1, 10.0])
def test_values_are_what_the_graph_computes_with(size: float) -> None:
    graph = network()
    form = form_of(graph)
    params = moved(form, size)
    values = form.values(params)
    assert values.keys() == graph.params.keys()
    assert not any(np.array_equal(values[name], graph.params[name]) for name in values)
    found = run(with_values(form.graph, params), {"data": images()})[0]
    assert np.array_equal(found, run(with_values(graph, values), {"data": images()})[0])


@pytest.mark.parametrize("size", [1e-7, 0.1, 10.0])
def test_scales_and_the_largest_integers_stay(size: float) -> None:
    graph = network()
    form = form_of(graph)
    old = graph.params["conv_weight"]
    (integers, scale), new = engine_integers(old), form.values(moved(form, size))["conv_weight"]
    (found, new_scale), peak = engine_integers(new), np.abs(old).max(axis=(1, 2, 3), keepdims=True)
    assert np.array_equal(new_scale, scale)
    assert np.array_equal(found[np.abs(old) == peak], integers[np.abs(old) == peak])
    assert (np.abs(new) <= peak).all()


def test_gradients_are_in_units_and_none_reaches_the_largest() -> None:
    graph = network()
    form, units = form_of(graph), channel_units(graph.params["conv_weight"])
    params = moved(form, 1.0)
    outer = np.random.default_rng(1).normal(size=(len(images()), CHANNELS, 16, 16)).astype(np.float32)
    _, found = trained(with_values(form.graph, params), images(), [outer])
    _, plain = trained(with_values(graph, form.values(params)), images(), [outer])
    weight, column = graph.params["conv_weight"], units[:, None, None, None]
    largest = np.abs(weight) == np.abs(weight).max(axis=(1, 2, 3), keepdims=True)
    # Those beyond the bound have a gradient, too.
    expected = np.where(largest, 0, plain["conv_weight"] * column)
    np.testing.assert_allclose(found["conv_weight_in_units"], expected, rtol=1e-6)
    np.testing.assert_allclose(found["conv_bias_in_units"], plain["conv_bias"] * units, rtol=1e-6)


def test_channels_of_zeros_stay_zeros_where_the_scale_stays() -> None:
    graph = network()
    graph.params["conv_weight"][3] = 0.0
    form = form_of(graph)
    values = form.values(moved(form, 1.0))
    assert not values["conv_weight"][3].any() and values["conv_weight"][4].all()
