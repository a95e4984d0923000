"""Cross-entropy, perplexity and errors over the steps of sequences."""

from __future__ import annotations

import math

import numpy as np
import pytest

from quantkit.errors import DataError
from quantkit.evaluation.agreement import agreement
from quantkit.evaluation.perplexity import (
    Scale,
    StepAccuracy,
    check_step_labels,
    cross_entropies,
    perplexity_agreement,
    perplexity_change,
    scale_of,
    step_hits,
)
from tests.networks import DATA, Builder

SAMPLES, STEPS, CLASSES = 40, 7, 5
RANDOM = np.random.default_rng(3)
LOGITS = (RANDOM.normal(size=(SAMPLES, STEPS, CLASSES)) * 3).astype(np.float32)
LABELS = RANDOM.integers(0, CLASSES, (SAMPLES, STEPS))


def probabilities(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits.astype(float))
    return powers / powers.sum(axis=-1, keepdims=True)


def by_definition() -> np.ndarray:
    chances = probabilities(LOGITS)
    return np.array(
        [
            np.mean([-math.log(chances[sample, step, LABELS[sample, step]]) for step in range(STEPS)])
            for sample in range(SAMPLES)
        ]
    )


@pytest.mark.parametrize(
    ("scale", "scores"),
    [
        ("logits", LOGITS),
        ("logits", LOGITS + 1e3),
        ("probabilities", probabilities(LOGITS)),
        ("log probabilities", np.log(probabilities(LOGITS))),
    ],
)
def test_cross_entropy_by_its_definition_on_every_scale(scale: Scale, scores: np.ndarray) -> None:
    computed = cross_entropies(scores, LABELS, scale)
    np.testing.assert_allclose(computed, by_definition(), rtol=1e-4)


def test_a_probability_of_zero_does_not_make_all_infinite() -> None:
    certain = np.zeros((1, 1, 2), np.float32)
    certain[..., 0] = 1
    (entropy,) = cross_entropies(certain, np.ones((1, 1), int), "probabilities")
    assert 80 < entropy < 90


@pytest.mark.parametrize(
    ("ending", "scale"),
    [("softmax", "probabilities"), ("log_softmax", "log probabilities"), ("FullyConnected", "logits")],
)
def test_the_operator_that_ends_a_network_tells_the_scale(ending: str, scale: Scale) -> None:
    b = Builder()
    ended = b.op(ending, "ended", DATA)
    scores = np.asarray(LOGITS)
    assert scale_of(b.graph(b.op("Reshape", "shaped", b.op("SwapAxis", "swapped", ended))), scores) == scale


@pytest.mark.parametrize(
    ("after", "attrs"),
    [
        ("squeeze", {"axis": 1}),
        ("expand_dims", {"axis": 1}),
        ("Cast", {"dtype": "float32"}),
        ("slice_axis", {"axis": 2, "begin": 0, "end": 4}),
        ("_mul_scalar", {"scalar": 1}),
        ("_div_scalar", {"scalar": 1.0}),
    ],
)
def test_what_leaves_values_as_they_are_does_not_change_the_scale(after: str, attrs: dict[str, object]) -> None:
    b = Builder()
    graph = b.graph(b.op(after, "after", b.op("softmax", "ended", DATA), **attrs))
    # Of a part of the classes, the sum tells nothing.
    assert scale_of(graph, probabilities(LOGITS)[..., :4]) == "probabilities"


def test_values_tell_probabilities_whatever_computed_them() -> None:
    b = Builder()
    graph = b.graph(b.op("exp", "powers", b.op("log_softmax", "ended", DATA)))
    assert scale_of(graph, probabilities(LOGITS)) == "probabilities"
    assert scale_of(graph, probabilities(LOGITS) * 1.01) == "logits"
    assert scale_of(graph, LOGITS) == "logits"
    assert scale_of(b.graph(b.op("_mul_scalar", "twice", b.op("softmax", "s", DATA), scalar=2)), LOGITS) == "logits"


def test_steps_are_right_where_their_class_has_the_highest_score() -> None:
    wanted = [np.mean([row.argmax() == label for row, label in zip(x, y)]) for x, y in zip(LOGITS, LABELS)]
    assert step_hits(LOGITS, LABELS).tolist() == pytest.approx(wanted)


def test_perplexity_is_the_exponential() -> None:
    accuracy = StepAccuracy(3, 7, math.log(4), 0.5, "logits")
    assert accuracy.perplexity == pytest.approx(4)
    assert accuracy.text == "perplexity 4, cross-entropy 1.3863 nats a step, top-1 50.0 % of steps"
    assert math.isfinite(StepAccuracy(3, 7, 1e6, 0.5, "logits").perplexity)


def test_the_change_of_perplexity_is_paired_over_samples() -> None:
    reference = RANDOM.uniform(1, 3, 400)
    worse = reference + RANDOM.normal(0.01, 0.02, 400)
    change = perplexity_change(worse, reference)
    wanted = np.exp(worse.mean()) / np.exp(reference.mean()) - 1
    assert change.change == pytest.approx(100 * wanted)
    # Unpaired, an interval would be as wide as the samples differ: about 11 %.
    assert 0.3 < change.low < change.change < change.high < 1.7
    assert change.verdict == "behind"
    assert perplexity_change(reference, worse).verdict == "ahead"
    assert perplexity_change(reference, reference).verdict == "not distinguishable"
    both = perplexity_agreement(worse, reference)
    assert (both.network / both.reference - 1) * 100 == pytest.approx(change.change)


def test_the_interval_holds_the_change_in_95_of_100_cases() -> None:
    held = 0
    for seed in range(40):
        random = np.random.default_rng(seed)
        reference = random.uniform(1, 3, 60)
        change = perplexity_change(reference + random.normal(0.01, 0.05, 60), reference)
        held += change.low <= 100 * (math.exp(0.01) - 1) <= change.high
    assert held >= 33


def test_labels_are_of_steps_where_scores_are() -> None:
    check_step_labels(LABELS, True, "net")
    check_step_labels(LABELS[:, 0], False, "net")
    with pytest.raises(DataError, match=r"net puts out scores for every step, .*y of shape \(samples, steps\)"):
        check_step_labels(LABELS[:, 0], True, "net")
    with pytest.raises(DataError, match="label for every step, and the first output of net has no row"):
        check_step_labels(LABELS, False, "net")


def test_errors_are_told_step_by_step() -> None:
    noise = RANDOM.normal(size=LOGITS.shape) * np.linspace(0.01, 1, STEPS)[:, None]
    other = (LOGITS + noise).astype(np.float32)
    parts = [([LOGITS[start:stop]], [other[start:stop]]) for start, stop in ((0, 16), (16, SAMPLES))]
    measured = agreement(parts, ["scores"], True, STEPS)
    assert [each.step for each in measured.steps] == list(range(1, STEPS + 1))
    for each in measured.steps:
        exact, computed = LOGITS[:, each.step - 1].astype(float), other[:, each.step - 1].astype(float)
        assert each.sqnr == pytest.approx(10 * math.log10((exact**2).sum() / ((exact - computed) ** 2).sum()))
    assert measured.steps[0].sqnr > measured.steps[3].sqnr > measured.steps[-1].sqnr
    assert measured.top1 == pytest.approx((LOGITS.argmax(-1) == other.argmax(-1)).mean())
    same, over_time = measured.texts
    assert same.startswith("top-1 the same for ") and " of steps, cosine " in same
    assert over_time.startswith("signal to noise ") and over_time.endswith(f" at step {STEPS}")


def test_nine_of_many_steps_are_told() -> None:
    long = np.ones((2, 97, 3))
    measured = agreement([([long], [long * 2])], ["scores"], False, 97)
    assert [each.step for each in measured.steps] == [1, 13, 25, 37, 49, 61, 73, 85, 97]
