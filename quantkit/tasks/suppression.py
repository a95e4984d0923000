"""Non-maximum suppression, for detectors that leave it to their callers."""

from __future__ import annotations

import numpy as np

from quantkit.tasks.detections import Detections, detections_of, overlaps

LEAST_SCORE, MAX_OVERLAP, CANDIDATES, KEPT = 0.01, 0.45, 400, 100
"""The bounds of GluonCV's SSD: of scores, of overlaps in a class, of boxes considered and of those put out."""


def suppressed(corners: np.ndarray, scores: np.ndarray, max_overlap: float = MAX_OVERLAP) -> Detections:
    """The best detections of which no two of a class overlap much (greedy).

    Args:
        corners: of shape (boxes, 4).
        scores: of each class, of shape (boxes, classes).
        max_overlap: the largest intersection over union of two that are kept.
    """
    boxes, labels = np.nonzero(scores > LEAST_SCORE)
    candidates = detections_of(corners[boxes], scores[boxes, labels], labels)
    kept: list[int] = []
    for index in range(min(len(candidates), CANDIDATES)):
        rivals = [other for other in kept if candidates.labels[other] == candidates.labels[index]]
        if not (overlaps(candidates.boxes[[index]], candidates.boxes[rivals]) > max_overlap).any():
            kept.append(index)
    kept = kept[:KEPT]
    return Detections(candidates.boxes[kept], candidates.scores[kept], candidates.labels[kept])
