"""Shifted tensors: the same network, in better use of the integers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.fusion.float_symbol import float_graph
from quantkit.ir.fused_layer import fused_layer_of
from quantkit.ir.graph import Graph
from quantkit.lowering.mxnet_int8 import int8_graph
from quantkit.quantization.algorithms.channel_shift import with_channel_shift
from quantkit.quantization.algorithms.own_params import with_own_params
from quantkit.quantization.plan import QuantizationPlan
from quantkit.quantization.quantized_graph import QuantizedGraph
from tests.networks import DATA, Builder, images, inverted_residual, residual_v1, residual_v2
from tests.quantization.algorithms.networks import planned
from tests.quantized import parts_of

pytestmark = pytest.mark.usefixtures("engine")


def shifted(graph: Graph, *exclude: str) -> tuple[Graph, QuantizationPlan, Graph, QuantizationPlan]:
    fused, plan = planned(graph, images(), *exclude)
    own = with_own_params(QuantizedGraph(fused.graph, plan)).graph
    return own, plan, *parts_of(with_channel_shift(QuantizedGraph(own, plan), images(), "minmax"))


def lopsided(graph: Graph) -> Graph:
    """The network with shifts that differ from channel to channel, as trained ones have them."""
    betas = {
        name: value - 4 * np.arange(len(value)) / len(value) for name, value in graph.params.items() if "beta" in name
    }
    return replace(graph, params={**graph.params, **{name: value.astype(np.float32) for name, value in betas.items()}})


@pytest.mark.parametrize("graph", [residual_v2(), inverted_residual(), lopsided(inverted_residual())])
def test_the_network_computes_what_it_did(graph: Graph) -> None:
    own, plan, new, changed = shifted(graph)
    assert plan.tensors != changed.tensors
    assert {value.dtype for value in new.params.values()} == {np.dtype(np.float32)}
    data = images(seed=5)
    before, after = (run(float_graph(form), {"data": data})[0] for form in (own, new))
    np.testing.assert_allclose(after, before, atol=1e-4 * np.abs(before).max())


def test_ranges_become_narrower_and_symmetric() -> None:
    _, plan, _, changed = shifted(lopsided(inverted_residual()))
    moved = [tensor for tensor, form in plan.tensors.items() if changed.tensors[tensor] != form]
    assert {str(tensor) for tensor in moved} == {"project_bn", "add"}
    for tensor in moved:
        assert changed.tensors[tensor].range.largest < 0.9 * plan.tensors[tensor].range.largest
        assert changed.tensors[tensor].dtype == "int8"


@pytest.mark.requires("vnni")
def test_the_error_in_int8_falls(int8_engine: None) -> None:
    own, plan, new, changed = shifted(lopsided(inverted_residual()))
    data = images(32, seed=5)
    exact = run(float_graph(own), {"data": data})[0]
    before, after = (
        run(int8_graph(QuantizedGraph(*pair)), {"data": data})[0] for pair in ((own, plan), (new, changed))
    )
    assert np.square(after - exact).mean() < 0.8 * np.square(before - exact).mean()


@pytest.mark.requires("vnni")
def test_a_shortcut_that_is_only_added_becomes_unsigned(int8_engine: None) -> None:
    own, plan, new, changed = shifted(residual_v1(signed_shortcut=True))
    (shortcut,) = (tensor for tensor, form in plan.tensors.items() if changed.tensors[tensor] != form)
    assert (plan.tensors[shortcut].dtype, changed.tensors[shortcut].dtype) == ("int8", "uint8")
    layer = fused_layer_of(new.by_name[shortcut.node])
    assert layer is not None
    assert layer.activation_kind == "relu"
    data = images()
    exact = run(float_graph(own), {"data": data})[0]
    before, after = (
        run(int8_graph(QuantizedGraph(*pair)), {"data": data})[0] for pair in ((own, plan), (new, changed))
    )
    assert np.square(after - exact).mean() < np.square(before - exact).mean()


def padded_reader() -> Graph:
    b = Builder()
    data = b.conv("first", DATA, 3, 8, 1)
    return b.graph(b.relu("relu", b.conv("second", data, 8, 8, kernel=3)))


def two_readers() -> Graph:
    b = Builder()
    data = b.conv("first", DATA, 3, 8, 1)
    return b.graph(b.relu("relu", b.conv("second", data, 8, 8, kernel=1)), b.op("tanh", "tanh", data))


def an_output() -> Graph:
    b = Builder()
    data = b.conv("first", DATA, 3, 8, 1)
    return b.graph(b.relu("relu", b.conv("second", data, 8, 8, kernel=1)), data)


@pytest.mark.parametrize("make", [padded_reader, two_readers, an_output])
def test_who_would_see_the_shift_forbids_it(make: object) -> None:
    assert callable(make)
    own, plan, new, changed = shifted(make())
    assert new is own
    assert changed is plan


def test_a_reader_in_fp32_forbids_it() -> None:
    own, _, new, _ = shifted(inverted_residual(), "expand*", "last*", "narrow*")
    assert new is own
