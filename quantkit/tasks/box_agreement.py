"""How a network's boxes lie on those of a reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

import numpy as np

from quantkit.tasks.detections import Detections, overlaps
from quantkit.units import counted

LEAST_OVERLAP = 0.5
"""The overlap from which on a box is taken for that of the reference, as in VOC."""

_MISSING = (np.nan, np.nan, np.nan)


@dataclass(frozen=True)
class BoxAgreement:
    """How many of a reference's detections a network has as well, and how far these are apart.

    Attributes:
        detections: the number of the reference's.
        found: how many the network has: of the same class, with an overlap of at least one half.
        overlap: the mean overlap of those found; None if there are none.
        edges: the largest deviation of an edge of theirs, in pixels of the input.
        scores: the largest deviation of a score of theirs.
    """

    detections: int
    found: int
    overlap: Optional[float]
    edges: Optional[float]
    scores: Optional[float]

    def text(self, needed: float) -> str:
        """The measures in words, with the mean overlap that is needed."""
        found = f"{self.found} of {counted(self.detections, 'detection')} found"
        if self.overlap is None:
            return found
        return (
            f"{found}, mean overlap {self.overlap:.3f} ({needed:.2g} is needed), edges at most {self.edges:.2g} pixels "
            f"and scores at most {self.scores:.2g} away"
        )


def found_again(reference: Detections, other: Detections) -> np.ndarray:
    """What of a reference's detections of an image another network has.

    The reference's best detection comes first, and takes the box of its class that it overlaps most of those left.

    Returns:
        float64 of shape (detections, 3): the overlap, the largest deviation of an edge in pixels, and the deviation of
        the score; NaN where the other network has none.
    """
    shared = np.where(reference.labels[:, None] == other.labels[None, :], overlaps(reference.boxes, other.boxes), 0.0)
    rows = [_MISSING] * len(reference)
    for place in range(len(reference)):
        best = int(shared[place].argmax()) if len(other) else 0
        if len(other) and shared[place, best] >= LEAST_OVERLAP:
            edges = np.abs(reference.boxes[place] - other.boxes[best]).max()
            rows[place] = (shared[place, best], edges, abs(reference.scores[place] - other.scores[best]))
            shared[:, best] = 0.0
    return np.array(rows, np.float64).reshape(-1, len(_MISSING))


def box_agreement(images: Sequence[np.ndarray]) -> Optional[BoxAgreement]:
    """The agreement over images, of which there must be at least one; None where the reference detects nothing.

    Args:
        images: what ``found_again`` returns for each.
    """
    rows = np.concatenate(images)
    if not len(rows):
        return None
    found = rows[~np.isnan(rows[:, 0])]
    if not len(found):
        return BoxAgreement(len(rows), 0, None, None, None)
    edges, scores = found[:, 1:].max(axis=0)
    return BoxAgreement(len(rows), len(found), float(found[:, 0].mean()), float(edges), float(scores))
