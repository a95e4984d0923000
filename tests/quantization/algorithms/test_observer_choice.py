"""The range of each tensor, by what its readers make of the rounding."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.calibration.collect import collect_ranges
from quantkit.calibration.ranges import Range
from quantkit.fusion.float_symbol import float_graph
from quantkit.ir.graph import Graph, Tensor
from quantkit.quantization.algorithms.observer_choice import CANDIDATES, with_chosen_ranges
from quantkit.quantization.plan import QuantizationPlan
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.quantization.simulation.rounding import rounded
from tests.networks import DATA, Builder, images
from tests.quantization.algorithms.networks import planned

pytestmark = pytest.mark.usefixtures("engine")

SEEN = images(8, seed=3)


def with_outlier(read: float) -> Graph:
    """A tensor whose first channel is 30 times as large as the others; its reader takes ``read`` times of that."""
    b = Builder()
    data = b.relu("relu0", b.conv("conv0", DATA, 3, 16))
    graph = b.graph(b.relu("relu1", b.conv("conv1", data, 16, 8)))
    weights = {name: graph.params[name].copy() for name in ("conv0_weight", "conv1_weight")}
    weights["conv0_weight"][0] *= 30
    weights["conv1_weight"][:, 0] *= read
    return replace(graph, params={**graph.params, **weights})


def output_error(graph: Graph, plan: QuantizationPlan, values: Range) -> float:
    """What rounding relu0 to this range does to conv1, computed in NumPy."""
    tensor = Tensor("relu0")
    (value,) = run(float_graph(graph.with_outputs([tensor]).pruned()), {"data": SEEN})
    error = rounded(value, replace(plan.tensors[tensor], range=values)) - value
    weight = graph.params["conv1_weight"]
    padded = np.pad(error, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    return float(np.square(np.einsum("nchwij,ocij->nohw", windows, weight)).sum())


@pytest.mark.parametrize("read", [0.0, 1.0])
def test_the_range_is_the_candidate_of_least_output_error(read: float) -> None:
    fused, plan = planned(with_outlier(read), SEEN)
    chosen = with_chosen_ranges(QuantizedGraph(fused.graph, plan), SEEN).plan.tensors[Tensor("relu0")].range
    network = float_graph(fused.graph)
    ranges = [collect_ranges(network, [Tensor("relu0")], [SEEN], 8, method)["relu0"] for method in CANDIDATES]
    errors = [output_error(fused.graph, plan, each) for each in ranges]
    assert max(errors) > 1.1 * min(errors)
    assert output_error(fused.graph, plan, chosen) <= 1.001 * min(errors)


def test_what_the_reader_ignores_may_be_clipped() -> None:
    """The same tensor; only the reader differs."""
    ignored, taken = (
        with_chosen_ranges(QuantizedGraph(fused.graph, plan), SEEN).plan.tensors[Tensor("relu0")].range.largest
        for fused, plan in (planned(with_outlier(read), SEEN) for read in (0.0, 1.0))
    )
    assert ignored < taken


def test_scales_that_others_share_stay() -> None:
    """A pooling passes its input's scale on, so neither side of it may change."""
    b = Builder()
    data = b.relu("relu0", b.conv("conv0", DATA, 3, 8))
    pooled = b.op("Pooling", "pool", data, kernel=(2, 2), stride=(2, 2), pool_type="max")
    fused, plan = planned(b.graph(b.relu("relu1", b.conv("conv1", pooled, 8, 8))), SEEN)
    changed = with_chosen_ranges(QuantizedGraph(fused.graph, plan), SEEN).plan.tensors
    for name in ("relu0", "pool", "relu1"):
        assert changed[Tensor(name)] == plan.tensors[Tensor(name)]


def test_what_others_read_keeps_its_range() -> None:
    b = Builder()
    data = b.relu("relu0", b.conv("conv0", DATA, 3, 8))
    fused, plan = planned(b.graph(b.relu("relu1", b.conv("conv1", data, 8, 8)), b.op("tanh", "tanh", data)), SEEN)
    assert with_chosen_ranges(QuantizedGraph(fused.graph, plan), SEEN).plan.tensors[data] == plan.tensors[data]


def test_sums_count_as_readers() -> None:
    """The convolution ignores the outlier, but the sum takes it as it is."""

    def chosen(is_added: bool) -> float:
        b = Builder()
        data = b.relu("relu0", b.conv("conv0", DATA, 3, 16))
        result = b.conv("conv1", data, 16, 16)
        b.params["conv0_weight"][0] *= 30
        b.params["conv1_weight"][:, 0] = 0
        fused, plan = planned(
            b.graph(b.relu("relu1", b.op("elemwise_add", "add", result, data) if is_added else result)), SEEN
        )
        return with_chosen_ranges(QuantizedGraph(fused.graph, plan), SEEN).plan.tensors[data].range.largest

    assert chosen(is_added=True) > chosen(is_added=False)


def test_results_of_the_network_keep_their_range() -> None:
    b = Builder()
    data = b.relu("relu0", b.conv("conv0", DATA, 3, 8))
    graph = b.graph(b.relu("relu1", b.conv("conv1", data, 8, 8)), data)
    fused, plan = planned(graph, SEEN)
    assert with_chosen_ranges(QuantizedGraph(fused.graph, plan), SEEN).plan.tensors[data] == plan.tensors[data]
    alone, plan = planned(replace(graph, outputs=graph.outputs[:1]), SEEN)
    assert with_chosen_ranges(QuantizedGraph(alone.graph, plan), SEEN).plan.tensors[data] != plan.tensors[data]


def test_images_that_leave_tensors_0_change_nothing() -> None:
    b = Builder()
    data = b.relu("relu0", b.conv("conv0", DATA, 3, 8, bias=False))
    fused, plan = planned(b.graph(b.relu("relu1", b.conv("conv1", data, 8, 8))), SEEN)
    assert with_chosen_ranges(QuantizedGraph(fused.graph, plan), np.zeros_like(SEEN)).plan.tensors == plan.tensors


def test_every_image_counts_for_the_ranges() -> None:
    data = SEEN.copy()
    data[-1] *= 5
    fused, plan = planned(with_outlier(1.0), data)
    chosen = with_chosen_ranges(QuantizedGraph(fused.graph, plan), data).plan.tensors[Tensor("relu0")].range
    network = float_graph(fused.graph)
    ranges = [collect_ranges(network, [Tensor("relu0")], [data], 8, method)["relu0"] for method in CANDIDATES]
    assert min(abs(chosen.largest - each.largest) for each in ranges) < 1e-4 * chosen.largest


def test_small_tensors_have_a_choice_too() -> None:
    """A power of two of the same network: the same choice."""
    graph = with_outlier(0.0)
    small = {name: graph.params[name] / 1024 for name in ("conv0_weight", "conv0_bias")}
    pairs = [planned(each, SEEN) for each in (graph, replace(graph, params={**graph.params, **small}))]
    large, reduced = (
        with_chosen_ranges(QuantizedGraph(fused.graph, plan), SEEN).plan.tensors[Tensor("relu0")].range.largest
        for fused, plan in pairs
    )
    assert reduced < 1
    assert reduced * 1024 == pytest.approx(large, rel=1e-3)


def test_a_reader_in_fp32_leaves_no_choice() -> None:
    b = Builder()
    data = b.relu("relu0", b.conv("conv0", DATA, 3, 8))
    graph = b.graph(b.relu("relu1", b.conv("conv1", data, 8, 8)), b.relu("relu2", b.conv("conv2", data, 8, 8)))
    fused, plan = planned(graph, SEEN, "conv2")
    assert with_chosen_ranges(QuantizedGraph(fused.graph, plan), SEEN).plan.tensors[data] == plan.tensors[data]
    fused, plan = planned(graph, SEEN)
    assert with_chosen_ranges(QuantizedGraph(fused.graph, plan), SEEN).plan.tensors[data] != plan.tensors[data]


def test_a_layer_that_also_adds_what_it_reads_counts_as_both() -> None:
    """The sum wants the outlier, the convolution has no use for it, but a thousand times as much of the others."""

    def chosen(factor: float) -> float:
        b = Builder()
        data = b.relu("relu0", b.conv("conv0", DATA, 3, 16))
        result = b.conv("conv1", data, 16, 16)
        b.params["conv0_weight"][0] *= 30
        b.params["conv1_weight"] *= np.float32(factor)
        b.params["conv1_weight"][:, 0] = 0
        fused, plan = planned(b.graph(b.relu("relu1", b.op("elemwise_add", "add", result, data))), SEEN)
        return with_chosen_ranges(QuantizedGraph(fused.graph, plan), SEEN).plan.tensors[data].range.largest

    assert chosen(1000.0) < chosen(1.0)
