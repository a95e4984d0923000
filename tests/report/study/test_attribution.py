from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from quantkit.benchmark.results.results import Contestant, Results, Settings
from quantkit.report.study.attribution import attributions, one_per_network
from quantkit.report.study.scaling import scalings
from quantkit.report.study.summary import Study, summarize
from tests.report.synthetic import (
    BUILDS,
    CONTESTANTS,
    FUSED,
    INT8,
    MKLDNN,
    NATIVE,
    PINNED,
    SPEED,
    cell,
    results,
    rounds,
)


def study(given: Results) -> Study:
    return summarize([given])[0]


def without(given: Results, *keys: tuple[int, str]) -> Results:
    return Results(given.run, tuple(each for each in given.cells if (each.batch, each.contestant.name) not in keys))


def labels(given: Results) -> list[list[tuple[str, str]]]:
    return [[(step.label, step.contestant) for step in each.steps] for each in attributions(study(given))]


def test_the_factors_multiply_to_the_total() -> None:
    found = attributions(study(results()))
    assert [(each.network, each.batch, each.metric) for each in found] == [
        ("resnet50_v1", 1, "throughput"),
        ("resnet50_v1", 16, "throughput"),
    ]
    for each in found:
        factors = np.cumprod([step.factor.value for step in each.steps])
        assert factors == pytest.approx([step.total.value for step in each.steps])
        expected = [5.0, 7.0, 20.0, 24.0]  # two pinned instances at 12 each
        assert factors == pytest.approx(expected, rel=0.08)


def test_steps_follow_the_way_to_int8() -> None:
    steps = [("onednn", "MKL-DNN"), ("fusion", "fused"), ("INT8", "INT8"), ("placed node", "INT8 pinned")]
    assert labels(results(batches=(1,))) == [steps]


def test_a_missing_step_joins_the_next() -> None:
    given = results(batches=(1,))
    assert labels(without(given, (1, "MKL-DNN"), (1, "INT8 pinned"))) == [
        [("onednn + fusion", "fused"), ("INT8", "INT8")]
    ]
    assert labels(without(given, (1, "INT8"))) == [
        [("onednn", "MKL-DNN"), ("fusion", "fused"), ("INT8 + placed node", "INT8 pinned")]
    ]
    assert labels(without(given, (1, "native"))) == []


def test_other_engines_have_no_step_of_fusion() -> None:
    given = results(batches=(1,), contestants=(NATIVE, MKLDNN, INT8))
    assert labels(given) == [[("onednn", "MKL-DNN"), ("fusion + INT8", "INT8")]]
    builds = tuple(replace(each, engine="openvino" if each.name == "onednn" else each.engine) for each in BUILDS)
    assert labels(Results(replace(given.run, builds=builds), given.cells)) == [
        [("onednn", "MKL-DNN"), ("INT8", "INT8")]
    ]


def test_stock_fusion_stands_in_only_where_there_is_no_other() -> None:
    stock = Contestant("stock", "onednn", "stock", "machine")
    speed = {**SPEED, "stock": 6.0}
    assert labels(results(batches=(1,), contestants=(NATIVE, MKLDNN, stock, INT8), speed=speed)) == [
        [("onednn", "MKL-DNN"), ("MXNet's fusion", "stock"), ("INT8", "INT8")]
    ]
    both = labels(results(batches=(1,), contestants=(NATIVE, MKLDNN, stock, FUSED, INT8), speed=speed))
    assert ("fusion", "fused") in both[0]


def test_the_fastest_placement_is_taken() -> None:
    slow = Contestant("INT8 slow", "onednn", "int8", "2x1")
    given = results(batches=(1,), contestants=(*CONTESTANTS, slow), speed={**SPEED, "INT8 slow": 2.0})
    assert labels(given)[0][-1] == ("placed node", "INT8 pinned")


def test_a_baseline_of_the_same_build_begins_the_way() -> None:
    assert labels(results(batches=(1,), contestants=(MKLDNN, FUSED, INT8))) == [[("fusion", "fused"), ("INT8", "INT8")]]


def test_each_network_is_shown_where_it_has_the_most_steps() -> None:
    given = without(results(batches=(1, 4, 16)), (16, "MKL-DNN"))
    assert [each.batch for each in one_per_network(attributions(study(given)))] == [4]
    slow = results(batches=(1, 4), scenario="latency")
    assert [each.batch for each in one_per_network(attributions(study(slow)))] == [1]


def test_scaling_is_relative_to_the_fewest_threads() -> None:
    random = np.random.default_rng(0)
    policies = {"8x1": (8, 1), "1x1": (1, 1), "2x2": (2, 2)}
    contestants = tuple(Contestant(name, "onednn", "int8", name) for name in policies)
    cells = []
    for each in contestants:
        count, threads = policies[each.name]
        base = cell("net", 1, each, rounds(random, 40 / threads, count))
        placement = replace(base.placements[0], threads=threads)
        cells.append(replace(base, placements=(placement,) * count))
    given = results(("net",), (1,), contestants, speed=dict.fromkeys(policies, 1.0), instances={})
    (found,) = scalings(study(Results(given.run, tuple(cells))))
    assert [(point.policy, point.instances, point.threads, point.ideal) for point in found.points] == [
        ("1x1", 1, 1, 1.0),
        ("2x2", 2, 4, 4.0),
        ("8x1", 8, 8, 8.0),
    ]
    assert [point.speedup.value for point in found.points] == pytest.approx([1, 4, 8], rel=0.1)


def test_scaling_needs_two_placements_of_the_same() -> None:
    assert [each.variant for each in scalings(study(results(batches=(1,))))] == ["int8"]
    assert scalings(study(results(contestants=(NATIVE, MKLDNN, INT8)))) == ()
    assert scalings(study(results(contestants=(INT8, PINNED), scenario="latency"))) == ()


def test_contestants_with_settings_of_their_own_are_no_placements() -> None:
    tuned = replace(INT8, name="tuned", settings=Settings("intel"))
    assert scalings(study(results(contestants=(NATIVE, INT8, tuned), speed={**SPEED, "tuned": 3.0}))) == ()


def test_efficiency_is_the_share_of_the_ideal() -> None:
    (found,) = scalings(study(results(batches=(1,), contestants=(NATIVE, INT8, PINNED))))
    for point in found.points:
        assert point.efficiency == point.speedup.value * found.points[0].threads / point.threads
