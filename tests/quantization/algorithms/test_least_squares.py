"""Refitting against NumPy's own least squares, and on rows whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from quantkit.quantization.algorithms.least_squares import Moments, moments, refit, refit_to_few

WEIGHT = np.random.default_rng(0).normal(size=(1, 3, 6)).astype(np.float32)


def rows(seed: int, count: int, distortion: np.ndarray, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """What a layer should put out, and inputs that were distorted on their way."""
    random = np.random.default_rng(seed)
    clean = random.normal(size=(1, count, 6)).astype(np.float32)
    wanted = clean @ WEIGHT.swapaxes(1, 2)
    return (clean @ distortion + noise * random.normal(size=clean.shape)).astype(np.float32), wanted


def halves(count: int, distortion: np.ndarray, noise: float = 0.0) -> tuple[Moments, Moments]:
    return moments(*rows(1, count, distortion, noise)), moments(*rows(2, count, distortion, noise))


def test_a_linear_distortion_is_undone() -> None:
    distortion = (np.eye(6) + 0.1 * np.random.default_rng(3).normal(size=(6, 6))).astype(np.float32)
    fitted, strength = refit(WEIGHT, halves(500, distortion))
    undone = WEIGHT[0] @ np.linalg.inv(distortion).T
    assert strength[0] == 0.01
    assert np.abs(fitted[0] - undone).max() < 0.1 * np.abs(WEIGHT[0] - undone).max()


def test_the_fit_is_ridge_regression() -> None:
    distortion = (1.3 * np.eye(6)).astype(np.float32)
    fitted, strength = refit(WEIGHT, halves(500, distortion, 0.3))
    inputs, wanted = (
        np.concatenate(parts, axis=1)[0] for parts in zip(*(rows(s, 500, distortion, 0.3) for s in (1, 2)))
    )
    pull = np.sqrt(strength[0] * (inputs.astype(np.float64) ** 2).sum() / 6)
    rows_of_pull = (pull * np.eye(6), pull * WEIGHT[0].T)
    expected, *_ = np.linalg.lstsq(
        np.vstack([inputs, rows_of_pull[0]]), np.vstack([wanted, rows_of_pull[1]]), rcond=None
    )
    np.testing.assert_allclose(fitted[0], expected.T, atol=1e-4)


def test_inputs_without_error_leave_the_weights() -> None:
    fitted, _ = refit(WEIGHT, halves(50, np.eye(6, dtype=np.float32)))
    np.testing.assert_allclose(fitted, WEIGHT, atol=1e-3)


def test_few_rows_of_noise_leave_the_weights() -> None:
    random = np.random.default_rng(0)

    def noisy() -> Moments:
        inputs = random.normal(size=(1, 7, 6)).astype(np.float32)
        wanted = inputs @ WEIGHT.swapaxes(1, 2) + 5 * random.normal(size=(1, 7, 3)).astype(np.float32)
        return moments(inputs, wanted.astype(np.float32))

    changes = [np.abs(refit(WEIGHT, (noisy(), noisy()))[0] - WEIGHT).max() for _ in range(20)]
    least_squares = [
        np.abs(np.linalg.solve(m.inputs[0], m.cross[0]).T - WEIGHT[0]).max() for m in (noisy() for _ in range(20))
    ]
    assert np.median(changes) < 0.2 * np.median(least_squares)


def judged(weight: np.ndarray, inputs: np.ndarray, wanted: np.ndarray) -> float:
    """The mean squared error of weights on rows, in double precision."""
    return float(np.square(inputs.astype(np.float64) @ weight.T - wanted).mean())


def test_where_no_strength_serves_other_images_the_weights_stay_as_they_are() -> None:
    """Bit by bit: each half's noise makes every fit to it worse than the weights on the other half's rows."""
    random = np.random.default_rng(4)
    inputs = random.normal(size=(1, 40, 6)).astype(np.float32)
    noise = 0.5 * random.normal(size=(1, 40, 3)).astype(np.float32)
    targets = [inputs @ WEIGHT.swapaxes(1, 2) + sign * noise for sign in (1, -1)]
    fitted, strength = refit(WEIGHT, (moments(inputs, targets[0]), moments(inputs, targets[1])))
    assert strength.tolist() == [np.inf]
    np.testing.assert_array_equal(fitted, WEIGHT)


@pytest.mark.parametrize("noise", [0.0, 0.5, 1.5, 5.0, 20.0])
@pytest.mark.parametrize("counts", [(60, 60), (200, 8), (8, 200)])
def test_the_strength_is_the_larger_of_those_that_serve_other_images(noise: float, counts: tuple[int, int]) -> None:
    """Against fits by NumPy, each judged on the other half's rows; more noise asks for more strength."""
    random = np.random.default_rng(5)
    distorted = [1.2 * random.normal(size=(count, 6)).astype(np.float32) for count in counts]
    targets = [
        (rows / 1.2 @ WEIGHT[0].T + noise * random.normal(size=(len(rows), 3))).astype(np.float32) for rows in distorted
    ]

    def fit(half: int, strength: float) -> np.ndarray:
        if np.isinf(strength):
            return WEIGHT[0]
        rows = distorted[half].astype(np.float64)
        pull = strength * np.square(rows).sum() / 6 * np.eye(6)
        return np.linalg.solve(rows.T @ rows + pull, rows.T @ targets[half] + pull @ WEIGHT[0].T).T

    strengths = (0.01, 0.1, 1.0, 10.0, np.inf)
    best = [
        min(strengths, key=lambda each: judged(fit(a, each), distorted[b], targets[b])) for a, b in ((0, 1), (1, 0))
    ]
    halves_ = tuple(moments(rows[None], wanted[None]) for rows, wanted in zip(distorted, targets))
    fitted, strength = refit(WEIGHT, halves_)  # type: ignore[arg-type]
    assert strength[0] == max(best)
    assert (strength[0] == np.inf) == np.array_equal(fitted, WEIGHT)


def test_groups_are_fitted_apart() -> None:
    distortions = [np.eye(6, dtype=np.float32), (1.5 * np.eye(6)).astype(np.float32)]
    parts = [halves(300, distortion) for distortion in distortions]
    both = tuple(
        Moments(a.rows, np.concatenate([a.inputs, b.inputs]), np.concatenate([a.cross, b.cross]))
        for a, b in zip(*parts)
    )
    fitted, _ = refit(np.concatenate([WEIGHT, WEIGHT]), both)  # type: ignore[arg-type]
    np.testing.assert_allclose(fitted, np.concatenate([refit(WEIGHT, part)[0] for part in parts]), atol=1e-5)
    assert abs(np.abs(fitted[1]).sum() / np.abs(WEIGHT).sum() - 1 / 1.5) < 0.01


def test_nothing_to_divide_by() -> None:
    silent = moments(np.zeros((1, 5, 6), np.float32), np.zeros((1, 5, 3), np.float32))
    assert np.isfinite(refit(WEIGHT, (silent, silent))[0]).all()


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_few_rows_are_fitted_as_many_are(noise: float) -> None:
    random = np.random.default_rng(0)
    wide = random.normal(size=(2, 3, 40)).astype(np.float32)
    # What rows of one half span, those of the other do too.
    clean = (random.normal(size=(2, 12, 4)) @ random.normal(size=(2, 4, 40))).astype(np.float32)
    seen = (1.2 * clean + noise * random.normal(size=clean.shape)).astype(np.float32)
    wanted, odd = clean @ wide.swapaxes(1, 2), np.arange(12) % 2 == 1
    exact, aims = seen.astype(np.float64), wanted.astype(np.float64)
    expected, strengths = refit(wide, (moments(exact[:, ~odd], aims[:, ~odd]), moments(exact[:, odd], aims[:, odd])))
    found, same = refit_to_few(wide, seen, wanted, odd)
    np.testing.assert_array_equal(same, strengths)
    assert np.isfinite(strengths).all()
    np.testing.assert_allclose(found, expected, atol=2e-4)
    assert np.abs(found - wide).max() > 0.01
    assert found.dtype == np.float32


@pytest.mark.parametrize("noise", [0.1, 1.0])
def test_of_many_channels_some_choose_the_strength_for_all(noise: float) -> None:
    """For many rows and for few; all channels are fitted."""
    random = np.random.default_rng(0)
    weight = random.normal(size=(1, 200, 30)).astype(np.float32)
    for count in (400, 20):
        seen = random.normal(size=(1, count, 30)).astype(np.float32)
        wanted = (seen @ weight.swapaxes(1, 2) / 1.3 + noise * random.normal(size=(1, count, 200))).astype(np.float32)
        odd = np.arange(count) % 2 == 1
        halves = moments(seen[:, ~odd], wanted[:, ~odd]), moments(seen[:, odd], wanted[:, odd])
        fitted, strength = refit(weight, halves) if count > 30 else refit_to_few(weight, seen, wanted, odd)
        strengths, best = (0.01, 0.1, 1.0, 10.0, np.inf), []
        for own, other in ((odd, ~odd), (~odd, odd)):
            fits = [ridge(seen[0, own], wanted[0, own], weight[0], each) for each in strengths]
            # Every fourth channel: at most 64 of 200.
            errors = [judged(fit[::4], seen[0, other], wanted[0, other, ::4]) for fit in fits]
            best.append(strengths[int(np.argmin(errors))])
        assert strength[0] == max(best)
        np.testing.assert_allclose(fitted[0], ridge(seen[0], wanted[0], weight[0], strength[0]), atol=2e-3)


def ridge(rows: np.ndarray, wanted: np.ndarray, old: np.ndarray, strength: float) -> np.ndarray:
    """Least squares towards the old weights, in double precision."""
    if np.isinf(strength):
        return old
    exact = rows.astype(np.float64)
    pull = strength * np.square(exact).sum() / exact.shape[1] * np.eye(exact.shape[1])
    return np.asarray(np.linalg.solve(exact.T @ exact + pull, exact.T @ wanted + pull @ old.T).T)
