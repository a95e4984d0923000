"""The images that a network is judged by, and what FP32 says of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, Optional

import numpy as np

from quantkit.data.dataset import CalibrationDataset
from quantkit.engine.stream import outputs_of
from quantkit.evaluation.divergence import log_probabilities
from quantkit.graph.graph import Graph
from quantkit.models.model import Model
from quantkit.recovery.reconstruction import Progress
from quantkit.stages.fuse import FusedModel
from quantkit.stages.samples import BATCH_SIZE, dataset, steps

# Enough to tell layers apart by a smooth measure; each is run for every candidate.
_SUBSET = 64


@dataclass(frozen=True, eq=False)
class Judged:
    """The images with what the original FP32 network makes of them.

    Attributes:
        model: the original network.
        samples: the images.
        labels: int64 of shape (images,); None where they have none.
        predictions: FP32's classes, of the same shape.
        subset: some of them, preprocessed, float32 (images, channels, height, width).
        scores: FP32's log probabilities for the subset.
        sha256: what identifies images and labels.
    """

    model: Model
    samples: CalibrationDataset
    labels: Optional[np.ndarray]
    predictions: np.ndarray
    subset: np.ndarray
    scores: np.ndarray
    sha256: str


def judged(source: FusedModel, samples: Any, progress: Progress) -> Judged:
    """Run the original FP32 network over images of any kind that ``open_samples`` takes.

    Raises:
        DataError: they cannot be used, or a label does not fit the network.
    """
    model = source.model
    opened = dataset(model, samples)
    classes = prod(source.fused.shapes[model.graph.outputs[0]][1:])
    digest = hashlib.sha256()
    labels: list[np.ndarray] = []

    def read() -> Iterator[np.ndarray]:
        stream = opened.batches(BATCH_SIZE, classes)
        for batch in progress(stream, steps(opened), "running FP32 over the evaluation images"):
            digest.update(batch.data.tobytes())
            if batch.labels is not None:
                digest.update(batch.labels.tobytes())
                labels.append(batch.labels)
            yield batch.data

    found = np.concatenate([_classes(output) for output, *_ in outputs_of(model.graph, read(), BATCH_SIZE)])
    few = opened.subset(min(_SUBSET, len(found)))
    subset = np.concatenate([part.data for part in few.batches(BATCH_SIZE)])
    return Judged(
        model,
        opened,
        np.concatenate(labels) if labels else None,
        found,
        subset,
        scores(model.graph, subset),
        digest.hexdigest(),
    )


def predictions(graph: Graph, judged: Judged) -> np.ndarray:
    """The classes that a form of the network predicts for all images, int64 of shape (images,)."""
    stream = (batch.data for batch in judged.samples.batches(BATCH_SIZE))
    return np.concatenate([_classes(output) for output, *_ in outputs_of(graph, stream, BATCH_SIZE)])


def scores(graph: Graph, images: np.ndarray) -> np.ndarray:
    """A network's log probabilities for preprocessed images, float64 of shape (images, classes)."""
    parts = (images[start : start + BATCH_SIZE] for start in range(0, len(images), BATCH_SIZE))
    return log_probabilities(np.concatenate([output for output, *_ in outputs_of(graph, parts, BATCH_SIZE)]))


def _classes(outputs: np.ndarray) -> np.ndarray:
    return np.asarray(outputs.reshape(len(outputs), -1).argmax(axis=1))
