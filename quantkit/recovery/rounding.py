"""Rounding weights so that a layer's output changes least, instead of each weight."""

from __future__ import annotations

import numpy as np

_LIMIT = 127
_SWEEPS = 8
_BLOCK = 64


def round_jointly(weight: np.ndarray, scale: np.ndarray, inputs: np.ndarray) -> np.ndarray:
    """Integers Q near W / s for which the squared error tr((Qs - W) H (Qs - W)') is small.

    The error of a layer's output over rows X is that with H = X'X: one weight's rounding can make up for
    another's where their inputs go together. The aim of AdaRound (Nagel et al., ICML 2020), reached
    as in CDQuant (Nair and Suggala, 2024): from the nearest integers on, each weight in turn takes the
    integer that is best given all others, until nothing changes or 8 times. The error never grows, but
    where a channel has lost its weight of 127 or -127 and its largest takes that place in the end.

    Args:
        weight: W, float32 (groups, channels, weights).
        scale: s, (groups, channels), positive; |W / s| at most 127.5.
        inputs: H, positive definite, (groups, weights, weights).

    Returns:
        Integers from -127 to 127 as float32, the shape of ``weight``. Every channel that is not all 0 keeps
        a weight of 127 or -127, so that its scale can be read off it.
    """
    steps = scale[:, :, None].astype(np.float32)
    integers = np.clip(np.rint(weight / steps), -_LIMIT, _LIMIT).astype(np.float32)
    curvature = np.einsum("gww->gw", inputs)
    slope = (integers * steps - weight) @ inputs
    for _ in range(_SWEEPS):
        before = integers.copy()
        for start in range(0, weight.shape[2], _BLOCK):
            block = slice(start, start + _BLOCK)
            old = integers[:, :, block].copy()
            _improve(
                integers[:, :, block], slope[:, :, block].copy(), curvature[:, block], inputs[:, block, block], steps
            )
            slope += ((integers[:, :, block] - old) * steps) @ inputs[:, block]
        if np.array_equal(before, integers):
            break
    return _with_full_range(integers)


def _improve(
    integers: np.ndarray, slope: np.ndarray, curvature: np.ndarray, inputs: np.ndarray, steps: np.ndarray
) -> None:
    """One pass over a block of weights, in place; ``slope`` is used up."""
    step = steps[:, :, 0]
    for position in range(integers.shape[2]):
        old = integers[:, :, position]
        wanted = old - slope[:, :, position] / (curvature[:, position, None] * step)
        new = np.clip(np.rint(wanted), -_LIMIT, _LIMIT)
        change = (new - old) * step
        integers[:, :, position] = new
        slope += change[:, :, None] * inputs[:, None, position]


def _with_full_range(integers: np.ndarray) -> np.ndarray:
    rows = integers.reshape(-1, integers.shape[2])
    peak = np.abs(rows).max(axis=1)
    for row in np.flatnonzero((peak > 0) & (peak < _LIMIT)):
        strongest = np.abs(rows[row]).argmax()
        rows[row, strongest] = np.copysign(_LIMIT, rows[row, strongest])
    return integers
