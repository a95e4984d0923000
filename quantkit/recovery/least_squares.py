"""Second moments of a layer's rows, and weights fitted to them by least squares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

import numpy as np

from quantkit.extras import using

# Of the mean squared input; the last leaves the weights as they are.
_STRENGTHS = (0.01, 0.1, 1.0, 10.0, np.inf)


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums over rows, all float32, after the means were taken out: what a layer's error depends on.

    Attributes:
        rows: their number.
        weights: how many a channel has; more than ``inputs`` where a basis of the rows stands for them.
        inputs: products of inputs with inputs, (groups, weights, weights).
        cross: products of inputs with targets, (groups, weights, channels).
    """

    rows: int
    weights: int
    inputs: np.ndarray
    cross: np.ndarray

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.rows + other.rows, self.weights, self.inputs + other.inputs, self.cross + other.cross)

    @property
    def power(self) -> np.ndarray:
        """The mean squared input of each group, (groups, 1, 1), never 0."""
        mean = np.trace(self.inputs, axis1=1, axis2=2) / (self.rows * self.weights)
        return np.asarray(np.where(mean > 0, mean, 1.0)[:, None, None])


def moments(inputs: np.ndarray, targets: np.ndarray, weights: Optional[int] = None) -> Moments:
    """The moments of rows and targets whose means are 0.

    Args:
        inputs: the rows, (groups, rows, weights).
        targets: (groups, rows, channels).
        weights: how many a channel has, where ``inputs`` are in a basis.
    """
    transposed = inputs.swapaxes(1, 2)
    return Moments(inputs.shape[1], weights or inputs.shape[2], transposed @ inputs, transposed @ targets)


def row_basis(rows: np.ndarray) -> np.ndarray:
    """An orthonormal basis of what fewer rows (groups, rows, weights) than weights span, (groups, weights, rows).

    Fitted weights differ from the old ones by rows only, so a wide layer with few rows is as little work in this
    basis as a narrow one.
    """
    return np.asarray(np.linalg.qr(rows.swapaxes(1, 2))[0])


def refit(
    weight: np.ndarray, halves: tuple[Moments, Moments], basis: Optional[np.ndarray] = None
) -> tuple[np.ndarray, np.ndarray]:
    """Weights that come nearest to the targets, given the inputs as they are.

    The layers before have left errors in the inputs, which are correlated with the inputs and so can in
    part be undone. Ridge regression (Hoerl and Kennard, Technometrics 12, 1970) towards the weights as
    they were: W' = (W s + T'X) (X'X + s)^-1. Its strength s is chosen for each group by its error on
    rows of other images: the first half's fit on the second's rows and the other way round. So few
    images, or inputs without error, leave the weights as they are.

    Args:
        weight: (groups, channels, weights).
        halves: moments over rows of different images.
        basis: see ``row_basis``; None: the moments are those of the rows themselves.

    Returns:
        The fitted weights, and the strengths in units of ``Moments.power``, (groups,); inf: not fitted.
    """
    if basis is not None:
        inside = weight @ basis
        moved, strengths = refit(inside, halves)
        return weight + (moved - inside) @ basis.swapaxes(1, 2), strengths
    first, second = halves
    errors = [
        _error(_fitted(weight, first, strength), second) + _error(_fitted(weight, second, strength), first)
        for strength in _STRENGTHS
    ]
    best = np.argmin(errors, axis=0)
    fitted = weight.copy()
    for index, strength in enumerate(_STRENGTHS):
        chosen = best == index
        if chosen.any() and np.isfinite(strength):
            fitted[chosen] = _fitted(weight, first + second, strength)[chosen]
    return fitted, np.asarray(_STRENGTHS)[best]


def _fitted(weight: np.ndarray, over: Moments, strength: float) -> np.ndarray:
    if not np.isfinite(strength):
        return weight
    pull = strength * over.power * over.rows
    size = over.inputs.shape[1]
    matrix = over.inputs + pull.astype(np.float32) * np.eye(size, dtype=np.float32)
    wanted = over.cross + pull.astype(np.float32) * weight.swapaxes(1, 2)
    # Half the work for a wide layer; many narrow groups are better solved together.
    solved = _solve_definite(matrix[0], wanted[0])[None] if len(matrix) == 1 else np.linalg.solve(matrix, wanted)
    return np.asarray(solved.swapaxes(1, 2), np.float32)


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
