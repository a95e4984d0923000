"""Second moments of a layer's rows, and weights fitted to them by least squares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from quantkit.extras import using
from quantkit.quantization.threads import in_threads

# Of the mean squared input; the last leaves the weights as they are.
_STRENGTHS = (0.01, 0.1, 1.0, 10.0, np.inf)

# For matrices and their factors, in bytes.
_MEMORY = 2**29

# More channels do not change which strength is best.
_MOST_JUDGES = 64


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums over rows, all float32, after the means were taken out: what a layer's error depends on.

    Attributes:
        rows: their number.
        inputs: products of inputs with inputs, (groups, weights, weights).
        cross: products of inputs with targets, (groups, weights, channels).
    """

    rows: int
    inputs: np.ndarray
    cross: np.ndarray

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.rows + other.rows, self.inputs + other.inputs, self.cross + other.cross)

    def of(self, channels: slice) -> Moments:
        """The moments of some channels alone."""
        return Moments(self.rows, self.inputs, self.cross[:, :, channels])

    @property
    def power(self) -> np.ndarray:
        """The mean squared input of each group, (groups, 1, 1), never 0."""
        return _power(self.inputs, self.rows, self.inputs.shape[1])


def moments(inputs: np.ndarray, targets: np.ndarray) -> Moments:
    """The moments of rows (groups, rows, weights) and targets (groups, rows, channels) whose means are 0."""
    transposed = inputs.swapaxes(1, 2)
    return Moments(inputs.shape[1], transposed @ inputs, transposed @ targets)


def refit(weight: np.ndarray, halves: tuple[Moments, Moments]) -> tuple[np.ndarray, np.ndarray]:
    """Weights that come nearest to the targets, given the inputs as they are.

    The layers before have left errors in the inputs, which are correlated with the inputs and so can in
    part be undone. Ridge regression (Hoerl and Kennard, Technometrics 12, 1970) towards the weights as
    they were: W' = (W s + T'X) (X'X + s)^-1. For each group the strength s is the larger of two: that
    with which the first half's fit is best on the second's rows, and the other way round. So few
    images, or inputs without error, leave the weights as they are.

    Args:
        weight: (groups, channels, weights).
        halves: moments over rows of different images.

    Returns:
        The fitted weights, and the strengths in units of ``Moments.power``, (groups,); inf: not fitted.
    """
    first, second = halves
    judges = _judges(weight)
    judged, ones, others = weight[:, judges], first.of(judges), second.of(judges)
    tried = list(product(_STRENGTHS, ((ones, others), (others, ones))))

    def error(number: int) -> np.ndarray:
        strength, (own, other) = tried[number]
        return _error(_fitted(judged, own, strength), other)

    best = _chosen(in_threads(error, len(tried), _fits_at_once(weight)))
    fitted = weight.copy()
    for index, strength in enumerate(_STRENGTHS):
        chosen = best == index
        if chosen.any() and np.isfinite(strength):
            fitted[chosen] = _fitted(weight, first + second, strength)[chosen]
    return fitted, np.asarray(_STRENGTHS)[best]


def refit_to_few(
    weight: np.ndarray, rows: np.ndarray, targets: np.ndarray, odd: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """What ``refit`` gives for fewer rows than weights, in less time.

    W' - W is a combination A of rows: with what W leaves over, R = T - XW', the same regression is A = (XX' + s)^-1 R
    (the dual form, Saunders et al., "Ridge regression learning algorithm in dual variables", ICML 1998).

    Args:
        weight: (groups, channels, weights).
        rows: X, (groups, rows, weights), whose means are 0.
        targets: T, (groups, rows, channels), whose means are 0.
        odd: which rows are of the second half of the images, (rows,).
    """
    left = targets - rows @ weight.swapaxes(1, 2)
    products = rows @ rows.swapaxes(1, 2)
    width, judges = rows.shape[2], _judges(weight)
    first, second = np.flatnonzero(~odd), np.flatnonzero(odd)

    def combination(some: np.ndarray, strength: float, channels: slice) -> np.ndarray:
        own = products[:, some[:, None], some]
        return _solved(own, left[:, some, channels], strength * _power(own, len(some), width) * len(some))

    def error(some: np.ndarray, other: np.ndarray, strength: float) -> np.ndarray:
        rest = left[:, other, judges]
        if np.isfinite(strength):
            rest = rest - products[:, other[:, None], some] @ combination(some, strength, judges)
        return np.asarray(np.square(rest).sum(axis=(1, 2)) / len(other))

    tried = list(product(_STRENGTHS, ((first, second), (second, first))))
    each = in_threads(lambda number: error(*tried[number][1], tried[number][0]), len(tried), _fits_at_once(products))
    best = _chosen(each)
    fitted = weight.copy()
    everything = np.arange(len(odd))
    for index, strength in enumerate(_STRENGTHS):
        chosen = best == index
        if chosen.any() and np.isfinite(strength):
            moved = combination(everything, strength, slice(None)).swapaxes(1, 2) @ rows
            fitted[chosen] += moved[chosen]
    return fitted, np.asarray(_STRENGTHS)[best]


def _fits_at_once(matrix: np.ndarray) -> int:
    """How many systems of equations may be solved at once, whose matrices have as many rows as this one columns."""
    groups, width = len(matrix), matrix.shape[2]
    return max(1, _MEMORY // (2 * 4 * groups * width * width))


def _chosen(errors: Sequence[np.ndarray]) -> np.ndarray:
    """The place of each group's strength, from the errors of each strength's fit to each half, one after the other.

    Of what the halves choose, the stronger: a weaker one would serve the images of one half alone, and where the errors
    of several strengths are nearly the same, it does worse on further images.
    """
    return np.asarray(np.reshape(errors, (len(_STRENGTHS), 2, -1)).argmin(axis=0).max(axis=0))


def _judges(weight: np.ndarray) -> slice:
    """The channels by whose errors the strength is chosen."""
    return slice(None, None, -(-weight.shape[1] // _MOST_JUDGES))


def mean_square(rows: np.ndarray) -> np.ndarray:
    """The mean squared input of each group's rows (groups, rows, weights), (groups, 1, 1), never 0."""
    mean = np.square(rows).mean(axis=(1, 2))
    return np.asarray(np.where(mean > 0, mean, 1.0)[:, None, None])


def _power(products: np.ndarray, rows: int, weights: int) -> np.ndarray:
    """The mean squared input of each group, (groups, 1, 1), never 0, from the products of inputs or those of rows."""
    mean = np.trace(products, axis1=1, axis2=2) / (rows * weights)
    return np.asarray(np.where(mean > 0, mean, 1.0)[:, None, None])


def _fitted(weight: np.ndarray, over: Moments, strength: float) -> np.ndarray:
    if not np.isfinite(strength):
        return weight
    pull = strength * over.power * over.rows
    wanted = over.cross + pull.astype(np.float32) * weight.swapaxes(1, 2)
    return np.asarray(_solved(over.inputs, wanted, pull).swapaxes(1, 2), np.float32)


def _solved(products: np.ndarray, wanted: np.ndarray, pull: np.ndarray) -> np.ndarray:
    """(products + pull)^-1 wanted for each group; ``pull``: (groups, 1, 1)."""
    matrix = products.copy()
    np.einsum("gii->gi", matrix)[...] += pull.astype(np.float32)[:, :, 0]
    # Half the work for many weights; many groups of few are better solved together.
    solved = _solve_definite(matrix[0], wanted[0])[None] if len(matrix) == 1 else np.linalg.solve(matrix, wanted)
    return np.asarray(solved)


def _solve_definite(matrix: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    with using("benchmark", "least squares"):
        from scipy.linalg import cho_factor, cho_solve

    factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
    return np.asarray(cho_solve(factor, wanted, overwrite_b=True, check_finite=False))


def _error(weight: np.ndarray, over: Moments) -> np.ndarray:
    """The mean squared error of each group, less what does not depend on the weights, (groups,)."""
    products = weight @ over.inputs
    squared = np.einsum("gow,gow->g", products, weight) - 2 * np.einsum("gow,gwo->g", weight, over.cross)
    return np.asarray(squared / over.rows)
