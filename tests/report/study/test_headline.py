from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from quantkit.benchmark.build import Build
from quantkit.benchmark.results.results import Agreement, Contestant, Network, Results
from quantkit.benchmark.results.statistics import Ratio, geometric_mean
from quantkit.report.study.headline import accuracy, headline, machine, speeds
from quantkit.report.study.summary import Study, summarize
from quantkit.report.study.words import MARK, factor
from tests.report.synthetic import BUILDS, FUSED, HOST, INT8, NATIVE, REASONS, results, run, served


def study(given: Results) -> Study:
    return summarize([given])[0]


def told(networks: Sequence[Network], contestant: Contestant = INT8, builds: Sequence[Build] = BUILDS) -> str:
    given = results([each.name for each in networks], (1,), (NATIVE, contestant), {contestant.name: 5.0})
    return accuracy(
        study(Results(replace(given.run, networks=tuple(networks), builds=tuple(builds)), given.cells)), contestant.name
    )


def test_one_comparison_is_its_ratio() -> None:
    given = study(results(batches=(1,), contestants=(NATIVE, INT8)))
    (row,) = [row for row in given.rows if row.speedup]
    (speed,) = speeds(given)
    assert row.speedup is not None
    assert (speed.contestant, speed.metric, speed.comparisons, speed.doubtful) == ("INT8", "throughput", 1, False)
    assert (speed.ratio.value, speed.ratio.low, speed.ratio.high) == pytest.approx(
        (row.speedup.value, row.speedup.low, row.speedup.high)
    )
    found = headline(given)
    assert found is not None
    ((value, says),) = found.figures
    assert value == f"{factor(row.speedup.value)}\u00d7"
    ends = factor(row.speedup.low), factor(row.speedup.high)
    assert says == f"as fast as native in throughput, 95 % interval {ends[0]} to {ends[1]}"


def test_several_comparisons_are_their_geometric_mean() -> None:
    given = study(results(("a", "b"), (1, 8), (NATIVE, FUSED, INT8)))
    (speed,) = speeds(given)
    values = [row.speedup.value for row in given.rows if row.speedup and row.contestant == "INT8"]
    assert speed.comparisons == len(values) == 4
    assert speed.ratio.value == pytest.approx(math.prod(values) ** (1 / 4))
    found = headline(given)
    assert found is not None
    assert found.figures[0][1].endswith("(geometric mean of 4 comparisons)")


def test_the_interval_of_a_geometric_mean_covers_as_often_as_it_says() -> None:
    """Of ratios with normal logarithms, whose 95 % intervals are known."""
    random = np.random.default_rng(5)
    truth, spread = np.log([2.0, 8.0, 30.0]), np.array([0.02, 0.2, 0.1])
    hits = 0
    for drawn in random.normal(truth, spread, (2000, 3)):
        margin = 1.959964 * spread
        mean = geometric_mean([Ratio(*np.exp(each)) for each in zip(drawn, drawn - margin, drawn + margin)])
        hits += mean.low <= np.exp(truth.mean()) <= mean.high
    assert hits / 2000 == pytest.approx(0.95, abs=0.015)


def test_without_an_interval_nothing_is_proven() -> None:
    mean = geometric_mean([Ratio(2.0, 1.9, 2.1), Ratio(8.0, 0.0, float("inf"))])
    assert (mean.value, mean.low, mean.high) == (pytest.approx(4.0), 0.0, float("inf"))
    given = results(batches=(1,), contestants=(NATIVE, INT8))
    once = Results(given.run, tuple(replace(cell, rounds=cell.rounds[:1]) for cell in given.cells))
    found = headline(study(once))
    assert found is not None
    assert "proves nothing" in found.figures[0][1]


def test_doubt_is_marked() -> None:
    given = results(batches=(1, 8), contestants=(NATIVE, INT8))
    calm, noisy = (
        study(given),
        study(Results(given.run, (replace(given.cells[0], warnings=("few",)), *given.cells[1:]))),
    )
    for each, mark in ((calm, False), (noisy, True)):
        found = headline(each)
        assert found is not None
        assert (MARK in found.figures[0][1]) is mark


def test_a_speed_that_cannot_be_told_from_the_baseline_is_called_so() -> None:
    given = results(batches=(1,), contestants=(NATIVE, INT8), speed={"INT8": 1.0}, requests=30)
    cells = (given.cells[0], replace(given.cells[0], contestant=INT8))
    found = headline(study(Results(given.run, cells)))
    assert found is not None
    assert found.figures[0][1].endswith(": not distinguishable")


def test_each_metric_has_its_figure() -> None:
    given = results(("a", "b"), (1,), (NATIVE, INT8))
    mixed = tuple(replace(each, scenario="latency") if each.network == "a" else each for each in given.cells)
    assert [each.metric for each in speeds(study(Results(given.run, mixed)))] == ["throughput", "latency"]


def test_int8_leads_though_others_are_faster() -> None:
    given = study(results(batches=(1,), contestants=(NATIVE, FUSED, INT8), speed={"fused": 9.0, "INT8": 3.0}))
    assert speeds(given)[0].contestant == "INT8"


def test_served_rates_stand_where_nothing_is_compared() -> None:
    cells = (served("net", NATIVE, 95.0), served("net", INT8, 90.0))
    given = Results(run([Network("net", "trained", 1)], (NATIVE, INT8), scenario="server"), cells)
    found = headline(study(given))
    assert found is not None
    assert found.figures == (("90.0/s", "requests that INT8 serves of net with a p99 within 15.0 ms"),)
    assert cells[1].server is not None
    trials = [replace(trial, valid=False, why=REASONS) for trial in cells[1].server.trials]
    doubted = replace(cells[1], server=replace(cells[1].server, trials=trials))
    found = headline(study(Results(given.run, (doubted,))))
    assert found is not None
    assert found.figures[0][1].endswith(
        "within 15.0 ms, in a run that LoadGen calls not valid: performance constraints and early stopping"
    )
    none = Results(given.run, (served("net", INT8, 0.0),))
    assert headline(study(none)) is None
    assert headline(study(Results(given.run, ()))) is None


def test_accuracy_is_that_of_trained_networks() -> None:
    good = Network("good", "trained", 1, accuracy={"top1": 0.972, "cosine": 0.9991})
    better = Network("better", "trained", 1, accuracy={"top1": 1.0, "cosine": 0.9991})
    drawn = Network("drawn", "random", 1, accuracy={"top1": 0.1})
    assert told([good]) == "top1 97.2 %, cosine 0.9991"
    assert told([good, better]) == "top1 97.2 % to 100.0 %, cosine 0.9991 (good and better)"
    assert told([good, drawn]) == "top1 97.2 %, cosine 0.9991 (good); drawn has random weights"
    assert told([drawn]) == "none: the weights are random"
    assert told([replace(good, accuracy={})]) == "not measured"


def test_accuracy_is_not_borrowed() -> None:
    good = Network("good", "trained", 1, accuracy={"top1": 0.972})
    openvino = Build("openvino", "/p", "3.11", "1.26.4", "2026.4.1", "/l", (), True, "openvino")
    exported = Contestant("OpenVINO", "openvino", "int8", "node")
    assert told([good], exported, (*BUILDS, openvino)) == "top1 97.2 %, as MXNet computes it"
    nncf = replace(exported, variant="nncf")
    assert told([good], nncf, (*BUILDS, openvino)) == "not measured for the networks of NNCF"


def test_fp32_tells_its_deviation() -> None:
    given = results(batches=(1, 8), contestants=(NATIVE, FUSED))
    cells = [replace(cell, agreement=Agreement("native", 1e-6 * cell.batch, 1e-3)) for cell in given.cells]
    assert accuracy(study(Results(given.run, tuple(cells))), "fused") == (
        "outputs within 8e-06 of those of native, relative to the largest"
    )
    silent = tuple(replace(cell, agreement=None) for cell in cells)
    assert accuracy(study(Results(given.run, silent)), "fused") == "outputs not compared"


def test_the_machine_is_told_in_a_line() -> None:
    assert machine({}) == "not told"
    assert machine(
        {**HOST, "cpu": "CPU", "cores": 8, "nodes": 2, "isa": ["AVX2"], "memory_gib": 64, "virtual": True}
    ) == ("CPU, 8 cores, 2 memory nodes, AVX2, 64 GiB, virtual")
    assert machine({"cpu": None, "cores": 2, "isa": 7, "virtual": "no"}) == "2 cores"


def test_the_contestants_are_named_with_their_engines() -> None:
    found = headline(study(results(batches=(1,), contestants=(NATIVE, INT8))))
    assert found is not None
    compared = dict(found.facts)["compared"]
    assert compared.startswith("INT8 (INT8 on MXNet 1.9.1, policy ")
    assert " with native (FP32 on MXNet " in compared
