"""Biases that take up the mean error of each channel."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Activate = Callable[[np.ndarray], np.ndarray]


def bias_correction(wanted: np.ndarray, found: np.ndarray, activate: Activate, rectified: bool) -> np.ndarray:
    """What to add to a layer's biases so that its results come nearer to what they should be.

    Quantization shifts the mean of a channel (Nagel et al., "Data-free quantization through weight
    equalization and bias correction", ICCV 2019, section 4.2). What counts is the result after the
    activation, which a bias moves only where the activation is not flat: so the mean error is that
    over active positions. A channel is corrected only if that helps on images which the
    correction was not taken from: every second image's on the others, and the other way round.

    Args:
        wanted: what the layer should put out, before the activation, (images, channels, ...).
        found: what it does put out.
        activate: the activation.
        rectified: whether the activation is flat below 0.

    Returns:
        float32, (channels,).
    """
    exact = activate(wanted)
    whole = slice(None)

    def shift(images: slice) -> np.ndarray:
        error = exact[images] - activate(found[images])
        active = np.maximum(wanted[images], found[images]) > 0 if rectified else np.ones_like(error, bool)
        return np.asarray(_summed(error) / np.maximum(_summed(active), 1), np.float32)

    def error(images: slice, change: np.ndarray) -> np.ndarray:
        moved = found[images] + change.reshape(-1, *(1,) * (found.ndim - 2))
        return _summed(np.square(exact[images] - activate(moved)))

    if len(found) == 1:
        return shift(whole)
    halves = (slice(0, None, 2), slice(1, None, 2))
    none = np.zeros(found.shape[1], np.float32)
    before = sum(error(half, none) for half in halves)
    after = sum(error(half, shift(other)) for half, other in (halves, halves[::-1]))
    return np.asarray(np.where(after < before, shift(whole), none), np.float32)


def _summed(values: np.ndarray) -> np.ndarray:
    """The sum of each channel, float64."""
    return np.asarray(values.sum(axis=(0, *range(2, values.ndim)), dtype=np.float64))
