"""Rounding weights so that a layer's output changes least, instead of each weight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

_LIMIT = 127
_SWEEPS = 8
_BLOCK = 64


class Curvature(Protocol):
    """A symmetric positive definite matrix for each group: what changes of a channel's weights cost together."""

    def block(self, block: slice) -> np.ndarray:
        """A square part on the diagonal, (groups, weights, weights)."""

    def times(self, change: np.ndarray, block: slice) -> np.ndarray:
        """The product with a change of some weights, (groups, channels, weights of the block), for all weights."""


@dataclass(frozen=True, eq=False)
class Matrix:
    """The matrix as it is, (groups, weights, weights)."""

    values: np.ndarray

    def block(self, block: slice) -> np.ndarray:
        """See ``Curvature``."""
        return self.values[:, block, block]

    def times(self, change: np.ndarray, block: slice) -> np.ndarray:
        """See ``Curvature``."""
        return np.asarray(change @ self.values[:, block])


@dataclass(frozen=True, eq=False)
class OfRows:
    """X'X + ridge, from fewer rows X (groups, rows, weights) than weights; ``ridge``: (groups, 1, 1)."""

    rows: np.ndarray
    ridge: np.ndarray

    def block(self, block: slice) -> np.ndarray:
        """See ``Curvature``."""
        part = self.rows[:, :, block]
        return np.asarray(part.swapaxes(1, 2) @ part + self.ridge * np.eye(part.shape[2], dtype=np.float32))

    def times(self, change: np.ndarray, block: slice) -> np.ndarray:
        """See ``Curvature``."""
        product = (change @ self.rows[:, :, block].swapaxes(1, 2)) @ self.rows
        product[:, :, block] += self.ridge * change
        return np.asarray(product)


def with_ridge(matrix: np.ndarray, ridge: np.ndarray) -> Matrix:
    """The matrix (groups, weights, weights) with ``ridge`` (groups, 1, 1) added to its diagonal."""
    return Matrix(matrix + ridge.astype(np.float32) * np.eye(matrix.shape[1], dtype=np.float32))


def round_jointly(weight: np.ndarray, scale: np.ndarray, curvature: Curvature) -> np.ndarray:
    """Integers Q near W / s for which the squared error tr((Qs - W) H (Qs - W)') is small.

    The error of a layer's output over rows X is that with H = X'X: one weight's rounding can make up for
    another's where their inputs go together. The aim of AdaRound (Nagel et al., ICML 2020), reached
    as in CDQuant (Nair and Suggala, 2024): from the nearest integers on, each weight in turn takes the
    integer that is best given all others, until nothing changes or 8 times. The error never grows, but
    where a channel has lost its weight of 127 or -127 and its largest takes that place in the end.

    Args:
        weight: W, float32 (groups, channels, weights).
        scale: s, (groups, channels), positive; |W / s| at most 127.5.
        curvature: H.

    Returns:
        Integers from -127 to 127 as float32, the shape of ``weight``. Every channel that is not all 0 keeps
        a weight of 127 or -127, so that its scale can be read off it.
    """
    steps = scale[:, :, None].astype(np.float32)
    integers = np.clip(np.rint(weight / steps), -_LIMIT, _LIMIT).astype(np.float32)
    slope = curvature.times(integers * steps - weight, slice(None))
    for _ in range(_SWEEPS):
        before = integers.copy()
        for start in range(0, weight.shape[2], _BLOCK):
            block = slice(start, start + _BLOCK)
            old = integers[:, :, block].copy()
            _improve(integers[:, :, block], slope[:, :, block].copy(), curvature.block(block), steps)
            slope += curvature.times((integers[:, :, block] - old) * steps, block)
        if np.array_equal(before, integers):
            break
    return _with_full_range(integers)


def _improve(integers: np.ndarray, slope: np.ndarray, curvature: np.ndarray, steps: np.ndarray) -> None:
    """One pass over a block of weights, in place; ``slope`` is used up."""
    step = steps[:, :, 0]
    for position in range(integers.shape[2]):
        old = integers[:, :, position]
        wanted = old - slope[:, :, position] / (curvature[:, position, position, None] * step)
        new = np.clip(np.rint(wanted), -_LIMIT, _LIMIT)
        change = (new - old) * step
        integers[:, :, position] = new
        slope += change[:, :, None] * curvature[:, None, position]


def _with_full_range(integers: np.ndarray) -> np.ndarray:
    rows = integers.reshape(-1, integers.shape[2])
    peak = np.abs(rows).max(axis=1)
    for row in np.flatnonzero((peak > 0) & (peak < _LIMIT)):
        strongest = np.abs(rows[row]).argmax()
        rows[row, strongest] = np.copysign(_LIMIT, rows[row, strongest])
    return integers
