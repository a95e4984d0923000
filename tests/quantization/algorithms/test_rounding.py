"""Joint rounding against trying all integers."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from quantkit.host.pair_sums import may_overflow
from quantkit.quantization import threads
from quantkit.quantization.algorithms import rounding
from quantkit.quantization.algorithms.rounding import Matrix, OfRows, round_jointly, with_ridge
from quantkit.quantization.reduced_range import without_overflow


def layer(seed: int, weights: int, channels: int = 6, rows: int = 50) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights, scales and the moments of inputs that go together, in one group."""
    random = np.random.default_rng(seed)
    inputs = random.normal(size=(rows, weights)) @ random.normal(size=(weights, weights)) + random.normal(size=weights)
    weight = random.normal(size=(1, channels, weights)).astype(np.float32)
    # With a scale of 1 rounding matters. The weight that sets the scale goes with no other, so it stays.
    weight[:, :, 0] = 127.0
    inputs[:, 0] = 0.0
    inputs[0, :] = 0.0
    inputs[0, 0] = 1.0
    return weight, np.ones((1, channels), np.float32), (inputs.T @ inputs).astype(np.float32)[None]


def errors(integers: np.ndarray, weight: np.ndarray, inputs: np.ndarray) -> np.ndarray:
    difference = (integers - weight).astype(np.float64)
    return np.einsum("gow,gwv,gov->go", difference, inputs.astype(np.float64), difference)


def test_near_the_best_of_all_integers() -> None:
    weight, scale, inputs = (np.concatenate(parts) for parts in zip(*(layer(seed, 4) for seed in range(20))))
    found = round_jointly(weight, scale, Matrix(inputs))
    near = np.rint(weight)
    moves = np.array([(0, *move) for move in product(range(-3, 4), repeat=3)], np.float32)
    tried = np.stack([errors(near + move, weight, inputs) for move in moves])
    ours, nearest, best = errors(found, weight, inputs), errors(near, weight, inputs), tried.min(axis=0)
    assert np.all(ours <= nearest * (1 + 1e-4))
    # One weight at a time does not always reach the best, but most of the way.
    assert (ours - best).sum() <= 0.25 * (nearest - best).sum()


def test_blocks_do_not_change_the_aim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounding, "_SWEEPS", 20)
    weight, scale, inputs = layer(0, 150, rows=400)
    nearest = np.rint(weight)
    found = round_jointly(weight, scale, Matrix(inputs))
    assert errors(found, weight, inputs).sum() < 0.5 * errors(nearest, weight, inputs).sum()
    # No single weight can be moved by one for the better.
    slope = np.einsum("gow,gwv->gov", found - weight, inputs)
    curvature = np.diagonal(inputs, axis1=1, axis2=2)[:, None]
    gain = np.abs(2 * slope[:, :, 1:]) - curvature[:, :, 1:]
    assert gain.max() < 1e-3 * curvature.max()


@pytest.mark.parametrize("weights", [4, 5])
def test_in_pairs_near_the_best_of_all_integers_that_fit(weights: int) -> None:
    moves = np.array(list(product(range(-3, 4), repeat=weights)), np.float32)[:, None, None]
    ours, clipped, best = (np.empty((20, 6)) for _ in range(3))
    for seed in range(20):
        random = np.random.default_rng(seed)
        rows = random.normal(size=(50, weights)) @ random.normal(size=(weights, weights))
        inputs = (rows.T @ rows + 5 * np.eye(weights)).astype(np.float32)[None]
        weight = random.uniform(45, 90, (1, 6, weights)).astype(np.float32)
        found = round_jointly(weight, np.ones((1, 6), np.float32), Matrix(inputs), keeps="pairs")
        assert not may_overflow(found[0].astype(np.int8))
        near = without_overflow(weight[0])[None].astype(np.float32)
        tried = near + moves
        sums = np.abs(tried[..., 0:-1:2] + tried[..., 1::2]).max(axis=-1)[:, 0]
        # Channels are apart, and so are their errors.
        errors_of_all = np.stack([errors(each, weight, inputs)[0] for each in tried])
        ours[seed], clipped[seed] = errors(found, weight, inputs)[0], errors(near, weight, inputs)[0]
        best[seed] = np.where(sums <= 128, errors_of_all, np.inf).min(axis=0)
    assert np.all(ours <= clipped * (1 + 1e-4))
    assert (ours - best).sum() <= 0.5 * (clipped - best).sum()


def test_groups_are_rounded_apart() -> None:
    layers = [layer(seed, 9, channels=1) for seed in range(7)]
    weight, scale, inputs = (np.concatenate(parts) for parts in zip(*layers))
    apart = [round_jointly(weight, scale, Matrix(inputs)) for weight, scale, inputs in layers]
    np.testing.assert_array_equal(round_jointly(weight, scale, Matrix(inputs)), np.concatenate(apart))


def test_unrelated_inputs_leave_the_nearest_integers() -> None:
    weight, scale, _ = layer(0, 8)
    np.testing.assert_array_equal(
        round_jointly(weight, scale, Matrix(np.eye(8, dtype=np.float32)[None])), np.rint(weight)
    )


def test_a_peak_that_would_move_is_put_back() -> None:
    """Both inputs go together, so that 126 and 0 would serve better than 127 and 0."""
    inputs = np.array([[[1, 0.99], [0.99, 1]]], np.float32)
    found = round_jointly(np.array([[[126.6, -0.45]]], np.float32), np.ones((1, 1), np.float32), Matrix(inputs))
    assert found[0, 0, 0] == 127


def test_every_channel_keeps_its_range() -> None:
    random = np.random.default_rng(0)
    weight = random.normal(size=(1, 40, 12)).astype(np.float32)
    weight[0, 3] = 0
    scale = np.where(np.arange(40) == 3, 1, np.abs(weight[0]).max(axis=1) / 127.5)[None].astype(np.float32)
    found = round_jointly(weight, scale, Matrix(layer(1, 12)[2]))
    peaks = np.abs(found[0]).max(axis=1)
    assert peaks[3] == 0
    assert set(np.delete(peaks, 3)) == {127.0}


def test_few_rows_give_what_their_matrix_gives() -> None:
    random = np.random.default_rng(0)
    rows = random.normal(size=(2, 9, 150)).astype(np.float32)
    weight = (40 * random.normal(size=(2, 5, 150))).clip(-127, 127).astype(np.float32)
    scale, ridge = np.ones((2, 5), np.float32), np.array([0.5, 5], np.float32).reshape(2, 1, 1)
    matrix = with_ridge(rows.swapaxes(1, 2) @ rows, ridge)
    np.testing.assert_allclose(np.linalg.eigvalsh(matrix.values).min(axis=1), ridge.ravel(), rtol=1e-3)
    of_rows = OfRows(rows, ridge)
    for block in (slice(50, 128), slice(None)):
        np.testing.assert_allclose(of_rows.block(block), matrix.block(block), atol=1e-4)
        change = random.normal(size=(2, 150, 5)).astype(np.float32)
        slopes = [each.slope(each.error(change, slice(None)), change[:, block], block) for each in (of_rows, matrix)]
        np.testing.assert_allclose(*slopes, atol=1e-3)
        np.testing.assert_allclose(slopes[1], (matrix.values @ change)[:, block], atol=1e-3)
        part = np.zeros_like(change)
        part[:, block] = change[:, block]
        for each in (of_rows, matrix):
            np.testing.assert_allclose(each.error(change[:, block], block), each.error(part, slice(None)), atol=1e-3)
    found, wanted = (round_jointly(weight, scale, each) for each in (of_rows, matrix))
    assert (found != wanted).mean() < 0.01
    assert (found != np.rint(weight)).mean() > 0.05


def test_curvature_stays_in_single_precision() -> None:
    rows, ridge = np.ones((2, 3, 5), np.float32), np.ones((2, 1, 1), np.float32)
    for curvature in (OfRows(rows, ridge), with_ridge(np.ones((2, 5, 5), np.float32), ridge.astype(np.float64))):
        assert curvature.block(slice(1, 3)).dtype == np.float32
        error = curvature.error(np.ones((2, 2, 4), np.float32), slice(1, 3))
        assert error.dtype == np.float32
        assert curvature.slope(error, np.ones((2, 2, 4), np.float32), slice(1, 3)).dtype == np.float32


def test_the_scale_is_but_the_unit() -> None:
    weight, scale, inputs = layer(0, 9)
    found = round_jointly(weight, scale, Matrix(inputs))
    smaller = round_jointly(weight * np.float32(0.25), scale.astype(np.float64) * 0.25, Matrix(inputs))
    np.testing.assert_array_equal(smaller, found)
    assert smaller.dtype == found.dtype == np.float32


def test_the_order_of_the_weights_does_not_change_the_aim(monkeypatch: pytest.MonkeyPatch) -> None:
    """Backwards, so that the weight that sets the scale comes last; and over more than one block."""
    monkeypatch.setattr(rounding, "_SWEEPS", 20)
    for weights in (9, 150):
        weight, scale, inputs = layer(0, weights, rows=400)
        turned = inputs[:, ::-1, ::-1]
        found = round_jointly(weight[:, :, ::-1].copy(), scale, Matrix(turned.copy()))
        slope = np.einsum("gow,gwv->gov", found - weight[:, :, ::-1], turned)
        curvature = np.diagonal(turned, axis1=1, axis2=2)[:, None]
        gain = np.abs(2 * slope[:, :, :-1]) - curvature[:, :, :-1]
        assert gain.max() < 1e-3 * curvature.max()


def test_no_integer_is_beyond_127() -> None:
    """127.5 steps are rounded to the even 128."""
    weight = np.array([[[127.5, 1.2, 0.4], [-127.5, -3.4, 0.1]]], np.float32)
    found = round_jointly(weight, np.ones((1, 2), np.float32), Matrix(np.eye(3, dtype=np.float32)[None]))
    np.testing.assert_array_equal(found, [[[127, 1, 0], [-127, -3, 0]]])


def test_a_channel_whose_largest_weight_gave_way_gets_it_back() -> None:
    """Inputs that are all the same: what three small weights gain, the largest one loses."""
    weight = np.array(
        [[[127, 0.6, 0.6, 0.6], [0.6, 0.6, -0.6, 127], [-127, -0.6, -0.6, -0.6], [0, 0, 0, 0]]], np.float32
    )
    alike = with_ridge(np.ones((1, 4, 4), np.float32), np.full((1, 1, 1), 0.01))
    (found,) = round_jointly(weight, np.ones((1, 4), np.float32), alike)
    np.testing.assert_array_equal(np.abs(found).max(axis=1), [127, 127, 127, 0])
    assert (found[0, 0], found[2, 0], found[1, 3]) == (127, -127, 127)
    assert np.abs(found - weight[0]).max() <= 1.5
    # Without that, 126 and three times 1 would be nearest to 128.8.
    assert found[0].sum() == 130


def test_most_of_the_gain_comes_from_the_sweeps_that_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    weight, scale, inputs = layer(0, 150, rows=400)
    found = [
        errors(np.rint(weight), weight, inputs).sum(),
        errors(round_jointly(weight, scale, Matrix(inputs)), weight, inputs).sum(),
    ]
    monkeypatch.setattr(rounding, "_SWEEPS", 100)
    best = errors(round_jointly(weight, scale, Matrix(inputs)), weight, inputs).sum()
    assert best <= found[1] < best + 0.1 * (found[0] - best)


def test_channels_that_threads_share_are_rounded_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounding, "_FEWEST_CHANNELS", 2)
    weight, scale, inputs = layer(0, 30, channels=7, rows=100)
    shared = round_jointly(weight, scale, Matrix(inputs))
    for workers in (1, 2, 16):
        monkeypatch.setattr(threads, "worker_threads", lambda most, workers=workers: min(most, workers))
        np.testing.assert_array_equal(shared, round_jointly(weight, scale, Matrix(inputs)))
    monkeypatch.setattr(rounding, "_PARTS", 1)
    np.testing.assert_array_equal(shared, round_jointly(weight, scale, Matrix(inputs)))
    assert np.any(shared != np.rint(weight))
