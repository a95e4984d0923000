"""Rows of accuracy: what each image says of each form."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

import quantkit
from quantkit.benchmark.accuracy import measure
from quantkit.benchmark.accuracy.forms import FUSED, UNFUSED
from quantkit.benchmark.accuracy.measure import network_rows, opened
from quantkit.benchmark.accuracy.rows import Row
from quantkit.benchmark.accuracy.suite import AccuracySuite, JudgedNetwork, JudgedOn
from quantkit.data.aggregation import Aggregation, Result, in_this_process
from quantkit.data.batch_stream import BatchStream
from quantkit.errors import DataError, EngineError, UserError
from quantkit.evaluation.joint_run import JointRun
from quantkit.progress import Progress
from tests.sharding import InParts

DIGITS = JudgedNetwork("digits_resnet20_v1", "digits")
SUITE = AccuracySuite(
    "suite",
    (DIGITS,),
    {"digits": JudgedOn("digits:test", "digits:train", (4, 8))},
    methods=("minmax",),
    presets=("fast",),
    stock_modes=("naive",),
    images=40,
)


def rows(suite: AccuracySuite = SUITE, **options: Any) -> list[Row]:
    (network,) = suite.network
    return list(network_rows(opened(network, suite), network, suite, **options))


def assert_same(some: list[Row], others: list[Row]) -> None:
    assert [row.form for row in some] == [row.form for row in others]
    for one, other in zip(some, others):
        assert one.images is not None and other.images is not None
        for name in ("top1", "top5", "same", "cosine"):
            np.testing.assert_array_equal(getattr(one.images, name), getattr(other.images, name))


@pytest.fixture(scope="module")
def measured(int8_engine: None) -> list[Row]:
    return rows()


def test_every_form_has_a_row(measured: list[Row]) -> None:
    assert [(row.form, row.calibration_samples) for row in measured] == [
        (UNFUSED, None),
        (FUSED, None),
        ("quantkit minmax", 4),
        ("quantkit preset fast", 4),
        ("stock MXNet naive", 4),
        ("quantkit minmax", 8),
        ("quantkit preset fast", 8),
        ("stock MXNet naive", 8),
    ]
    assert all(row.failure is None and row.images is not None for row in measured)
    fp32 = measured[0].images
    assert fp32 is not None and fp32.same.all() and (fp32.cosine == 1).all() and len(fp32.top1) == 40


def test_rows_say_what_an_evaluation_says(measured: list[Row]) -> None:
    model = quantkit.load_model("digits_resnet20_v1")
    config = quantkit.QuantizationConfig(num_samples=8, preset="fast")
    int8 = quantkit.quantize(model, "digits:train", config)
    found = quantkit.evaluate(int8, "digits:test", reference=model, num_samples=40)
    images = measured[6].images
    assert measured[6].calibration_samples == 8 and images is not None
    assert images.top1.mean() == found.accuracy["network"].top1
    assert images.top5.mean() == found.accuracy["network"].top5
    assert images.same.mean() == found.agreement["network"].top1
    assert images.cosine.mean() == pytest.approx(found.agreement["network"].cosine, abs=1e-12)


def test_shares_of_the_images_make_the_same_rows(measured: list[Row]) -> None:
    assert_same(measured, rows(executor=InParts(16)))


def test_each_number_of_samples_has_its_own_rows(measured: list[Row]) -> None:
    for count in (4, 8):
        alone = rows(replace(SUITE, data={"digits": JudgedOn("digits:test", "digits:train", (count,))}))
        assert_same([row for row in measured if row.calibration_samples in (None, count)], alone)
    few, many = (next(row.images for row in measured if row.calibration_samples == count) for count in (4, 8))
    assert few is not None and many is not None and (few.cosine != many.cosine).any()


def test_forms_of_large_networks_run_apart(measured: list[Row], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "_TOGETHER", 1)
    assert_same(measured, rows())
    monkeypatch.setattr(measure, "_TOGETHER", 2**29)
    monkeypatch.setattr(measure, "_MOST_FORMS", 2)
    assert_same(measured, rows())


@dataclass
class Failing:
    """The executor of this process, on which networks of one form fail."""

    form: str
    environment: dict[str, Any] = field(default_factory=dict)

    def __call__(self, aggregation: Aggregation[Result], stream: BatchStream, progress: Progress, title: str) -> Result:
        if isinstance(aggregation, JointRun) and self.form in {each.name for each in aggregation.networks.values()}:
            raise EngineError("it fails")
        return in_this_process(aggregation, stream, progress, title)


def test_a_form_that_fails_costs_no_other(measured: list[Row]) -> None:
    found = rows(executor=Failing("quantkit minmax"))
    failed = [row for row in found if row.failure]
    assert [(row.form, row.failure, row.images) for row in failed] == 2 * [("quantkit minmax", "it fails", None)]
    others = [row for row in found if row not in failed]
    assert_same([row for row in measured if row.form != "quantkit minmax"], others)


def test_samples_without_labels_are_told(int8_engine: None) -> None:
    unlabelled = replace(SUITE, data={"digits": JudgedOn("builtin", "digits:train", (8,))}, images=8)
    with pytest.raises(DataError, match=r"have no labels; give them in labels\.csv"):
        rows(unlabelled)


def test_networks_without_accuracy_are_told(engine: None) -> None:
    with pytest.raises(UserError, match=r"resnet18_v1 has no trained weights here.*weights = 'FILE'"):
        opened(replace(DIGITS, model="resnet18_v1", weights="random"), SUITE)
    with pytest.raises(UserError, match=r"outputs of digits_ssd are not one row of class scores .*quantkit evaluate"):
        opened(replace(DIGITS, model="digits_ssd"), SUITE)
