"""Weights of grouped convolutions, against a loop over what the engine does with them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from quantkit.quantization.grouped_weights import (
    engine_form,
    engine_peaks,
    float_weights,
    grouped_scale,
    references,
)
from quantkit.quantization.weights import engine_integers


class Rounded(NamedTuple):
    """A weight's integers and each channel's step."""

    integers: np.ndarray
    step: np.ndarray

    @property
    def real(self) -> np.ndarray:
        return self.integers * self.step[:, None, None, None]


def rounded_by_the_engine(given: np.ndarray, groups: int) -> Rounded:
    """What the kernel multiplies by: those of group g rounded with the factor of channel g, scaled with their own."""
    peaks = [float(np.abs(channel).max()) for channel in given]
    integers = np.zeros(given.shape)
    for channel, values in enumerate(given):
        group = channel * groups // len(given)
        integers[channel] = np.clip(np.rint(values * (np.float32(127.5) / np.float32(peaks[group]))), -128, 127)
    return Rounded(integers, np.array(peaks) / 127.5)


SPREADS = {
    "equal": lambda count, random: np.ones(count),
    "random": lambda count, random: np.exp(random.normal(size=count)),
    "wild": lambda count, random: np.exp(4 * random.normal(size=count)),
    "rising": lambda count, random: np.logspace(-3, 3, count),
    "falling": lambda count, random: np.logspace(3, -3, count),
    "small references": lambda count, random: np.r_[1e-9, np.ones(count - 1)],
    "large references": lambda count, random: np.r_[1e3, np.ones(count - 1)],
}


def weights(groups: int, spread: str, channels: int = 64, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    values = random.normal(size=(channels, 4, 3, 3)) * SPREADS[spread](channels, random)[:, None, None, None]
    return values.astype(np.float32)


@pytest.mark.parametrize("groups", [2, 4, 32])
@pytest.mark.parametrize("spread", SPREADS)
def test_the_engine_computes_with_the_weights(groups: int, spread: str) -> None:
    """To half a step, which is that of the channel alone, or of the mean of its magnitude and its reference's."""
    weight = weights(groups, spread)
    found = rounded_by_the_engine(engine_form(weight, groups), groups)
    error = np.abs(found.real - weight).reshape(64, -1).max(axis=1)
    own = np.abs(weight).reshape(64, -1).max(axis=1)
    reference = (127.5 * found.step)[np.arange(64) * groups // 64]
    vanish = ~found.integers.reshape(64, -1).any(axis=1)
    # The largest weight stands for 127.5 steps, and may become 127.
    assert (error <= 0.501 * found.step)[~vanish].all()
    expected = np.where(reference > own, np.sqrt(own * reference), own) / 127.5
    np.testing.assert_allclose(found.step[~vanish], expected[~vanish], rtol=1e-5)
    # What becomes 0 is far smaller than the reference's weights.
    assert (own[vanish] < 2e-5 * reference[vanish]).all()


@pytest.mark.parametrize("groups", [2, 4, 32])
@pytest.mark.parametrize("spread", SPREADS)
def test_integers_and_scales_are_those_of_the_engine(groups: int, spread: str) -> None:
    weight = weights(groups, spread)
    expected = rounded_by_the_engine(engine_form(weight, groups), groups)
    integers, scale = engine_integers(weight, groups=groups)
    np.testing.assert_array_equal(integers, expected.integers)
    np.testing.assert_allclose(scale, expected.step, rtol=1e-6)


@pytest.mark.parametrize("groups", [2, 4, 32])
def test_nothing_is_lost_where_references_are_smallest(groups: int) -> None:
    weight = weights(groups, "rising")
    integers, scale = engine_integers(weight, groups=groups)
    alone, own = engine_integers(weight)
    np.testing.assert_allclose(scale, own, rtol=1e-6)
    # Of a negative peak -127 or -128.
    assert np.abs(integers.astype(int) - alone).max() <= 1
    assert (integers != alone).mean() < 1 / 36


def test_without_this_form_the_engine_is_wrong() -> None:
    weight = weights(4, "random")
    wrong, right = (rounded_by_the_engine(given, 4).real - weight for given in (weight, engine_form(weight, 4)))
    assert np.square(wrong).mean() > 1000 * np.square(right).mean()


@pytest.mark.parametrize("groups", [1, 64])
def test_one_group_and_one_channel_a_group_need_no_other_form(groups: int) -> None:
    weight = weights(groups, "random")
    assert engine_form(weight, groups) is weight
    np.testing.assert_array_equal(references(64, groups), np.arange(64))
    for found, expected in zip(engine_integers(weight, groups=groups), engine_integers(weight)):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dead", [0, 1, 5, 63])
def test_channels_of_zeros_disturb_no_others(dead: int) -> None:
    weight = weights(4, "random")
    weight[dead] = 0
    integers, scale = engine_integers(weight, groups=4)
    assert np.abs(integers[dead] * scale[dead]).max() < 1e-29
    assert np.isfinite(scale).all()
    error = np.abs(integers * scale[:, None, None, None] - weight).reshape(64, -1).max(axis=1)
    assert np.delete(error <= 0.501 * scale, dead).all()
    assert grouped_scale(weight, 4)[dead] == 1


@pytest.mark.filterwarnings("error")
def test_channels_of_zeros_beside_enormous_ones_stay() -> None:
    weight = np.float32(1e12) * weights(4, "random")
    weight[5] = 0
    form = engine_form(weight, 4)
    assert np.isfinite(form).all()
    assert np.abs(form[5]).max() < 1e-29


def test_all_channels_of_zeros() -> None:
    integers, scale = engine_integers(np.zeros((8, 2, 3, 3), np.float32), groups=4)
    assert np.abs(integers * scale[:, None, None, None]).max() < 1e-29


@pytest.mark.parametrize("groups", [2, 4, 32])
@pytest.mark.parametrize("spread", ["random", "wild", "rising", "falling"])
def test_other_integers_come_back_with_their_scales(groups: int, spread: str) -> None:
    """All but those of each channel's largest weight, which sets the scale, and of weights that became larger."""
    weight = weights(groups, spread).reshape(64, -1)
    scale = grouped_scale(weight, groups)
    np.testing.assert_allclose(scale, engine_peaks(weight, groups) / 127.5, rtol=1e-6)
    nearest = engine_integers(weight, groups=groups)[0].astype(int)
    moved = nearest + np.random.default_rng(1).integers(-1, 2, nearest.shape)
    found, steps = engine_integers(float_weights(moved, scale, weight, groups), groups=groups)
    np.testing.assert_allclose(steps, scale, rtol=1e-6)
    largest = np.abs(nearest).max(axis=1, keepdims=True)
    free = (np.abs(moved) < largest) & (np.abs(weight) < np.abs(weight).max(axis=1, keepdims=True))
    assert free.any(axis=1).sum() > 15
    np.testing.assert_array_equal(found[free], moved[free])
    assert np.abs(found - nearest).max() <= 2
