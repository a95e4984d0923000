"""Accuracy against labels: top-1 and top-5."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Accuracy:
    """The shares of images, from 0 to 1, whose label ranks first or among the first five of the outputs."""

    images: int
    top1: float
    top5: float


def hits(outputs: np.ndarray, labels: np.ndarray, among: int = 1) -> np.ndarray:
    """Whether each image's label is among the ``among`` largest outputs: booleans of shape (images,).

    Outputs have the shape (images, classes), with further axes of 1 allowed; labels have the shape (images,). Of equal
    outputs the lower class index ranks first, as in ``argmax``.
    """
    ranked = np.argsort(-outputs.reshape(len(outputs), -1), axis=1, kind="stable")[:, :among]
    correct: np.ndarray = (ranked == labels[:, None]).any(axis=1)
    return correct
