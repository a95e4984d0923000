"""Biases that take up the mean error of each channel."""

from __future__ import annotations

import numpy as np


def bias_correction(error: np.ndarray, active: np.ndarray) -> np.ndarray:
    """What to add to a layer's biases, given how far its results fall short.

    Quantization shifts the mean of a channel (Nagel et al., "Data-free quantization through weight
    equalization and bias correction", ICCV 2019, section 4.2). What counts is the result after the
    activation, which a bias moves only where the activation is not flat: so the mean is that over
    active positions. It is estimated from images, so it is drawn towards 0 by as much as they
    disagree: the positive-part factor of James and Stein, 1 - v / m^2 with m the mean and v its
    variance over images.

    Args:
        error: wanted less actual results, after the activation, (images, channels, ...).
        active: where the activation is not flat, bool, the same shape.

    Returns:
        float32, (channels,).
    """
    sums = error.reshape(*error.shape[:2], -1).sum(axis=2, dtype=np.float64)
    counts = active.reshape(*active.shape[:2], -1).sum(axis=2)
    total = np.maximum(counts.sum(axis=0), 1)
    mean = sums.sum(axis=0) / total
    if len(sums) == 1:
        return np.asarray(mean, np.float32)
    # The variance of a ratio of sums over images.
    spread = ((sums - mean * counts) ** 2).sum(axis=0) * len(sums) / (len(sums) - 1) / total**2
    kept = 1 - np.minimum(1.0, spread / np.maximum(mean * mean, np.finfo(np.float64).tiny))
    return np.asarray(mean * kept, np.float32)
