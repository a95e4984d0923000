"""Which tensors are shifted, scaled and given other ranges, by exactly how much, and under which names."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from quantkit.calibration.ranges import Range
from quantkit.errors import DataError
from quantkit.fusion.float_symbol import float_graph
from quantkit.ir.fused_layer import fused_layer_of
from quantkit.ir.graph import Graph, Tensor
from quantkit.progress import silent
from quantkit.quantization.algorithms.apply import apply_algorithms
from quantkit.quantization.algorithms.channel_shift import can_shift, with_channel_shift
from quantkit.quantization.algorithms.equalization import equalized
from quantkit.quantization.algorithms.observer_choice import with_chosen_ranges
from quantkit.quantization.algorithms.own_params import with_own_params
from quantkit.quantization.algorithms.pre_add_ranges import with_measured_pre_add_ranges
from quantkit.quantization.algorithms.reconstruction import reconstruct
from quantkit.quantization.plan import TensorQuantization
from quantkit.quantization.ptq_config import PRESETS, PTQConfig
from quantkit.quantization.quantized_graph import QuantizedGraph
from tests import numpy_engine
from tests.networks import DATA, Builder, images, inverted_residual, residual_v1, residual_v2
from tests.quantization.algorithms.networks import planned
from tests.quantized import parts_of

pytestmark = pytest.mark.usefixtures("engine")

SEEN = images(10, seed=3)


def values(graph: Graph, name: str, data: np.ndarray = SEEN) -> np.ndarray:
    return numpy_engine.run(float_graph(graph).with_outputs([Tensor(name)]).pruned(), {"data": data})[0]


def middle(found: np.ndarray) -> np.ndarray:
    return (found.min((0, 2, 3)) + found.max((0, 2, 3))) / 2


def same(first: Graph, second: Graph) -> bool:
    nodes = [[(node.name, node.op, node.inputs, node.attrs) for node in graph.nodes] for graph in (first, second)]
    return nodes[0] == nodes[1] and all(
        np.array_equal(first.params[name], second.params[name]) for name in first.params.keys() | second.params.keys()
    )


def test_shifted_tensors_are_in_the_middle_of_their_range() -> None:
    """``project_bn`` and ``add`` are read by 1x1 convolutions, and by the sum."""
    fused, plan = planned(inverted_residual(), SEEN)
    own = with_own_params(QuantizedGraph(fused.graph, plan)).graph
    before = {name: values(own, name) for name in ("project_bn", "add")}
    new, changed = parts_of(with_channel_shift(QuantizedGraph(own, plan), SEEN, "minmax"))
    for name, exact in before.items():
        moved = exact - middle(exact).reshape(1, -1, 1, 1)
        peak = np.abs(moved).max()
        form = changed.tensors[Tensor(name)]
        if plan.tensors[Tensor(name)] == form:
            assert peak >= np.abs(exact).max()
            continue
        np.testing.assert_allclose(values(new, name), moved, atol=2e-4)
        assert (form.range.low, form.range.high) == pytest.approx((-peak, peak), rel=1e-4)
        assert form.dtype == "int8"
    untouched = plan.tensors.keys() - {Tensor("project_bn"), Tensor("add")}
    assert all(changed.tensors[tensor] == plan.tensors[tensor] for tensor in untouched)
    assert changed.decisions == plan.decisions


def test_an_unsigned_shortcut_begins_at_0() -> None:
    fused, plan = planned(residual_v1(signed_shortcut=True), SEEN)
    own = with_own_params(QuantizedGraph(fused.graph, plan)).graph
    (name,) = {"bn2", "bn3"} & set(own.by_name)
    exact = values(own, name)
    moved = exact - middle(exact).reshape(1, -1, 1, 1)
    peak = float(np.abs(moved).max())
    new, changed = parts_of(with_channel_shift(QuantizedGraph(own, plan), SEEN, "minmax"))
    assert changed.tensors[Tensor(name)].dtype == "uint8"
    span = changed.tensors[Tensor(name)].range
    assert (span.low, span.high) == pytest.approx((0.0, 2 * peak), rel=1e-4)
    np.testing.assert_allclose(values(new, name), moved + peak, atol=1e-4)
    for data in (SEEN, images(4, seed=8)):
        # Where other images reach below, the ReLU clips; there are few such.
        difference = np.abs(values(new, "relu2", data) - values(own, "relu2", data))
        assert (difference > 1e-3).mean() < 0.01
    node = new.by_name[name]
    layer = fused_layer_of(node)
    assert layer is not None
    assert layer.activation is not None
    assert (node.name, layer.activation.name, node.op) == (name, f"{name}_unsigned", "fused_convolution")


def test_who_can_be_shifted() -> None:
    fused, plan = planned(inverted_residual(), SEEN)
    can = {node.name for node in fused.graph.nodes if can_shift(QuantizedGraph(fused.graph, plan), node)}
    assert can == {"project_bn", "add"}
    fused, plan = planned(residual_v2(), SEEN)
    can = {node.name for node in fused.graph.nodes if can_shift(QuantizedGraph(fused.graph, plan), node)}
    assert can == {"conv0", "add"}


def test_a_tensor_whose_range_would_not_shrink_is_not_shifted() -> None:
    fused, plan = planned(inverted_residual(), SEEN)
    own = with_own_params(QuantizedGraph(fused.graph, plan)).graph
    narrow = {
        tensor: replace(form, range=Range(-1e-3, 1e-3)) if str(tensor) in ("project_bn", "add") else form
        for tensor, form in plan.tensors.items()
    }
    plan = replace(plan, tensors=narrow)
    new, changed = parts_of(with_channel_shift(QuantizedGraph(own, plan), SEEN, "minmax"))
    assert vars(changed) == vars(plan)
    assert same(new, own)


def test_one_tensor_that_is_not_shifted_does_not_hinder_the_next() -> None:
    fused, plan = planned(inverted_residual(), SEEN)
    own = with_own_params(QuantizedGraph(fused.graph, plan)).graph
    first, second = Tensor("project_bn"), Tensor("add")
    assert [
        t
        for t in parts_of(with_channel_shift(QuantizedGraph(own, plan), SEEN, "minmax"))[1].tensors
        if t in (first, second)
    ] == [first, second]
    wide = {tensor: replace(form, range=Range(-100, 100)) for tensor, form in plan.tensors.items()}
    forms = {**wide, first: replace(plan.tensors[first], range=Range(-1e-3, 1e-3))}
    _, changed = parts_of(with_channel_shift(QuantizedGraph(own, replace(plan, tensors=forms)), SEEN, "minmax"))
    assert changed.tensors[first] == forms[first]
    assert changed.tensors[second] != forms[second]


def two_layers(factor: float) -> Graph:
    """The first layer's result, in units of ``factor``, is shifted by the second's biases."""
    b = Builder()
    first = b.conv("first", DATA, 3, 8, 1)
    b.params["first_bias"] += np.float32(3)
    for name in ("first_weight", "first_bias"):
        b.params[name] *= np.float32(factor)
    return b.graph(b.relu("relu", b.conv("second", first, 8, 8, 1)))


def test_small_tensors_are_shifted_too() -> None:
    peaks = []
    for factor in (1, 2**-10):
        fused, plan = planned(two_layers(factor), SEEN)
        own = with_own_params(QuantizedGraph(fused.graph, plan)).graph
        changed = parts_of(with_channel_shift(QuantizedGraph(own, plan), SEEN, "minmax"))[1]
        assert changed.tensors[Tensor("first")] != plan.tensors[Tensor("first")]
        peaks.append(changed.tensors[Tensor("first")].range.largest / factor)
    assert peaks[0] == pytest.approx(peaks[1], rel=1e-3)


def test_a_constant_tensor_keeps_its_range() -> None:
    """Shifted to 0 it would have none."""
    graph = two_layers(1)
    constant = {"first_weight": np.zeros((8, 3, 1, 1), np.float32), "first_bias": np.ones(8, np.float32)}
    fused, plan = planned(replace(graph, params={**graph.params, **constant}), SEEN)
    own = with_own_params(QuantizedGraph(fused.graph, plan)).graph
    assert parts_of(with_channel_shift(QuantizedGraph(own, plan), SEEN, "minmax"))[1].tensors == plan.tensors


@pytest.mark.parametrize("loud", [0, 9])
def test_every_image_counts_for_the_factors(loud: int) -> None:
    b = Builder()
    data = b.relu("relu0", b.conv("conv0", DATA, 3, 8))
    graph = b.graph(b.relu("relu1", b.conv("depthwise", data, 8, 8, groups=8)))
    seen = SEEN.copy()
    seen[loud] *= np.arange(1, 4, dtype=np.float32).reshape(-1, 1, 1) * 4
    fused, plan = planned(graph, seen)
    own = with_own_params(QuantizedGraph(fused.graph, plan)).graph
    new = parts_of(equalized(QuantizedGraph(own, plan), seen, "minmax"))[0]
    peaks = values(own, "relu0", seen).max((0, 2, 3))
    factor = peaks.max() / np.maximum(peaks, peaks.max() / 8)
    np.testing.assert_allclose(new.params["conv0_bias"], own.params["conv0_bias"] * factor, rtol=1e-5)


def test_factors_bring_every_channel_to_the_largest() -> None:
    b = Builder()
    data = b.relu("relu0", b.conv("conv0", DATA, 3, 8))
    b.params["conv0_weight"] *= np.geomspace(0.01, 1, 8, dtype=np.float32).reshape(-1, 1, 1, 1)
    b.params["conv0_bias"] *= np.geomspace(0.01, 1, 8, dtype=np.float32)
    graph = b.graph(b.relu("relu1", b.conv("depthwise", data, 8, 8, groups=8)))
    fused, plan = planned(graph, SEEN)
    own = with_own_params(QuantizedGraph(fused.graph, plan)).graph
    new, changed = parts_of(equalized(QuantizedGraph(own, plan), SEEN, "minmax"))
    peaks = values(own, "relu0").max((0, 2, 3))
    factor = peaks.max() / np.maximum(peaks, peaks.max() / 8)
    for name, shape in (("conv0_weight", (-1, 1, 1, 1)), ("conv0_bias", (-1,))):
        np.testing.assert_allclose(new.params[name], own.params[name] * factor.reshape(shape), rtol=1e-5)
        assert new.params[name].dtype == np.float32
    np.testing.assert_allclose(
        new.params["depthwise_weight"], own.params["depthwise_weight"] / factor.reshape(-1, 1, 1, 1), rtol=1e-5
    )
    np.testing.assert_array_equal(new.params["depthwise_bias"], own.params["depthwise_bias"])
    form = changed.tensors[Tensor("relu0")]
    assert (form.dtype, form.range.high) == ("uint8", pytest.approx((peaks * factor).max(), rel=1e-5))
    assert {t for t, f in changed.tensors.items() if plan.tensors[t] != f} <= {Tensor("relu0")}


def test_own_parameters_have_names_that_tell_whose_they_are() -> None:
    b = Builder()
    first = b.relu("relu1", b.conv("conv1", DATA, 3, 3, bias=False))
    shared = b.nodes[0].inputs[1]
    second = b.op("Convolution", "conv2", first, shared, kernel=(3, 3), pad=(1, 1), num_filter=3, no_bias=True)
    added = b.relu("relu2", b.op("elemwise_add", "add", second, first))
    graph = b.graph(b.conv("conv3", added, 3, 4, bias=False))
    fused, plan = planned(graph, SEEN)
    own = with_own_params(QuantizedGraph(fused.graph, plan)).graph
    assert own.params.keys() == {
        "conv1_weight", "relu1_own_conv1_weight", "conv3_weight",
        "relu1_zero_bias", "relu2_zero_bias", "conv3_zero_bias",
    }  # fmt: skip
    for name, value in own.params.items():
        assert value.dtype == np.float32
        if name.endswith("zero_bias"):
            np.testing.assert_array_equal(value, np.zeros(4 if name.startswith("conv3") else 3))
    last = own.by_name["conv3"]
    assert last.attrs["no_bias"] == "False"
    assert last.inputs == (Tensor("relu2"), Tensor("conv3_weight"), Tensor("conv3_zero_bias"))
    layer = fused_layer_of(own.by_name["relu2"])
    assert layer is not None
    assert layer.node.inputs == (
        Tensor("relu1"), Tensor("conv1_weight"), Tensor("relu2_zero_bias"), Tensor("relu1"),
    )  # fmt: skip
    assert layer.node.body is not None
    assert layer.node.body.inputs == ("data", "weight", "bias", "addend")
    assert layer.core.attrs["no_bias"] == "False"
    np.testing.assert_allclose(values(own, "conv3"), values(fused.graph, "conv3"), atol=1e-5)


def test_int8_convolutions_are_neither_dense_nor_fp32_nor_of_computed_weights() -> None:
    fused, plan = planned(residual_v1(), SEEN, "conv1")
    network = QuantizedGraph(fused.graph, plan)
    found = {node.name for node in fused.graph.nodes if network.int8_convolution(node) is not None}
    assert found == {"relu0", "relu2"}
    assert network.int8_convolution(None) is None


def test_the_range_before_a_sum_is_found_with_other_parts_in_fp32() -> None:
    fused, plan = planned(residual_v2(), SEEN, "conv1")
    found = with_measured_pre_add_ranges(
        QuantizedGraph(fused.graph, plan), [SEEN[:4], SEEN[4:8], SEEN[8:]], 4, "minmax"
    ).plan
    assert list(found.pre_add_ranges) == [Tensor("add")]
    exact = numpy_engine.run(fused.original.with_outputs([Tensor("conv2")]).pruned(), {"data": SEEN})[0]
    span = found.pre_add_ranges[Tensor("add")]
    assert (span.low, span.high) == pytest.approx((exact.min(), exact.max()), rel=1e-4)
    assert vars(replace(found, pre_add_ranges={})) == vars(plan)
    with pytest.raises(DataError):
        with_measured_pre_add_ranges(QuantizedGraph(fused.graph, plan), [], 4, "minmax")


def test_techniques_follow_one_another() -> None:
    """Each takes what the one before has left; the exact network is that before weights are adapted."""
    fused, plan = planned(residual_v2(), SEEN)
    own = with_own_params(QuantizedGraph(fused.graph, plan)).graph
    batches = [SEEN[:4], SEEN[4:]]
    graph, now = parts_of(with_channel_shift(QuantizedGraph(own, plan), SEEN, "minmax"))
    found = apply_algorithms(
        QuantizedGraph(fused.graph, plan), fused.original, batches, "minmax", PTQConfig(channel_shift=True), silent
    )
    assert same(found.network.graph, graph)
    assert same(found.exact, graph)
    assert vars(found.network.plan) == vars(now)
    assert found.algorithms == PTQConfig(channel_shift=True, num_samples=10)
    graph, now = parts_of(equalized(QuantizedGraph(graph, now), SEEN, "minmax"))
    now = with_chosen_ranges(QuantizedGraph(graph, now), SEEN).plan
    switched = PTQConfig(channel_shift=True, equalize=True, observers=True, bias=True, num_samples=3)
    found = apply_algorithms(QuantizedGraph(fused.graph, plan), fused.original, batches, "minmax", switched, silent)
    assert same(found.exact, graph)
    assert vars(found.network.plan) == vars(now)
    assert same(found.network.graph, reconstruct(QuantizedGraph(graph, now), SEEN, switched, silent).graph)
    assert found.algorithms == replace(switched, num_samples=10)
    with pytest.raises(DataError) as caught:
        apply_algorithms(QuantizedGraph(fused.graph, plan), fused.original, [], "minmax", PRESETS["fast"], silent)
    assert str(caught.value) == "there are no samples for the algorithms to look at; give some, or use the preset none"


def test_forms_are_kept_where_ranges_are_chosen() -> None:
    fused, plan = planned(residual_v1(), SEEN)
    changed = with_chosen_ranges(QuantizedGraph(fused.graph, plan), SEEN).plan
    for tensor, form in plan.tensors.items():
        assert isinstance(changed.tensors[tensor], TensorQuantization)
        assert changed.tensors[tensor].dtype == form.dtype
    assert vars(replace(changed, tensors=plan.tensors)) == vars(plan)
