"""Rounding weights so that a layer's output changes least, instead of each weight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Optional, Protocol

import numpy as np

from quantkit.host.pair_sums import LARGEST_PAIR
from quantkit.quantization.reduced_range import without_overflow
from quantkit.quantization.threads import in_threads
from quantkit.quantization.weights import LEVELS

# What four more would gain is a twentieth of what these do.
_SWEEPS = 4
_BLOCK = 128
# Weights whose changes reach each other one by one; those of the run before, and of the block, together.
_RUN = 16
# Threads share the channels: with more or smaller parts they would mostly wait for Python's interpreter lock. All
# machines have the same parts: products of other widths differ in their last bits, and so would a few integers.
_PARTS = 2
_FEWEST_CHANNELS = 256


class Curvature(Protocol):
    """A symmetric positive definite matrix for each group: what changes of a channel's weights cost together."""

    def block(self, block: slice) -> np.ndarray:
        """A square part on the diagonal, (groups, weights, weights)."""

    def error(self, change: np.ndarray, block: slice) -> np.ndarray:
        """What a change of some weights, (groups, weights of the block, channels), adds to the error."""

    def slope(self, error: np.ndarray, change: np.ndarray, block: slice) -> np.ndarray:
        """Half the derivative of the cost by some weights, given the error and what they were changed by in all."""


@dataclass(frozen=True, eq=False)
class Matrix:
    """The matrix as it is, (groups, weights, weights); the error is the slope of all weights."""

    values: np.ndarray

    def block(self, block: slice) -> np.ndarray:
        """See ``Curvature``."""
        return self.values[:, block, block]

    def error(self, change: np.ndarray, block: slice) -> np.ndarray:
        """See ``Curvature``."""
        return np.asarray(self.values[:, :, block] @ change)

    def slope(self, error: np.ndarray, change: np.ndarray, block: slice) -> np.ndarray:
        """See ``Curvature``."""
        return error[:, block]


@dataclass(frozen=True, eq=False)
class OfRows:
    """X'X + ridge, from fewer rows X (groups, rows, weights) than weights; ``ridge``: (groups, 1, 1).

    The error is that of the layer's output over the rows.
    """

    rows: np.ndarray
    ridge: np.ndarray

    def block(self, block: slice) -> np.ndarray:
        """See ``Curvature``."""
        part = self.rows[:, :, block]
        return np.asarray(part.swapaxes(1, 2) @ part + self.ridge * np.eye(part.shape[2], dtype=np.float32))

    def error(self, change: np.ndarray, block: slice) -> np.ndarray:
        """See ``Curvature``."""
        return np.asarray(self.rows[:, :, block] @ change)

    def slope(self, error: np.ndarray, change: np.ndarray, block: slice) -> np.ndarray:
        """See ``Curvature``."""
        return np.asarray(self.rows[:, :, block].swapaxes(1, 2) @ error + self.ridge * change)


def with_ridge(matrix: np.ndarray, ridge: np.ndarray) -> Matrix:
    """The matrix (groups, weights, weights) with ``ridge`` (groups, 1, 1) added to its diagonal."""
    return Matrix(matrix + ridge.astype(np.float32) * np.eye(matrix.shape[1], dtype=np.float32))


Kept = Literal["peaks", "pairs"]
"""What integers keep to: a largest weight from which their scale can be read, or pairs that fit in 16 bits."""


def round_jointly(
    weight: np.ndarray, scale: np.ndarray, curvature: Curvature, keeps: Optional[Kept] = "peaks"
) -> np.ndarray:
    """Integers Q near W / s for which the squared error tr((Qs - W) H (Qs - W)') is small.

    The error of a layer's output over rows X is that with H = X'X: one weight's rounding can make up for
    another's where their inputs go together. The aim of AdaRound (Nagel et al., ICML 2020), reached
    as in CDQuant (Nair and Suggala, 2024): from the nearest integers on, each weight in turn takes the
    integer that is best given all others, until nothing changes or 4 times. The error never grows, but
    where a channel has lost its weight of 127 and its largest takes that place in the end.

    Args:
        weight: W, float32 (groups, channels, weights).
        scale: s, (groups, channels), positive.
        curvature: H.
        keeps: ``peaks``: every channel that is not all 0 keeps a weight of 127 or -127. ``pairs``: no two neighbours
            overflow 16 bits; there is one group. None: any integers will do.

    Returns:
        Integers from -127 to 127 as float32, the shape of ``weight``.
    """
    # Weights before channels: what one weight's change does to the others is contiguous.
    steps = np.ascontiguousarray(scale[:, None, :], np.float32)
    wanted = np.ascontiguousarray(weight.swapaxes(1, 2))
    exact = wanted / steps
    integers = without_overflow(exact[0].T).T[None].astype(np.float32) if keeps == "pairs" else _nearest(exact)
    error = curvature.error(integers * steps - wanted, slice(None))
    channels = _Channels(wanted, steps, integers, error, keeps == "pairs")
    blocks = [_block(curvature, slice(start, start + _BLOCK)) for start in range(0, wanted.shape[1], _BLOCK)]
    # Channels do not depend on each other.
    count = wanted.shape[2]
    parts = np.array_split(np.arange(count), int(np.clip(count // _FEWEST_CHANNELS, 1, _PARTS)))
    found = in_threads(lambda part: _swept(channels.of(parts[part]), blocks, curvature), len(parts))
    result = np.ascontiguousarray(np.concatenate(found, axis=2).swapaxes(1, 2))
    return _with_full_range(result) if keeps == "peaks" else result


@dataclass(frozen=True, eq=False)
class _Block:
    """Some weights: their part of the curvature's diagonal, and how far each one's change moves what each other wants.

    ``diagonal`` is (groups, weights, 1), ``pull`` (groups, weights, weights).
    """

    weights: slice
    diagonal: np.ndarray
    pull: np.ndarray


def _block(curvature: Curvature, weights: slice) -> _Block:
    matrix = curvature.block(weights)
    diagonal = np.diagonal(matrix, axis1=1, axis2=2)[:, :, None]
    return _Block(weights, diagonal, matrix / diagonal)


@dataclass(frozen=True, eq=False)
class _Channels:
    """Channels that still move; ``integers`` and ``error`` change in place. All arrays end with the channels."""

    wanted: np.ndarray
    steps: np.ndarray
    integers: np.ndarray
    error: np.ndarray
    in_pairs: bool

    def of(self, some: np.ndarray) -> _Channels:
        """Copies of some channels."""
        arrays = (self.wanted, self.steps, self.integers, self.error)
        wanted, steps, integers, error = (each[:, :, some] for each in arrays)
        return _Channels(wanted, steps, integers, error, self.in_pairs)

    def improve(self, block: _Block, curvature: Curvature) -> np.ndarray:
        """Let each weight of a block in turn take its best integer; gives the channels where any did."""
        weights, pull = block.weights, block.pull
        old = self.integers[:, weights]
        slope = curvature.slope(self.error, old * self.steps - self.wanted[:, weights], weights)
        new = old - slope / (block.diagonal * self.steps)
        wants = _nearest(new) != old
        # Until one of its weights moves, a channel's slopes are what they are now.
        some = np.flatnonzero(wants.any(axis=(0, 1)))
        if not some.size:
            return some
        if some.size < wants.shape[2]:
            old, new = old[:, :, some], new[:, :, some]
        change = np.zeros_like(old)
        first = int(wants.any(axis=(0, 2)).argmax())
        for start in range(first, new.shape[1], _RUN):
            run = slice(start, start + _RUN)
            new[:, run] -= pull[:, run, first:start] @ change[:, first:start]
            for place in range(start, min(start + _RUN, new.shape[1])):
                here = new[:, place]
                if place > start:
                    here -= (pull[:, place, None, start:place] @ change[:, start:place])[:, 0]
                best = _nearest(here)
                if self.in_pairs and place ^ 1 < new.shape[1]:
                    neighbour = old[:, place ^ 1] + change[:, place ^ 1]
                    np.maximum(best, -LARGEST_PAIR - neighbour, out=best)
                    np.minimum(best, LARGEST_PAIR - neighbour, out=best)
                np.subtract(best, old[:, place], out=change[:, place])
        added = curvature.error(change * self.steps[:, :, some], weights)
        change += old
        if some.size < wants.shape[2]:
            self.integers[:, weights, some] = change
            self.error[:, :, some] += added
        else:
            self.integers[:, weights] = change
            np.add(self.error, added, out=self.error)
        return some


def _swept(channels: _Channels, blocks: Sequence[_Block], curvature: Curvature) -> np.ndarray:
    """The integers of channels, which change, after all sweeps."""
    integers = np.empty_like(channels.integers)
    moving = np.arange(integers.shape[2])
    for _ in range(_SWEEPS):
        moved = np.zeros(len(moving), bool)
        for block in blocks:
            moved[channels.improve(block, curvature)] = True
        integers[:, :, moving] = channels.integers
        # A channel at rest stays so.
        moving = moving[moved]
        if not moving.size:
            break
        if not moved.all():
            channels = channels.of(np.flatnonzero(moved))
    return integers


def _nearest(values: np.ndarray) -> np.ndarray:
    """The nearest integers that there are; of few values faster than ``np.clip``."""
    found = np.rint(values)
    np.minimum(found, LEVELS, out=found)
    return np.asarray(np.maximum(found, -LEVELS, out=found))


def _with_full_range(integers: np.ndarray) -> np.ndarray:
    rows = integers.reshape(-1, integers.shape[2])
    peak = np.abs(rows).max(axis=1)
    for row in np.flatnonzero((peak > 0) & (peak < LEVELS)):
        strongest = np.abs(rows[row]).argmax()
        rows[row, strongest] = np.copysign(LEVELS, rows[row, strongest])
    return integers
