"""Weights for processors that add pairs of products in 16 bits."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from quantkit.errors import UserError
from quantkit.quantization.reduced_range import with_reduced_range
from quantkit.quantization.weights import engine_integers


def overflows(integers: np.ndarray) -> bool:
    """Whether two products that are added first leave 16 bits, pair by pair; ``integers`` are one channel's."""
    inputs, *kernel = integers.shape
    places = [(each, *position) for position in np.ndindex(*kernel) for each in range(inputs)]
    row = [int(integers[place]) for place in places]
    pairs = list(itertools.pairwise(row))
    sums = [255 * first + 255 * second for first, second in (pairs if inputs % 2 else pairs[::2])]
    return any(not -32768 <= each <= 32767 for each in sums)


def channels(inputs: int = 6, scale: float = 1.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    weight = np.random.default_rng(0).normal(size=(64, inputs, 3, 3)).astype(np.float32) * np.float32(scale)
    # Half of the channels are sparse, so that large weights stand apart.
    weight[::2] *= np.random.default_rng(1).random((32, inputs, 3, 3)) < 0.05
    return (weight, *engine_integers(weight))


@pytest.mark.parametrize("inputs", [1, 3, 6])
def test_auto_changes_exactly_the_channels_that_overflow(inputs: int) -> None:
    weight, integers, scale = channels(inputs)
    found, steps = with_reduced_range(weight, integers, scale, "auto")
    need = np.array([overflows(channel) for channel in integers])
    assert 0 < need.sum() < len(need)
    np.testing.assert_array_equal(found[~need], integers[~need])
    np.testing.assert_array_equal(steps[~need], scale[~need])
    assert not any(overflows(channel) for channel in found)


def test_auto_takes_no_more_than_it_must() -> None:
    weight, integers, scale = channels()
    _, steps = with_reduced_range(weight, integers, scale, "auto")
    coarser = steps / scale
    assert (coarser <= 2).all()
    pairs = integers.reshape(64, 3, 2, 9).astype(int).sum(axis=2)
    np.testing.assert_array_less(coarser, 1.05 * np.maximum(1, np.abs(pairs).reshape(64, -1).max(axis=1) / 128))
    assert np.median(coarser[coarser > 1]) < 1.7


@pytest.mark.parametrize("reduce", ["auto", "all"])
def test_reduced_weights_err_by_a_step_at_most_and_not_on_average(reduce: str) -> None:
    weight, integers, scale = channels(scale=1e-3)
    found, steps = with_reduced_range(weight, integers, scale, reduce)  # type: ignore[arg-type]
    changed = steps > scale
    assert (found.dtype, steps.dtype) == (np.int8, np.float32)
    error = (found / 1.0 - weight / steps[:, None, None, None])[changed].reshape(changed.sum(), -1)
    assert np.abs(error).max() <= 1.0001
    assert np.abs(error).mean() < 0.3
    assert np.abs(error.sum(axis=1)).max() <= 1.5


def test_all_has_seven_bits() -> None:
    weight, integers, scale = channels()
    found, steps = with_reduced_range(weight, integers, scale, "all")
    alive = weight.any(axis=(1, 2, 3))
    assert (np.abs(found[alive].astype(int)).reshape(alive.sum(), -1).max(axis=1) == 64).all()
    np.testing.assert_array_equal(steps[alive], 2 * scale[alive])


def test_none_changes_nothing() -> None:
    weight, integers, scale = channels()
    assert with_reduced_range(weight, integers, scale, "none")[0] is integers


def test_depthwise_convolutions_are_multiplied_in_wider_types() -> None:
    weight, integers, scale = channels(1)
    assert with_reduced_range(weight, integers, scale, "auto", depthwise=True)[0] is integers
    assert np.abs(with_reduced_range(weight, integers, scale, "all", depthwise=True)[0].astype(int)).max() == 64


def test_rows_of_dense_layers_are_looked_at_in_pairs() -> None:
    integers = np.array([[127, 0, 0, 127], [0, 127, 127, 0], [64, 64, 1, 0], [127, 127, 0, 0]], np.int8)
    found, _ = with_reduced_range(integers.astype(np.float32), integers, np.ones(4, np.float32), "auto")
    assert found.tolist() == [[127, 0, 0, 127], [0, 127, 127, 0], [64, 64, 1, 0], [64, 64, 0, 0]]


@pytest.mark.parametrize("reduce", ["auto", "all"])
def test_a_dead_channel_stays_zero(reduce: str) -> None:
    weight = np.zeros((2, 3), np.float32)
    found, steps = with_reduced_range(weight, weight.astype(np.int8), np.ones(2, np.float32), reduce)  # type: ignore[arg-type]
    assert not found.any()
    assert steps.tolist() == [1, 1]


def test_unknown_reductions_are_refused() -> None:
    with pytest.raises(UserError, match="unknown reduction of ranges 'half'"):
        with_reduced_range(*channels(), "half")  # type: ignore[arg-type]
