from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import entropy

from quantkit.evaluation.divergence import balanced_noise, divergence, log_probabilities, noise_shares

LOGITS = np.random.default_rng(0).normal(0, 3, (7, 12))
OTHER = LOGITS + np.random.default_rng(1).normal(0, 0.3, (7, 12))


def test_against_scipy() -> None:
    expected = np.mean(entropy(softmax(LOGITS, axis=1), softmax(OTHER, axis=1), axis=1))
    assert divergence(log_probabilities(LOGITS), log_probabilities(OTHER)) == pytest.approx(expected)


def test_a_constant_changes_nothing_and_probabilities_are_taken_as_such() -> None:
    exact = log_probabilities(LOGITS)
    np.testing.assert_allclose(log_probabilities(LOGITS + 5), exact)
    np.testing.assert_allclose(log_probabilities(softmax(LOGITS, axis=1).astype(np.float32)), exact, atol=1e-4)


def test_outputs_may_have_further_axes() -> None:
    exact = log_probabilities(LOGITS)
    assert (exact.dtype, exact.shape) == (np.float64, LOGITS.shape)
    np.testing.assert_array_equal(log_probabilities(LOGITS[:, :, None, None]), exact)
    np.testing.assert_allclose(np.exp(exact).sum(axis=1), 1)
    single = LOGITS.astype(np.float32)
    np.testing.assert_array_equal(log_probabilities(single), log_probabilities(single.astype(np.float64)))


def test_what_is_no_distribution_is_taken_as_logits() -> None:
    """Positive numbers that do not sum to 1, and numbers that do but are not all positive."""
    positive = np.array([[0.2, 0.9], [0.5, 0.5]])
    mixed = np.array([[-0.5, 1.5], [0.25, 0.75]])
    near = np.array([[0.2, 0.8015], [0.5, 0.5]])
    for values in (positive, mixed, near):
        np.testing.assert_allclose(log_probabilities(values), np.log(softmax(values, axis=1)))
    rounded = np.array([[0.2, 0.8005], [0.0, 1.0]])
    np.testing.assert_allclose(
        np.exp(log_probabilities(rounded)), rounded / rounded.sum(axis=1, keepdims=True), atol=1e-30
    )


def test_probabilities_of_zero_are_far_but_not_infinitely_far() -> None:
    certain = np.eye(3)
    nats = divergence(log_probabilities(certain), log_probabilities(certain[::-1]))
    assert 10 < nats < np.inf
    assert divergence(log_probabilities(certain), log_probabilities(certain)) == pytest.approx(0, abs=1e-9)


def test_each_output_has_its_share_of_noise() -> None:
    one, other = np.array([[3.0, 4.0]], np.float32), np.zeros((1, 2, 2), np.float32)
    shares = noise_shares([one, other], [one + np.float32(0.5), other + np.float32(1)])
    assert shares == pytest.approx((2 * 0.25 / 25, 4))
    assert noise_shares([one, other], [one, other]) == (0, 0)


def test_outputs_with_much_noise_do_not_hide_others() -> None:
    usual = (1e-4, 0.25, 0.0)
    assert balanced_noise(usual, usual) == pytest.approx(2 / 3)
    assert balanced_noise((0.0, 0.25, 0.0), usual) == balanced_noise((1e-4, 0.0, 0.0), usual) == pytest.approx(1 / 3)
    assert balanced_noise((0.0, 0.0, 0.5), usual) == pytest.approx(0.5 / 3)
