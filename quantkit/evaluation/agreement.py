"""How close one network's outputs are to another's, image by image."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Agreement:
    """``top1``: share of images with the same top-1, from 0 to 1; ``cosine``: mean cosine of the outputs."""

    images: int
    top1: float
    cosine: float


def same_top1(reference: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Whether outputs of shape (images, ...) have their largest value at the same place: booleans (images,)."""
    a, b = (value.reshape(len(value), -1).argmax(axis=1) for value in (reference, other))
    same: np.ndarray = a == b
    return same


def cosines(reference: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The cosine of each image's outputs as vectors, float64 of shape (images,).

    Two zero vectors agree, a zero and another one do not.
    """
    a, b = (np.asarray(value, np.float64).reshape(len(value), -1) for value in (reference, other))
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    equal = (a == b).all(axis=1)
    return np.where(norms > 0, (a * b).sum(axis=1) / np.where(norms > 0, norms, 1.0), equal)


def agreement(pairs: Iterable[tuple[np.ndarray, np.ndarray]]) -> Agreement:
    """Compare outputs of shape (images, ...), given batch by batch as (reference, other).

    Top-1 alone hides changes that cancel; the cosine of each image's outputs as vectors does not.
    """
    images, same, total = 0, 0, 0.0
    for reference, other in pairs:
        images += len(reference)
        same += int(same_top1(reference, other).sum())
        total += float(cosines(reference, other).sum())
    return Agreement(images, same / images, total / images)
