"""The images that a search evaluates networks on, with the outputs of FP32."""

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
from quantkit.evaluation.perplexity import check_step_labels
from quantkit.fusion.fused_model import FusedModel
from quantkit.ir.graph import Graph
from quantkit.models.class_scores import ClassScores, class_scores
from quantkit.models.dataset import BATCH_SIZE, dataset, steps
from quantkit.models.model import Model
from quantkit.progress import Progress

# Enough to compare layers by a smooth measure; every candidate runs on all of them.
_SUBSET = 64

Responses = tuple[np.ndarray, ...]
"""A network's outputs for images: log probabilities if they are class scores, else all outputs."""


@dataclass(frozen=True, eq=False)
class Judged:
    """The images with the results of the original FP32 network.

    Attributes:
        model: the original network.
        samples: the images.
        labels: int64 of shape (images,); None if there are none.
        count: the number of images.
        class_scores: whether the network's outputs are class scores; else there are neither labels nor predictions.
        predictions: FP32's classes, int64 of shape (images,).
        subset: some of the images, preprocessed, float32 (images, channels, height, width).
        responses: FP32's for the subset, see ``responses``.
        sha256: the hash of images and labels.
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
        """The divergence of a form of the network from FP32 on the subset; see ``evaluation.divergence``."""
        computed = responses(graph, self.subset, self.class_scores.yes)
        if self.class_scores.yes:
            return divergence(self.responses[0], computed[0])
        return noise_share(self.responses, computed)


def judged(source: FusedModel, samples: Any, progress: Progress) -> Judged:
    """Run the original FP32 network over images of any kind that ``load_data`` takes.

    Raises:
        DataError: the images cannot be used, or a label does not fit the network.
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
                if row:
                    check_step_labels(batch.labels, False, model.name)
                digest.update(batch.labels.tobytes())
                labels.append(batch.labels)
            yield batch.data

    classes = np.concatenate([_classes(output) for output, *_ in outputs_of(model.graph, read(), BATCH_SIZE)])
    scores = class_scores(model.graph, shapes, model.labels, model.class_scores, labelled=bool(labels))
    few = opened.subset(min(_SUBSET, len(classes)))
    subset = np.concatenate([part.data for part in few.batches(BATCH_SIZE)])
    return Judged(
        model,
        opened,
        np.concatenate(labels) if labels and scores.yes else None,
        len(classes),
        scores,
        classes if scores.yes else classes[:0],
        subset,
        responses(model.graph, subset, scores.yes),
        digest.hexdigest(),
    )


def predictions(graph: Graph, judged: Judged) -> np.ndarray:
    """The classes that a form of the network predicts for all images, int64 of shape (images,).

    Empty if its outputs are not class scores.
    """
    if not judged.class_scores.yes:
        return judged.predictions
    stream = (batch.data for batch in judged.samples.batches(BATCH_SIZE))
    return np.concatenate([_classes(output) for output, *_ in outputs_of(graph, stream, BATCH_SIZE)])


def responses(graph: Graph, images: np.ndarray, class_scores: bool) -> Responses:
    """A network's ``Responses`` to preprocessed images; log probabilities are float64 of shape (images, classes)."""
    parts = (images[start : start + BATCH_SIZE] for start in range(0, len(images), BATCH_SIZE))
    outputs = [np.concatenate(each) for each in zip(*outputs_of(graph, parts, BATCH_SIZE))]
    return (log_probabilities(outputs[0]),) if class_scores else tuple(outputs)


def _classes(outputs: np.ndarray) -> np.ndarray:
    return np.asarray(outputs.reshape(len(outputs), -1).argmax(axis=1))
