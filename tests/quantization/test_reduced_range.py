"""Weights for processors that add pairs of products in 16 bits."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from quantkit.errors import UserError
from quantkit.host.pair_sums import may_overflow
from quantkit.quantization.reduced_range import rounded_in_pairs, with_reduced_range, without_overflow
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


def plain_rounding(weight: np.ndarray, step: np.float32) -> np.ndarray:
    """Of all ways to round each number up or down, the nearest that keeps the sum as near as whole numbers can."""
    exact = weight.ravel().astype(np.float64) / step
    wanted = int(np.rint(np.rint(exact).sum() + np.rint((exact - np.rint(exact)).sum())))
    ways = itertools.product(*[(np.floor(each), np.floor(each) + 1) for each in exact])
    allowed = [np.array(way) for way in ways if sum(way) == wanted]
    return min(allowed, key=lambda way: float(np.abs(way - exact).sum())).reshape(weight.shape)


@pytest.mark.parametrize("seed", range(6))
def test_rounding_is_the_nearest_that_keeps_the_sum(seed: int) -> None:
    random = np.random.default_rng(seed)
    # Of one sign and with weights on one side of a level, so that rounding each for itself shifts the sum.
    weight = (random.integers(1, 60, (4, 9)) + random.uniform(0.1, 0.45, (4, 9))).astype(np.float32) * 2
    weight[::2] *= -1
    scale = random.uniform(0.9, 1.0, 4).astype(np.float32)
    integers = np.clip(np.rint(weight / scale[:, None]), -127, 127).astype(np.int8)
    found, steps = with_reduced_range(weight, integers, scale, "all")
    np.testing.assert_array_equal(steps, 2 * scale)
    for row, made, step in zip(weight, found, steps):
        np.testing.assert_array_equal(made, np.clip(plain_rounding(row, step), -64, 64))


@pytest.mark.parametrize("reduce", ["auto", "all"])
def test_weights_beyond_the_last_level_saturate(reduce: str) -> None:
    """Steps chosen for the least error leave some weights beyond the integers."""
    weight = np.zeros((2, 6), np.float32)
    weight[0], weight[1] = [400, 0, 0, -400, 90, 60], [300, 1, 1, 1, 1, -300]
    integers = np.clip(weight, -127, 127).astype(np.int8)
    found, steps = with_reduced_range(weight, integers, np.ones(2, np.float32), reduce)  # type: ignore[arg-type]
    assert (found.dtype, steps.dtype) == (np.int8, np.float32)
    limit = 64 if reduce == "all" else 127
    assert (found[0, 0], found[0, 3]) == (limit, -limit)
    if reduce == "all":
        assert (found[1, 0], found[1, 5]) == (64, -64)
    else:
        np.testing.assert_array_equal(found[1], integers[1])


@pytest.mark.filterwarnings("error")
def test_of_equal_weights_the_first_give_way() -> None:
    """So that every processor makes the same integers, whatever way it sorts."""
    weight = np.full((2, 400), 60.6, np.float32) * 2
    weight[1] = 120
    scale = np.ones(2, np.float32)
    found, _ = with_reduced_range(weight, np.full((2, 400), 120, np.int8), scale, "all")
    assert found.tolist() == [[60] * 160 + [61] * 240, [60] * 400]


def test_auto_takes_steps_twice_as_large_at_most() -> None:
    """With the pair beyond 8 bits, an even larger step would fit."""
    weight = np.array([[180, 180]], np.float32)
    found, steps = with_reduced_range(weight, np.array([[127, 127]], np.int8), np.ones(1, np.float32), "auto")
    assert (found.tolist(), steps.tolist()) == ([[64, 64]], [2])


def test_without_neighbours_nothing_overflows() -> None:
    weight = np.array([127, -127], np.float32).reshape(2, 1, 1, 1)
    found, steps = with_reduced_range(weight, weight.astype(np.int8), np.ones(2, np.float32), "auto")
    np.testing.assert_array_equal(found, weight)
    assert steps.tolist() == [1, 1]


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
    with pytest.raises(UserError, match=r"^unknown reduction of ranges 'half'; choose one of none, auto, all$"):
        with_reduced_range(*channels(), "half")  # type: ignore[arg-type]


def test_integers_that_overflow_give_way_by_as_little_as_it_takes() -> None:
    exact = np.array(
        [
            [100.0, 28.0, 60.4, -90.0, 0.0],
            [70.4, 60.0, -80.0, -49.7, 127.0],
            [64.0, 64.0, 127.0, 1.0, 2.0],
            [-125.6, -2.4, 126.4, 2.6, 1.0],
            [400.0, 20.0, -3.0, -300.0, -900.0],
        ]
    )
    found = without_overflow(exact)
    wanted = [
        [100, 28, 60, -90, 0],
        [69, 59, -79, -49, 127],
        [64, 64, 127, 1, 2],
        [-126, -2, 126, 2, 1],
        [127, 1, -1, -127, -127],
    ]
    assert found.dtype == np.int8
    np.testing.assert_array_equal(found, wanted)
    assert not any(overflows(np.append(row, 0)) for row in found)


def test_of_all_pairs_that_fit_the_nearest_is_taken() -> None:
    exact = np.random.default_rng(0).uniform(-200, 200, (300, 2))
    whole = np.arange(-127, 128)
    pairs = np.stack(np.meshgrid(whole, whole), axis=-1).reshape(-1, 2)
    fitting = pairs[np.abs(pairs.sum(axis=1)) <= 128]
    for row, found in zip(exact, without_overflow(exact)):
        assert np.square(found - row).sum() <= np.square(fitting - row).sum(axis=1).min() + 1e-9


@pytest.mark.parametrize("inputs", [6, 7])
def test_rows_rounded_in_pairs_have_the_smallest_steps_that_fit(inputs: int) -> None:
    rows = np.random.default_rng(0).normal(size=(40, inputs)).astype(np.float32)
    integers, scale = rounded_in_pairs(rows)
    assert (integers.shape, integers.dtype, scale.dtype) == (rows.shape, np.int8, np.float32)
    assert not may_overflow(integers)
    finer = np.rint(rows / (0.98 * scale[:, None]))
    assert all(may_overflow(row[None]) or np.abs(row).max() > 127 for row in finer)
