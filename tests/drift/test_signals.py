"""Signals against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_softmax, softmax
from scipy.stats import entropy

from quantkit.calibration.ranges import Range
from quantkit.calibration.table import CalibrationTable
from quantkit.data.joined_inputs import JoinedInput, JoinedInputs
from quantkit.data.preparation import Preparation
from quantkit.data.preprocess import Preprocess
from quantkit.data.vocabulary import Vocabulary
from quantkit.drift.signals import SignalMaker, log_probabilities, margins, signal_maker

RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.normal([[[[1.0]], [[2.0]], [[4.0]]]], [[[[1.0]], [[3.0]], [[1.0]]]], (5, 3, 32, 32)).astype(np.float32)
SCORES = RANDOM.normal(0, 3, (5, 10)).astype(np.float32)


def test_images_have_a_mean_and_a_spread_and_channels_theirs_over_it() -> None:
    found = SignalMaker(Range(-2.0, 5.0)).of_input(IMAGES)
    means, spreads = IMAGES.mean(axis=(2, 3), dtype=np.float64), IMAGES.std(axis=(2, 3), dtype=np.float64)
    np.testing.assert_allclose(found["input.mean"], means.mean(axis=1))
    np.testing.assert_allclose(found["input.spread"], spreads.mean(axis=1))
    for place in range(3):
        np.testing.assert_allclose(found[f"input.channel{place}.mean"], means[:, place] - means.mean(axis=1))
        np.testing.assert_allclose(found[f"input.channel{place}.spread"], spreads[:, place] - spreads.mean(axis=1))
    np.testing.assert_allclose(found["input.beyond"], ((IMAGES < -2) | (IMAGES > 5)).mean(axis=(1, 2, 3)))
    assert len(found) == 9


def test_the_order_of_channels_changes_nothing_but_their_own_signals() -> None:
    one, other = (SignalMaker().of_input(each) for each in (IMAGES, IMAGES[:, ::-1]))
    np.testing.assert_allclose(one["input.mean"], other["input.mean"])
    np.testing.assert_allclose(one["input.channel0.mean"], other["input.channel2.mean"])
    assert np.abs(one["input.channel0.mean"] - other["input.channel0.mean"]).min() > 1


def test_large_images_are_thinned_and_grey_ones_have_one_channel() -> None:
    large = np.repeat(np.repeat(IMAGES, 7, axis=2), 8, axis=3)
    for name, values in SignalMaker().of_input(IMAGES).items():
        np.testing.assert_allclose(SignalMaker().of_input(large)[name], values)
    assert set(SignalMaker().of_input(IMAGES[:, :1])) == {"input.mean", "input.spread"}


def test_integers_are_what_their_steps_are_worth() -> None:
    integers = np.clip(np.rint(IMAGES / 0.05), -127, 127).astype(np.int8)
    found = SignalMaker(Range(-6.35, 6.35)).of_input(integers, 0.05)
    exact = SignalMaker().of_input(integers * np.float64(0.05))
    assert found.keys() == exact.keys()
    for name, values in exact.items():
        np.testing.assert_allclose(found[name], values)


def test_few_features_are_signals_themselves_and_many_are_not() -> None:
    few = RANDOM.normal(size=(4, 3))
    found = SignalMaker().of_input(few)
    assert set(found) == {"input.feature0", "input.feature1", "input.feature2"}
    np.testing.assert_array_equal(found["input.feature1"], few[:, 1])
    many = RANDOM.normal(size=(4, 1000))
    np.testing.assert_allclose(SignalMaker().of_input(many)["input.spread"], many.std(axis=1))
    sequences = RANDOM.normal(size=(4, 7, 5))
    np.testing.assert_allclose(SignalMaker().of_input(sequences)["input.mean"], sequences.mean(axis=(1, 2)))


def test_tokens_have_no_signals() -> None:
    assert SignalMaker(reads_tokens=True).of_input(np.ones((2, 9), np.float32)) == {}


def test_a_network_has_the_range_of_its_own_input() -> None:
    own, other = Range(-2.0, 5.0), Range(0.0, 1.0)
    table = CalibrationTable("minmax", 4, "photos", {"data": own, "conv0": other}, "", "")
    made = signal_maker(table, "data", Preprocess(), True, "softmax")
    assert made == SignalMaker(own, False, True, "softmax")
    assert signal_maker(None, "data", Preprocess(), False, None) == SignalMaker()


@pytest.mark.parametrize(
    ("preparation", "expected"),
    [
        (None, False),
        (Preprocess(), False),
        (Vocabulary("table", 9), True),
        (JoinedInputs((JoinedInput("left", (2, 3)), JoinedInput("right", (4,)))), False),
        (JoinedInputs((JoinedInput("left", (2, 3)), JoinedInput("ids", (4,), Vocabulary("table", 9)))), True),
    ],
)
def test_networks_that_read_tokens(preparation: Preparation, expected: bool) -> None:
    assert signal_maker(None, "data", preparation, False, None).reads_tokens is expected


@pytest.mark.parametrize("final", [None, "softmax"])
def test_classes_have_a_margin_and_an_entropy(final: object) -> None:
    given = SCORES if final is None else softmax(SCORES.astype(np.float64), axis=1).astype(np.float32)
    found = SignalMaker(class_scores=True, final=final).of_outputs([given])  # type: ignore[arg-type]
    probabilities = softmax(SCORES.astype(np.float64), axis=1)
    ordered = np.sort(np.log(probabilities), axis=1)
    np.testing.assert_allclose(found["output.margin"], ordered[:, -1] - ordered[:, -2], rtol=1e-5)
    np.testing.assert_allclose(found["output.entropy"], entropy(probabilities, axis=1), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found["output.largest"], given.max(axis=1))
    np.testing.assert_allclose(found["output.spread"], given.std(axis=1, dtype=np.float64))


def test_other_outputs_have_a_mean_and_a_spread() -> None:
    boxes = RANDOM.normal(size=(5, 100, 4)).astype(np.float32)
    found = SignalMaker().of_outputs([SCORES, boxes])
    assert set(found) == {"output.mean", "output.spread", "output1.mean", "output1.spread"}
    np.testing.assert_allclose(found["output1.mean"], boxes.mean(axis=(1, 2), dtype=np.float64))
    assert set(SignalMaker(class_scores=True, final="sigmoid").of_outputs([SCORES])) == {
        "output.largest",
        "output.mean",
        "output.spread",
    }
    assert len(SignalMaker().of_outputs([SCORES] * 9)) == 8


def test_logarithms_and_margins() -> None:
    np.testing.assert_allclose(log_probabilities(1000 * SCORES, False), log_softmax(1000 * SCORES, axis=1), rtol=1e-6)
    assert np.isfinite(log_probabilities(np.array([[0.0, 1.0]]), True)).all()
    np.testing.assert_array_equal(margins(np.array([[1.0, 5.0, 3.0], [2.0, 2.0, 2.0]])), [2.0, 0.0])
