"""The images that a search evaluates networks on, with the outputs of FP32."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Optional

import numpy as np

from quantkit.backends.mxnet.stream import outputs_of
from quantkit.data.aggregation import Executor, in_this_process
from quantkit.data.dataset import CalibrationDataset
from quantkit.evaluation.divergence import balanced_noise, divergence, log_probabilities, noise_shares
from quantkit.evaluation.drop import Drop, measure_drop, measure_rise
from quantkit.fusion.fused_model import FusedModel
from quantkit.ir.graph import Graph
from quantkit.mixed_precision.outcome_run import CHECKING, OutcomeRun
from quantkit.models.class_scores import ClassScores, class_scores
from quantkit.models.dataset import BATCH_SIZE, dataset
from quantkit.models.model import Model
from quantkit.models.step_scores import step_scores
from quantkit.progress import Progress, silent
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
        executor: where networks run over all images.
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
    executor: Executor
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
        run = OutcomeRun(graph, original, self.class_scores.yes, BATCH_SIZE, self.model.name)
        return self.executor(run, self.samples.stream(BATCH_SIZE), silent, CHECKING).values

    def drop(self, outcomes: np.ndarray) -> Optional[Drop]:
        """What a form of the network with these outcomes loses against FP32; None if nothing is measured."""
        if self.measure is None:
            return None
        if self.measure == "perplexity":
            return measure_rise(self.outcomes, outcomes)
        return measure_drop(self.outcomes, outcomes, self.labels)


def judged(source: FusedModel, samples: Any, progress: Progress, executor: Executor = in_this_process) -> Judged:
    """Run the original FP32 network over images of any kind that ``load_data`` takes, where ``executor`` says.

    Raises:
        DataError: the images cannot be used, or a label does not fit the network.
    """
    model = source.model
    opened = dataset(model, samples)
    shapes = [source.fused.shapes[output][1:] for output in model.graph.outputs]
    expected, per_step = scores_of(model, shapes, labelled=True)
    row = shapes[0][-1] if per_step else prod(shapes[0])
    stream = replace(opened.stream(BATCH_SIZE), classes=row if expected.yes else None)
    original = model.graph if per_step and expected.yes else None
    run = OutcomeRun(model.graph, original, expected.yes, BATCH_SIZE, model.name)
    found = executor(run, stream, progress, "running FP32 over the evaluation images")
    labelled, count = found.labels is not None, len(found.values)
    scores, _ = scores_of(model, shapes, labelled)
    measure = _measure(per_step, labelled) if scores.yes else None
    classes = row if scores.yes else None
    subset = subset_of(opened, count)
    return Judged(
        model,
        opened,
        found.labels if scores.yes else None,
        count,
        scores,
        classes,
        measure,
        found.values if measure is not None else np.empty(0),
        subset,
        responses(model.graph, subset, classes),
        found.sha256,
        executor,
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


def _measure(per_step: bool, labelled: bool) -> Optional[Measure]:
    if per_step:
        return "perplexity" if labelled else None
    return "top-1" if labelled else "agreement"
