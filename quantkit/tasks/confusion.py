"""Confusion matrices of classes, pixel by pixel."""

from __future__ import annotations

import numpy as np

UNTOLD = -1
"""The class of pixels that are not counted."""


def confusion_matrix(truth: np.ndarray, predicted: np.ndarray, classes: int) -> np.ndarray:
    """How many pixels of each class (row) are predicted as each class (column); int64 of shape (classes, classes).

    The matrices of several images add up. Pixels that are ``UNTOLD`` in either map are left out.

    Args:
        truth: class indices of any shape.
        predicted: class indices of the same shape.
        classes: the number of classes.
    """
    counted = (truth != UNTOLD) & (predicted != UNTOLD)
    pairs = truth[counted].astype(np.int64) * classes + predicted[counted]
    return np.bincount(pairs, minlength=classes * classes).reshape(classes, classes)


def mean_intersection_over_union(right: np.ndarray, true: np.ndarray, predicted: np.ndarray) -> float:
    """The mean over classes of the pixels that both maps give a class over those that either does.

    A class that neither has is left out; NaN if there is none.

    Args:
        right: the number of right pixels of each class: the diagonal of a confusion matrix.
        true: the number of pixels of each class: the sums of its rows.
        predicted: the number of pixels predicted as each class: the sums of its columns.
    """
    union = true + predicted - right
    present = union > 0
    return float(np.mean(right[present] / union[present])) if present.any() else float("nan")
