"""A whole search on the trained network that ships, with ranges so tight that INT8 loses accuracy."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import quantkit
from quantkit.backends.mxnet.execute import run
from quantkit.bundle import read_bundle
from quantkit.calibration.table import CalibrationTable
from quantkit.data.batches import batches
from quantkit.errors import DataError, UserError
from quantkit.formats.mxnet import nnvm
from quantkit.fusion.float_symbol import float_graph
from quantkit.fusion.fused_model import FusedModel
from quantkit.host.load import Load
from quantkit.ir.graph import Graph
from quantkit.lowering.mxnet_int8 import int8_graph
from quantkit.mixed_precision import busy, measurements, search
from quantkit.mixed_precision import images as search_images
from quantkit.mixed_precision.images import judged
from quantkit.mixed_precision.kept_in_fp32 import KEPT
from quantkit.mixed_precision.measurements import Measurements, with_layers_in_fp32
from quantkit.progress import silent
from quantkit.quantization.plan import QuantizationPlan
from quantkit.quantization.quantized_graph import QuantizedGraph
from tests.quantized import int8_names, parts_of
from tests.sharding import InParts

GOAL = quantkit.Goal(max_drop=0.3)
IMAGES = 100


@pytest.fixture(scope="module")
def tight(int8_engine: None, digits_fused: FusedModel) -> tuple[CalibrationTable, QuantizationPlan]:
    table = quantkit.calibrate(digits_fused, "digits:train", 8, "percentile:95")
    return table, quantkit.plan(digits_fused, table, ["*stage2*", "*stage3*"])


@pytest.fixture(scope="module")
def images() -> tuple[np.ndarray, np.ndarray]:
    """Some of the test images, with labels."""
    samples = list(quantkit.load_data("digits:test"))[:IMAGES]
    return np.stack([sample.image for sample in samples]), np.array([sample.label for sample in samples])


@pytest.fixture
def begin(
    tight: tuple[CalibrationTable, QuantizationPlan],
    images: tuple[np.ndarray, np.ndarray],
    digits_fused: FusedModel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., search.SearchResult]:
    """Search with short measurements."""
    monkeypatch.setenv("QUANTKIT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(busy, "read_load", lambda cpus: Load(0.0, 0.0, 0.25))
    monkeypatch.setattr(search_images, "_SUBSET", 16)

    def begun(goal: quantkit.Goal = GOAL, judge: object = images, **options: object) -> search.SearchResult:
        settings = {"calibration_data": "digits:train", "algorithms": "none", **options}
        return search.search_mixed_precision(digits_fused, *tight, goal, judge, **settings)  # type: ignore[arg-type]

    return begun


def top1(graph: Graph, fused: FusedModel, images: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    (batch,) = batches(quantkit.load_data(images), fused.model.preprocess, (3, 32, 32), IMAGES)
    return run(graph, {"data": batch.data})[0].argmax(axis=1)


@pytest.mark.long
def test_the_goal_is_met_and_what_is_said_is_true(
    begin: Callable[..., search.SearchResult],
    digits_fused: FusedModel,
    images: tuple[np.ndarray, np.ndarray],
    tight: tuple[CalibrationTable, QuantizationPlan],
    tmp_path: Path,
) -> None:
    found = begin()
    assert found.met
    assert not found.time_is_up
    right = {
        name: float((top1(graph, digits_fused, images) == images[1]).mean())
        for name, graph in {
            "fp32": digits_fused.model.graph,
            "int8": int8_graph(QuantizedGraph(digits_fused.fused.graph, tight[1])),
            "mixed": found.network.graph,
        }.items()
    }
    assert found.int8.drop.loss == pytest.approx(100 * (right["fp32"] - right["int8"]))
    assert found.int8.drop.loss > 1
    assert found.chosen.drop.loss == pytest.approx(100 * (right["fp32"] - right["mixed"]))
    assert found.chosen.drop.loss <= 0.3
    assert found.chosen.divergence < found.int8.divergence
    # All layers may be: the network is so small that FP32 is as fast on a busy machine.
    assert found.layers

    bundle = read_bundle(found.network.save(tmp_path / "bundle"))
    assert bundle.manifest.settings is not None
    mixed = bundle.manifest.settings.mixed
    assert mixed is not None
    assert (mixed.max_drop, mixed.met, mixed.measure, mixed.images) == (0.3, True, "top-1", IMAGES)
    assert set(mixed.layers) == found.chosen.layers == {kept.layer for kept in found.layers}
    reasons = {row.into: row.reason for row in bundle.operators if row.precision == "fp32"}
    assert {name for name, reason in reasons.items() if reason == KEPT} == found.chosen.layers


@pytest.mark.long
def test_an_interrupted_search_goes_on_and_finds_what_it_would_have_found(
    begin: Callable[..., search.SearchResult], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # The clock alone may tell two searches apart.
    monkeypatch.setattr(measurements, "median_difference", lambda first, second: (0.01, 0.001))
    whole = begin()
    monkeypatch.setenv("QUANTKIT_HOME", str(tmp_path / "other"))
    measure, made = Measurements._trial, []

    def interrupted(self: Measurements, layers: frozenset[str]) -> dict[str, object]:
        if len(made) == 9:
            raise KeyboardInterrupt
        made.append(layers)
        return measure(self, layers)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Measurements, "_trial", interrupted)
        begin()
    (journal,) = (tmp_path / "other" / "searches").glob("*.jsonl")
    journal.write_bytes(journal.read_bytes() + b'{"what": ["trial", "di')
    told: list[int] = []
    resumed = begin(begun=lambda journal: told.append(journal.resumed))
    # Nine trials, and the check of all INT8 before them.
    assert told == [10]
    assert resumed.measurements == (whole.measurements[0], 10)
    assert resumed.layers == whole.layers
    assert (resumed.chosen.drop, resumed.chosen.divergence) == (whole.chosen.drop, whole.chosen.divergence)
    assert nnvm.sha256_of(resumed.network.graph) == nnvm.sha256_of(whole.network.graph)
    assert begin().measurements == (whole.measurements[0], whole.measurements[0])
    # So does one whose images are shared out.
    monkeypatch.setenv("QUANTKIT_HOME", str(tmp_path / "third"))
    shared = begin(executor=InParts(8))
    assert shared.layers == whole.layers and shared.chosen.drop == whole.chosen.drop


def test_what_determines_the_measurements_has_a_journal_of_its_own(
    begin: Callable[..., search.SearchResult],
    images: tuple[np.ndarray, np.ndarray],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def resumed(**options: object) -> bool:
        return begin(minutes=0, **options).measurements[1] > 0

    assert not resumed()
    # What is asked for changes nothing of what is measured.
    assert resumed(goal=quantkit.Goal(max_drop=2.0))
    assert not resumed(algorithms="fast")
    assert not resumed(judge=(images[0][1:], images[1][1:]))
    assert not resumed(judge=(images[0], (images[1] + 1) % 10))
    assert resumed(executor=InParts(8)) and not resumed(executor=InParts(8, {"threads": 1}))
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert not resumed()


def test_no_time_still_gives_a_network(begin: Callable[..., search.SearchResult]) -> None:
    found = begin(minutes=0)
    assert (found.met, found.time_is_up, found.layers, found.candidates[1]) == (False, True, (), 0)
    assert found.network.mixed is not None
    assert not found.network.mixed.met


def test_without_labels_it_is_agreement_that_counts(
    begin: Callable[..., search.SearchResult], digits_fused: FusedModel, images: tuple[np.ndarray, np.ndarray]
) -> None:
    found = begin(goal=quantkit.Goal(max_drop=1.0), judge=images[0])
    assert found.met
    assert found.chosen.drop.measure == "agreement"
    same = top1(found.network.graph, digits_fused, images) == top1(digits_fused.model.graph, digits_fused, images)
    assert found.chosen.drop.loss == pytest.approx(100 * (1 - same.mean()))


def test_speed_alone_needs_no_images(begin: Callable[..., search.SearchResult]) -> None:
    slow = begin(goal=quantkit.Goal(min_speedup=0.01), judge=None)
    assert slow.met
    assert slow.chosen.drop.images == 8
    assert slow.chosen.divergence < 0.5 * slow.int8.divergence
    fast = begin(goal=quantkit.Goal(min_speedup=1000), judge=None)
    assert (fast.met, fast.layers) == (False, ())


def test_layers_in_fp32_have_the_weights_they_had(digits_fused: FusedModel, int8_engine: None) -> None:
    table = quantkit.calibrate(digits_fused, "digits:train", 32)
    adjusted = quantkit.apply_algorithms(
        digits_fused, table, quantkit.plan(digits_fused, table), "digits:train", "balanced"
    )
    layers = int8_names(*parts_of(adjusted.network))
    (batch,) = batches(quantkit.load_data("digits:train"), digits_fused.model.preprocess, (3, 32, 32), 32, limit=32)
    exact = run(float_graph(digits_fused.fused.graph), {"data": batch.data})[0]
    mixed = with_layers_in_fp32(adjusted, layers)
    found = run(int8_graph(mixed.network), {"data": batch.data})[0]
    adapted = run(float_graph(adjusted.network.graph), {"data": batch.data})[0]
    assert np.abs(found - exact).max() < 1e-4 * np.abs(exact).max() < 0.1 * np.abs(adapted - exact).max()


def test_few_images_are_warned_of(
    begin: Callable[..., search.SearchResult], images: tuple[np.ndarray, np.ndarray]
) -> None:
    with pytest.warns(search.FewImagesWarning, match=r"one of 20 images is 5\.0 points"):
        begin(judge=(images[0][:20], images[1][:20]), minutes=0)


def test_others_work_is_warned_of(begin: Callable[..., search.SearchResult], monkeypatch: pytest.MonkeyPatch) -> None:
    for cores, warned in ((0.1, False), (1.5, True)):
        monkeypatch.setattr(busy, "read_load", lambda cpus, cores=cores: Load(cores, 0.0, 0.25))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            begin(minutes=0)
        said = [str(each.message) for each in caught if each.category is busy.BusyWarning]
        assert bool(said) == warned
    assert re.search(r"use 1\.5 of the processor's cores.*searches/[0-9a-f]{64}\.jsonl", said[0])


def test_requests_that_make_no_sense_are_refused(
    begin: Callable[..., search.SearchResult], images: tuple[np.ndarray, np.ndarray]
) -> None:
    with pytest.raises(UserError, match="--eval-data"):
        begin(judge=None)
    for minutes in (-1, float("nan"), float("inf")):
        with pytest.raises(UserError, match="minutes"):
            begin(minutes=minutes)
    with pytest.raises(DataError, match="label 12"):
        begin(judge=(images[0], np.full(IMAGES, 12)))


def test_random_weights_have_no_accuracy_to_keep(engine: None) -> None:
    model = quantkit.load_model("cifar_resnet20_v1", weights="random", quiet=True)
    with pytest.raises(UserError, match="random"):
        search.check_request(model, GOAL, "digits:test", 1)


def test_the_subset_is_part_of_the_images(digits_fused: FusedModel, images: tuple[np.ndarray, np.ndarray]) -> None:
    found = judged(digits_fused, images, silent)
    assert (len(found.outcomes), len(found.subset)) == (IMAGES, 64)
    assert found.labels is not None
    np.testing.assert_array_equal(found.labels, images[1])
    np.testing.assert_array_equal(found.outcomes, top1(digits_fused.model.graph, digits_fused, images))
