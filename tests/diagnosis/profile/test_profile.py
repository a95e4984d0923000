from __future__ import annotations

from dataclasses import astuple, replace

import pytest

from quantkit.backends.mxnet.peak import Peak
from quantkit.backends.mxnet.profiler import Recording
from quantkit.diagnosis.profile.layers import Layer, layers_of
from quantkit.diagnosis.profile.profile import Profile, profile
from tests.diagnosis.profile.recordings import GRAPH, kernel, recording, run

PEAK = Peak(int8=400.0, fp32=100.0)


def profiled(seen: Recording, **macs: int) -> Profile:
    return profile(GRAPH, seen, layers_of(GRAPH, {}), macs, PEAK, 1)


def test_what_was_spent_adds_up_whatever_the_kernels_say() -> None:
    kernels = {
        "conv": (kernel(1.0, "f32", "reorder"), kernel(2.0, "u8")),
        # Timed in another run, in which it took longer than the whole operator does here.
        "more": (kernel(12.0), kernel(4.0, "u8", "reorder")),
    }
    measured = profiled(recording(run(20.0, (4, 1, 8)), kernels=kernels))
    spent = measured.spent
    assert (spent.int8, spent.reorders, spent.conversions) == (2.0, 1.0, 2.0)
    assert (spent.floating, spent.around, spent.own) == (6.0, 1.0, 1.0)
    assert spent.between == pytest.approx(7.0)
    assert sum(astuple(spent)) == pytest.approx(measured.times.total)
    assert sum(row.milliseconds for row in measured.rows) + measured.times.between == pytest.approx(20.0)
    assert measured.isa == ("avx512_core_vnni",)


@pytest.mark.parametrize(
    ("operator", "part"),
    [
        ("_contrib_quantize_v2", "conversions"),
        ("_contrib_quantize_asym", "conversions"),
        ("_contrib_dequantize", "conversions"),
        ("Concat", "copies"),
        ("reverse", "copies"),
    ],
)
def test_operators_that_only_convert_or_move_are_counted_whole(operator: str, part: str) -> None:
    nodes = [replace(node, op=operator) if node.name == "relu" else node for node in GRAPH.nodes]
    graph = replace(GRAPH, nodes=tuple(nodes))
    kernels = {"relu": (kernel(0.5, "f32", "reorder"),)}
    seen = recording(run(20.0, (4, 1, 8), ["Convolution", operator, "Convolution"]), kernels=kernels)
    spent = profile(graph, seen, layers_of(graph, {}), {}, PEAK, 1).spent
    assert (getattr(spent, part), spent.own, spent.reorders) == (1.0, 12.0, 0.0)


def test_speeds_are_against_the_peak_of_the_precision() -> None:
    kernels = {"conv": (kernel(3.0, "u8"),), "more": (kernel(3.0),)}
    measured = profiled(recording(run(20.0, (4, 1, 8)), kernels=kernels), conv=800_000_000, more=400_000_000)
    first, relu, last = measured.rows
    assert (first.int8, first.gmacs, first.of_peak) == (True, 200.0, 0.5)
    assert (last.int8, last.gmacs, last.of_peak) == (False, 50.0, 0.5)
    assert (relu.gmacs, relu.of_peak) == (None, None)
    # 2 ms and 4 ms at peak, of the 10 ms that the median run took without the profiler.
    assert measured.latency == 10.0
    assert measured.of_peak == pytest.approx(0.6)
    assert measured.gmacs == pytest.approx(120.0)


def test_one_layer_gathers_its_nodes_and_shows_its_longest_kernel() -> None:
    layer = Layer("conv", "Convolution", ("conv", "relu"))
    layers = {**layers_of(GRAPH, {}), "conv": layer, "relu": layer}
    kernels = {"conv": (kernel(3.0, "u8", "reorder"), kernel(1.0, "u8")), "relu": (kernel(0.5, primitive="eltwise"),)}
    seen = recording(run(20.0, (4, 1, 8)), kernels=kernels)
    rows = profile(GRAPH, seen, layers, {"conv": 5}, PEAK, 1).rows
    assert [(row.layer.name, row.nodes, row.milliseconds, row.macs) for row in rows] == [
        ("conv", ("conv", "relu"), 5.0, 5),
        ("more", ("more",), 8.0, 0),
    ]
    assert rows[0].kernel == kernel(1.0, "u8")
    assert rows[1].kernel is None


def test_operators_are_counted_and_added_by_type() -> None:
    measured = profiled(recording(run(20.0, (4, 1, 8))))
    assert measured.operators == {"Convolution": (2, 12.0), "Activation": (1, 1.0)}
    assert measured.skipped == ()


def test_a_node_that_the_engine_passes_over_is_named() -> None:
    seen = recording(run(20.0, (4, 8), ["Convolution", "Convolution"]), executed=("conv", "more"))
    measured = profiled(seen)
    assert measured.skipped == ("relu",)
    assert measured.times.nodes == {"conv": 4.0, "more": 8.0}


def test_without_attribution_the_work_is_still_known() -> None:
    measured = profiled(recording(run(20.0, (4,), ["Convolution"])), conv=10**9)
    assert measured.times.doubt
    assert measured.gmacs == pytest.approx(100.0)
    assert sum(astuple(measured.spent)) == pytest.approx(20.0)
