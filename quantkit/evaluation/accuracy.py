"""Accuracy against labels: top-1 and top-5."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Accuracy:
    """Shares from 0 to 1 of images whose label is the first, or among the first five, of the outputs."""

    images: int
    top1: float
    top5: float


def accuracy(results: Iterable[tuple[np.ndarray, np.ndarray]]) -> Accuracy:
    """Accuracy of outputs (images, classes) against labels (images,), given batch by batch.

    With equal outputs the lower class index ranks first, as in ``argmax``. With fewer than six classes
    top-5 is 1.
    """
    images, first, five = 0, 0, 0
    for outputs, labels in results:
        flat = outputs.reshape(len(outputs), -1)
        ranked = np.argsort(-flat, axis=1, kind="stable")[:, :5]
        hits = ranked == labels[:, None]
        images += len(labels)
        first += int(hits[:, 0].sum())
        five += int(hits.any(axis=1).sum())
    return Accuracy(images, first / images, five / images)
