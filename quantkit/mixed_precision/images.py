"""The images that a search evaluates networks on, with the outputs of FP32."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import tee
from math import prod
from typing import Any, Optional

import numpy as np

from quantkit.backends.mxnet.stream import outputs_of
from quantkit.data.batches import Batch
from quantkit.data.dataset import CalibrationDataset
from quantkit.evaluation.divergence import balanced_noise, divergence, log_probabilities, noise_shares
from quantkit.evaluation.drop import Drop, measure_drop, measure_rise
from quantkit.evaluation.perplexity import check_step_labels, cross_entropies, scale_of
from quantkit.fusion.fused_model import FusedModel
from quantkit.ir.graph import Graph
from quantkit.models.class_scores import ClassScores, class_scores
from quantkit.models.dataset import BATCH_SIZE, dataset, steps
from quantkit.models.model import Model
from quantkit.models.step_scores import step_scores
from quantkit.progress import Progress
from quantkit.quantization.goal import Measure

# Enough to compare layers by a smooth measure; every candidate runs on all of them.
_SUBSET = 64

Responses = tuple[np.ndarray, ...]
"""A network's outputs for images: log probabilities (rows, classes) if they are class scores, else all outputs."""


@dataclass(frozen=True, eq=False)
class Judged:
    """The images with the results of the original FP32 network.

    Attributes:
        model: the original network.
        samples: the images.
        labels: int64 of shape (images,), or (images, steps); None if there are none.
        count: the number of images.
        class_scores: whether the network's outputs are class scores, of images or of every step.
        classes: how many scores make a row; None if they are no class scores.
        measure: what a network may lose; None where they are no class scores, or where steps have no labels.
        outcomes: FP32's, see ``outcomes_of``.
        subset: some of the images, preprocessed, float32 (images, channels, height, width).
        responses: FP32's for the subset, see ``responses``.
        sha256: the hash of images and labels.
        usual_noise: the noise in each output of the network all in INT8, see ``balanced_noise``; empty to count each as
            it is.
    """

    model: Model
    samples: CalibrationDataset
    labels: Optional[np.ndarray]
    count: int
    class_scores: ClassScores
    classes: Optional[int]
    measure: Optional[Measure]
    outcomes: np.ndarray
    subset: np.ndarray
    responses: Responses
    sha256: str
    usual_noise: tuple[float, ...] = ()

    def divergence(self, graph: Graph) -> float:
        """The divergence of a form of the network from FP32 on the subset; see ``evaluation.divergence``."""
        computed = responses(graph, self.subset, self.classes)
        if self.classes is not None:
            return divergence(self.responses[0], computed[0])
        return balanced_noise(noise_shares(self.responses, computed), self.usual_noise or (1.0,) * len(computed))

    def balanced(self, int8: Graph) -> Judged:
        """The images, with the outputs of networks for no class scores balanced by the noise of the one all in INT8."""
        if self.classes is not None or len(self.responses) == 1:
            return self
        return replace(self, usual_noise=noise_shares(self.responses, responses(int8, self.subset, None)))

    @property
    def facts(self) -> dict[str, Any]:
        """All that determines what is measured on them."""
        return {"images": self.sha256, "class_scores": self.class_scores.yes, "measure": self.measure}

    def outcomes_of(self, graph: Graph) -> np.ndarray:
        """What a form of the network makes of all images, of shape (images,): what its drop is computed from.

        The predicted classes, int64; of perplexity the cross-entropies in nats a step, float64. Empty if nothing is
        measured.
        """
        if self.measure is None:
            return self.outcomes
        original = self.model.graph if self.measure == "perplexity" else None
        return np.concatenate(list(_outcomes(graph, self.samples.batches(BATCH_SIZE), original)))

    def drop(self, outcomes: np.ndarray) -> Optional[Drop]:
        """What a form of the network with these outcomes loses against FP32; None if nothing is measured."""
        if self.measure is None:
            return None
        if self.measure == "perplexity":
            return measure_rise(self.outcomes, outcomes)
        return measure_drop(self.outcomes, outcomes, self.labels)


def judged(source: FusedModel, samples: Any, progress: Progress) -> Judged:
    """Run the original FP32 network over images of any kind that ``load_data`` takes.

    Raises:
        DataError: the images cannot be used, or a label does not fit the network.
    """
    model = source.model
    opened = dataset(model, samples)
    shapes = [source.fused.shapes[output][1:] for output in model.graph.outputs]
    expected, per_step = scores_of(model, shapes, labelled=True)
    row = shapes[0][-1] if per_step else prod(shapes[0])
    digest = hashlib.sha256()
    labels: list[np.ndarray] = []

    def read() -> Iterator[Batch]:
        stream = opened.batches(BATCH_SIZE, row if expected.yes else None)
        for batch in progress(stream, steps(opened), "running FP32 over the evaluation images"):
            digest.update(batch.data.tobytes())
            if batch.labels is not None:
                if expected.yes:
                    check_step_labels(batch.labels, per_step, model.name)
                digest.update(batch.labels.tobytes())
                labels.append(batch.labels)
            yield batch

    results = list(_outcomes(model.graph, read(), model.graph if per_step and expected.yes else None))
    scores, _ = scores_of(model, shapes, labelled=bool(labels))
    measure = _measure(per_step, bool(labels)) if scores.yes else None
    classes = row if scores.yes else None
    count = sum(map(len, results))
    subset = subset_of(opened, count)
    return Judged(
        model,
        opened,
        np.concatenate(labels) if labels and scores.yes else None,
        count,
        scores,
        classes,
        measure,
        np.concatenate(results) if measure is not None else np.empty(0),
        subset,
        responses(model.graph, subset, classes),
        digest.hexdigest(),
    )


def scores_of(model: Model, shapes: Sequence[tuple[int, ...]], labelled: bool) -> tuple[ClassScores, bool]:
    """Whether a network's outputs are class scores, and whether it has a row of scores for every step.

    ``shapes`` and ``labelled`` are those of ``class_scores``.
    """
    tokens = model.vocabulary is not None
    said = model.labels, model.class_scores, labelled
    per_step = step_scores(model.graph, shapes, model.input_shape, tokens, *said)
    return per_step or class_scores(model.graph, shapes, *said), per_step is not None


def subset_of(samples: CalibrationDataset, count: int) -> np.ndarray:
    """Some of ``count`` samples, preprocessed, float32 of shape (samples, ...)."""
    few = samples.subset(min(_SUBSET, count))
    return np.concatenate([part.data for part in few.batches(BATCH_SIZE)])


def responses(graph: Graph, images: np.ndarray, classes: Optional[int]) -> Responses:
    """A network's ``Responses`` to preprocessed images; ``classes`` are those of ``Judged``."""
    parts = (images[start : start + BATCH_SIZE] for start in range(0, len(images), BATCH_SIZE))
    outputs = [np.concatenate(each) for each in zip(*outputs_of(graph, parts, BATCH_SIZE))]
    return tuple(outputs) if classes is None else (log_probabilities(outputs[0].reshape(-1, classes)),)


def _outcomes(graph: Graph, stream: Iterable[Batch], original: Optional[Graph]) -> Iterator[np.ndarray]:
    """Batch by batch; with ``original``, which tells the scale, cross-entropies where steps have labels."""
    read, beside = tee(stream)
    for batch, (first, *_) in zip(beside, outputs_of(graph, (each.data for each in read), BATCH_SIZE)):
        if original is not None and batch.labels is not None:
            yield cross_entropies(first, batch.labels, scale_of(original, first))
        else:
            yield np.asarray(first.reshape(len(first), -1).argmax(axis=1))


def _measure(per_step: bool, labelled: bool) -> Optional[Measure]:
    if per_step:
        return "perplexity" if labelled else None
    return "top-1" if labelled else "agreement"
