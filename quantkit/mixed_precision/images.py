"""The images that a network is judged by, and what FP32 says of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, Optional

import numpy as np

from quantkit.backends.mxnet.stream import outputs_of
from quantkit.data.dataset import CalibrationDataset
from quantkit.evaluation.divergence import divergence, log_probabilities, noise_share
from quantkit.fusion.fused_model import FusedModel
from quantkit.ir.graph import Graph
from quantkit.models.class_scores import ClassScores, class_scores
from quantkit.models.dataset import BATCH_SIZE, dataset, steps
from quantkit.models.model import Model
from quantkit.progress import Progress

# Enough to tell layers apart by a smooth measure; each is run for every candidate.
_SUBSET = 64

Responses = tuple[np.ndarray, ...]
"""What a network says of images: its log probabilities, or where it puts out no class scores all its outputs."""


@dataclass(frozen=True, eq=False)
class Judged:
    """The images with what the original FP32 network makes of them.

    Attributes:
        model: the original network.
        samples: the images.
        labels: int64 of shape (images,); None where they have none.
        count: how many there are.
        class_scores: whether the network puts out class scores; else there are neither labels nor predictions.
        predictions: FP32's classes, int64 of shape (images,).
        subset: some of them, preprocessed, float32 (images, channels, height, width).
        responses: FP32's for the subset, see ``responses``.
        sha256: what identifies images and labels.
    """

    model: Model
    samples: CalibrationDataset
    labels: Optional[np.ndarray]
    count: int
    class_scores: ClassScores
    predictions: np.ndarray
    subset: np.ndarray
    responses: Responses
    sha256: str

    def divergence(self, graph: Graph) -> float:
        """How far a form of the network is from FP32 on the subset; see ``evaluation.divergence``."""
        found = responses(graph, self.subset, self.class_scores.yes)
        if self.class_scores.yes:
            return divergence(self.responses[0], found[0])
        return noise_share(self.responses, found)


def judged(source: FusedModel, samples: Any, progress: Progress) -> Judged:
    """Run the original FP32 network over images of any kind that ``load_data`` takes.

    Raises:
        DataError: they cannot be used, or a label does not fit the network.
    """
    model = source.model
    opened = dataset(model, samples)
    shapes = [source.fused.shapes[output][1:] for output in model.graph.outputs]
    row = class_scores(model.graph, shapes, model.labels, model.class_scores, labelled=True).yes
    digest = hashlib.sha256()
    labels: list[np.ndarray] = []

    def read() -> Iterator[np.ndarray]:
        stream = opened.batches(BATCH_SIZE, prod(shapes[0]) if row else None)
        for batch in progress(stream, steps(opened), "running FP32 over the evaluation images"):
            digest.update(batch.data.tobytes())
            if batch.labels is not None:
                digest.update(batch.labels.tobytes())
                labels.append(batch.labels)
            yield batch.data

    found = np.concatenate([_classes(output) for output, *_ in outputs_of(model.graph, read(), BATCH_SIZE)])
    scores = class_scores(model.graph, shapes, model.labels, model.class_scores, labelled=bool(labels))
    few = opened.subset(min(_SUBSET, len(found)))
    subset = np.concatenate([part.data for part in few.batches(BATCH_SIZE)])
    return Judged(
        model,
        opened,
        np.concatenate(labels) if labels and scores.yes else None,
        len(found),
        scores,
        found if scores.yes else found[:0],
        subset,
        responses(model.graph, subset, scores.yes),
        digest.hexdigest(),
    )


def predictions(graph: Graph, judged: Judged) -> np.ndarray:
    """The classes that a form of the network predicts for all images, int64 of shape (images,).

    There are none where it puts out no class scores.
    """
    if not judged.class_scores.yes:
        return judged.predictions
    stream = (batch.data for batch in judged.samples.batches(BATCH_SIZE))
    return np.concatenate([_classes(output) for output, *_ in outputs_of(graph, stream, BATCH_SIZE)])


def responses(graph: Graph, images: np.ndarray, class_scores: bool) -> Responses:
    """What a network says of preprocessed images: log probabilities, float64 of shape (images, classes), or outputs."""
    parts = (images[start : start + BATCH_SIZE] for start in range(0, len(images), BATCH_SIZE))
    outputs = [np.concatenate(each) for each in zip(*outputs_of(graph, parts, BATCH_SIZE))]
    return (log_probabilities(outputs[0]),) if class_scores else tuple(outputs)


def _classes(outputs: np.ndarray) -> np.ndarray:
    return np.asarray(outputs.reshape(len(outputs), -1).argmax(axis=1))
