"""Random objects and detections of them, some of which are right."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quantkit.data.boxes import Boxes
from quantkit.tasks.detections import Detections, detections_of
from quantkit.tasks.voc_map import Seen

SIZE = (80, 100)
CLASSES = 3


def boxes(random: np.random.Generator, number: int) -> np.ndarray:
    start = random.uniform(0, 60, (number, 2))
    return np.concatenate([start, start + random.uniform(10, 25, (number, 2))], axis=1)


def scene(random: np.random.Generator, ignored: float = 0.2) -> Seen:
    """An image with up to five objects; detections are objects moved a little, twice at times, and others."""
    number = int(random.integers(0, 6))
    corners, labels = boxes(random, number), random.integers(0, CLASSES, number)
    truth = Boxes(SIZE, corners, labels, random.random(number) < ignored)
    copies = random.integers(0, 3, number)
    seen = np.repeat(corners, copies, axis=0) + random.normal(0, 1.5, (int(copies.sum()), 4))
    others = int(random.integers(0, 3))
    every = np.concatenate([seen, boxes(random, others)])
    kinds = np.concatenate([np.repeat(labels, copies), random.integers(0, CLASSES, others)])
    return truth, detections_of(every, random.random(len(every)), kinds)


def scenes(seed: int, number: int = 12, ignored: float = 0.2) -> list[Seen]:
    random = np.random.default_rng(seed)
    return [scene(random, ignored) for _ in range(number)]


def detections(*listed: tuple[Sequence[float], float, int]) -> Detections:
    """Detections from edges, score and class of each."""
    corners, scores, labels = zip(*listed) if listed else ((), (), ())
    return detections_of(np.array(corners, float).reshape(-1, 4), np.array(scores, float), np.array(labels, int))
