"""Biases that take up the mean error of each channel."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from quantkit.quantization.threads import in_threads

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
        activate: the activation; it is called from several threads.
        rectified: whether the activation is flat below 0.

    Returns:
        float32, (channels,).
    """

    def sums(image: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of an image, for each channel: the error, the active positions, the squared error."""
        one = slice(image, image + 1)
        error = activate(wanted[one]) - activate(found[one])
        if rectified:
            active = np.count_nonzero(np.maximum(wanted[one], found[one]) > 0, axis=positions)
        else:
            active = np.full(channels, error[0, 0].size)
        return _summed(error), np.asarray(active), _summed(np.square(error, out=error))

    def moved(image: int) -> np.ndarray:
        """Of an image, for each channel: the squared error with the change that its other half asks for."""
        one = slice(image, image + 1)
        error = activate(wanted[one]) - activate(found[one] + shifts[1 - image % 2])
        return _summed(np.square(error, out=error))

    images, channels = found.shape[:2]
    positions = (0, *range(2, found.ndim))
    errors, active, squared = map(np.array, zip(*in_threads(sums, images)))
    whole = _mean(errors, active)
    if images == 1:
        return whole
    shape = (channels, *(1,) * (found.ndim - 2))
    shifts = [_mean(errors[half::2], active[half::2]).reshape(shape) for half in (0, 1)]
    after = np.sum(in_threads(moved, images), axis=0)
    return np.asarray(np.where(after < squared.sum(axis=0), whole, 0), np.float32)


def _mean(errors: np.ndarray, active: np.ndarray) -> np.ndarray:
    """The mean error over active positions of some images, from each image's sums."""
    return np.asarray(errors.sum(axis=0) / np.maximum(active.sum(axis=0), 1), np.float32)


def _summed(values: np.ndarray) -> np.ndarray:
    """The sum of each channel, float64."""
    return np.asarray(values.sum(axis=(0, *range(2, values.ndim)), dtype=np.float64))
