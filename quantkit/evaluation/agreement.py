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


def agreement(pairs: Iterable[tuple[np.ndarray, np.ndarray]]) -> Agreement:
    """Compare outputs of shape (images, ...), given batch by batch as (reference, other).

    Top-1 alone hides changes that cancel; the cosine of each image's outputs as vectors does not.
    """
    images, same, cosines = 0, 0, 0.0
    for reference, other in pairs:
        a, b = (np.asarray(value, np.float64).reshape(len(value), -1) for value in (reference, other))
        images += len(a)
        same += int((a.argmax(axis=1) == b.argmax(axis=1)).sum())
        norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
        # Two zero vectors agree, a zero and another one do not.
        equal = (a == b).all(axis=1)
        cosines += float(np.where(norms > 0, (a * b).sum(axis=1) / np.where(norms > 0, norms, 1.0), equal).sum())
    return Agreement(images, same / images, cosines / images)
