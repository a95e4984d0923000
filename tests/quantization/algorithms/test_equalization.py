"""Scaled tensors: the same network, every channel in full use of the integers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.fusion.float_symbol import float_graph
from quantkit.ir.graph import Graph, Tensor
from quantkit.lowering.mxnet_int8 import int8_graph
from quantkit.quantization.algorithms.equalization import equalized
from quantkit.quantization.algorithms.own_params import with_own_params
from quantkit.quantization.plan import QuantizationPlan
from quantkit.quantization.quantized_graph import QuantizedGraph
from tests.networks import DATA, Builder, images, inverted_residual, residual_v1, residual_v2
from tests.quantization.algorithms.networks import planned
from tests.quantized import parts_of

pytestmark = pytest.mark.usefixtures("engine")


SEEN = images(64)


def scaled(graph: Graph, *exclude: str) -> tuple[Graph, QuantizationPlan, Graph, QuantizationPlan]:
    fused, plan = planned(graph, SEEN, *exclude)
    own = with_own_params(QuantizedGraph(fused.graph, plan)).graph
    return own, plan, *parts_of(equalized(QuantizedGraph(own, plan), SEEN, "minmax"))


def before_depthwise() -> Graph:
    """Channels of very different size between a convolution and a depthwise one."""
    b = Builder()
    data = b.relu("relu0", b.conv("conv0", DATA, 3, 8))
    b.params["conv0_weight"] *= np.geomspace(0.2, 1, 8, dtype=np.float32).reshape(-1, 1, 1, 1)
    b.params["conv0_bias"] *= 0.1
    return b.graph(b.relu("relu1", b.conv("depthwise", data, 8, 8, groups=8)))


def after_a_dense_layer() -> Graph:
    """``before_depthwise`` of what a dense layer makes of the images."""
    b = Builder()
    dense = b.dense("dense", DATA, 768, 192)
    maps = b.op("Reshape", "maps", dense, shape=(-1, 3, 8, 8))
    data = b.relu("relu0", b.conv("conv0", maps, 3, 8))
    b.params["conv0_weight"] *= np.geomspace(0.2, 1, 8, dtype=np.float32).reshape(-1, 1, 1, 1)
    b.params["conv0_bias"] *= 0.1
    return b.graph(b.relu("relu1", b.conv("depthwise", data, 8, 8, groups=8)))


def uneven_trunk() -> Graph:
    """``residual_v2``, its trunk in another unit for each channel."""
    graph = residual_v2()
    unit = np.where(np.arange(16) == 0, 1, 0.25).astype(np.float32)
    params = dict(graph.params)
    for name in ("conv0_weight", "conv2_weight"):
        params[name] = params[name] * unit.reshape(-1, 1, 1, 1)
    for name in ("bn1", "bn3"):
        params[f"{name}_moving_mean"] = params[f"{name}_moving_mean"] * unit
        params[f"{name}_moving_var"] = params[f"{name}_moving_var"] * unit**2
    return replace(graph, params=params)


@pytest.mark.parametrize("make", [residual_v2, uneven_trunk, before_depthwise, after_a_dense_layer])
def test_the_network_computes_what_it_did(make: object) -> None:
    assert callable(make)
    own, plan, new, changed = scaled(make())
    assert plan.tensors != changed.tensors
    data = images(seed=5)
    before, after = (run(float_graph(form), {"data": data})[0] for form in (own, new))
    np.testing.assert_allclose(after, before, atol=1e-5 * np.abs(before).max())


@pytest.mark.parametrize(
    ("make", "tensors"),
    [(uneven_trunk, ("conv0", "add")), (before_depthwise, ("relu0",)), (after_a_dense_layer, ("relu0",))],
)
def test_a_trunk_has_one_factor_and_its_channels_the_range_of_the_largest(
    make: object, tensors: tuple[str, ...]
) -> None:
    assert callable(make)
    own, plan, new, changed = scaled(make())
    used = []
    factors = []
    for name in tensors:
        tensor = Tensor(name)
        before, after = (run(float_graph(form.with_outputs([tensor])), {"data": SEEN})[0] for form in (own, new))
        peaks = np.abs(before).max(axis=(0, 2, 3)), np.abs(after).max(axis=(0, 2, 3))
        factors.append(peaks[1] / peaks[0])
        used.append(peaks[1] / plan.tensors[tensor].range.largest)
        np.testing.assert_allclose(changed.tensors[tensor].range.largest, peaks[1].max(), rtol=1e-5)
    for factor in factors:
        np.testing.assert_allclose(factor, factors[0], rtol=1e-4)
    np.testing.assert_allclose(np.max(used, axis=0), np.max(used), rtol=1e-4)


@pytest.mark.requires("vnni")
@pytest.mark.parametrize("make", [uneven_trunk, before_depthwise])
def test_the_error_in_int8_falls(make: object, int8_engine: None) -> None:
    assert callable(make)
    own, plan, new, changed = scaled(make())
    data = images(32, seed=5)
    exact = run(float_graph(own), {"data": data})[0]
    before, after = (
        run(int8_graph(QuantizedGraph(*pair)), {"data": data})[0] for pair in ((own, plan), (new, changed))
    )
    assert np.square(after - exact).mean() < 0.9 * np.square(before - exact).mean()


def test_a_channel_that_is_hardly_seen_is_scaled_by_8_at_most() -> None:
    graph = before_depthwise()
    weight = graph.params["conv0_weight"].copy()
    weight[2] *= 1e-3
    bias = np.where(np.arange(8) == 2, 1e-4, graph.params["conv0_bias"]).astype(np.float32)
    own, _, new, _ = scaled(replace(graph, params={**graph.params, "conv0_weight": weight, "conv0_bias": bias}))
    factor = new.params["conv0_bias"][2] / own.params["conv0_bias"][2]
    np.testing.assert_allclose(factor, 8, rtol=1e-5)


def two_readers() -> Graph:
    b = Builder()
    data = b.relu("relu0", b.conv("conv0", DATA, 3, 8))
    return b.graph(b.relu("relu1", b.conv("depthwise", data, 8, 8, groups=8)), b.op("tanh", "tanh", data))


def an_output() -> Graph:
    b = Builder()
    data = b.relu("relu0", b.conv("conv0", DATA, 3, 8))
    return b.graph(b.relu("relu1", b.conv("depthwise", data, 8, 8, groups=8)), data)


def two_channels_at_a_time() -> Graph:
    """As many groups as results, but each reads two channels."""
    b = Builder()
    data = b.relu("relu0", b.conv("conv0", DATA, 3, 8))
    return b.graph(b.relu("relu1", b.conv("grouped", data, 8, 4, groups=4)))


@pytest.mark.parametrize("make", [residual_v1, inverted_residual, two_readers, an_output, two_channels_at_a_time])
def test_who_would_lose_or_see_the_scale_forbids_it(make: object) -> None:
    """Dense readers lose precision of weights, clipping at 6 has a fixed place, others would see other values."""
    assert callable(make)
    own, plan, new, changed = scaled(make())
    assert new is own
    assert changed is plan


def test_what_forbids_one_tensor_of_a_trunk_forbids_all() -> None:
    """The sum is a result of the network, its shortcut is not."""
    graph = residual_v2()
    own, _, new, _ = scaled(replace(graph, outputs=(*graph.outputs, Tensor("add"))))
    assert new is own


def test_a_reader_in_fp32_forbids_it() -> None:
    own, _, new, _ = scaled(before_depthwise(), "depthwise")
    assert new is own


def test_images_that_leave_the_tensor_0_change_nothing() -> None:
    graph = before_depthwise()
    params = {**graph.params, "conv0_bias": np.zeros(8, np.float32)}
    fused, plan = planned(replace(graph, params=params), SEEN)
    own = with_own_params(QuantizedGraph(fused.graph, plan)).graph
    new, changed = parts_of(equalized(QuantizedGraph(own, plan), np.zeros_like(SEEN), "minmax"))
    assert changed.tensors == plan.tensors
    for name, value in own.params.items():
        np.testing.assert_array_equal(new.params[name], value)
