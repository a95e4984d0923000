"""Targets: what the network should put out for each training sample, as shares of the classes."""

from __future__ import annotations

from typing import Any

import numpy as np


def smoothed(labels: np.ndarray[Any, Any], classes: int, smoothing: float) -> np.ndarray[Any, Any]:
    """One-hot targets of which a share is spread evenly over all classes, float32 of shape (samples, classes).

    Szegedy et al. 2016, "Rethinking the Inception Architecture for Computer Vision", section 7.

    Args:
        labels: class indices, of shape (samples,).
        classes: their number.
        smoothing: the share, from 0 up and below 1.
    """
    targets = np.full((len(labels), classes), smoothing / classes, np.float32)
    targets[np.arange(len(labels)), labels] += 1 - smoothing
    return targets


def mixed(
    data: np.ndarray[Any, Any], targets: np.ndarray[Any, Any], shares: np.ndarray[Any, Any]
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Neighbours mixed in pairs: each becomes its share of itself and the rest of the other; an odd last one stays.

    Zhang et al. 2018, "mixup: Beyond Empirical Risk Minimization".

    Args:
        data: samples, float32 of shape (samples, ...).
        targets: float32 of shape (samples, classes).
        shares: one for each pair, from 0 to 1.
    """
    whole = 2 * len(shares)

    def pairwise(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        share = np.repeat(shares, 2).astype(np.float32).reshape(whole, *(1,) * (values.ndim - 1))
        partner = values[:whole].reshape(len(shares), 2, *values.shape[1:])[:, ::-1].reshape(values[:whole].shape)
        return np.concatenate([share * values[:whole] + (1 - share) * partner, values[whole:]])

    return pairwise(data), pairwise(targets)
