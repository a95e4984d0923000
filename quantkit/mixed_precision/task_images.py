"""The images that a search evaluates detectors and the like on, with the predictions of FP32."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np

from quantkit.backends.mxnet.stream import outputs_of
from quantkit.bundle.network import network_of
from quantkit.data.aggregation import Executor, in_this_process
from quantkit.data.annotated import AnnotatedImages
from quantkit.data.boxes import Boxes
from quantkit.data.dataset import CalibrationDataset
from quantkit.data.people import Person
from quantkit.evaluation.drop import Drop
from quantkit.ir.graph import Graph
from quantkit.mixed_precision.images import subset_of
from quantkit.mixed_precision.outcome_run import CHECKING
from quantkit.models.dataset import BATCH_SIZE, CalibrationData, dataset
from quantkit.models.model import Model
from quantkit.progress import Progress, silent
from quantkit.tasks.choose import make_task
from quantkit.tasks.judge import task_and_data
from quantkit.tasks.prediction_run import PredictionRun
from quantkit.tasks.reference import TaskReference
from quantkit.tasks.task import Task, TaskName


@dataclass(frozen=True, eq=False)
class JudgedByTask:
    """The images with the predictions of the original FP32 network; the counterpart of ``images.Judged``.

    Attributes:
        samples: the images.
        count: how many there are.
        reference: what FP32 predicts of them.
        subset: some of the images, preprocessed, float32 (images, channels, height, width).
        predicted: what FP32 predicts of these.
        drop_of_fp32: FP32 held against itself; None where there is nothing to score.
        sha256: the hash of images and annotations, and of which images are of one photograph.
        executor: where networks run over all images.
    """

    samples: CalibrationDataset
    count: int
    reference: TaskReference
    subset: np.ndarray
    predicted: tuple[Any, ...]
    drop_of_fp32: Optional[Drop]
    sha256: str
    executor: Executor

    @property
    def measure(self) -> Optional[str]:
        """What a network may lose; None where there is nothing to score."""
        return None if self.drop_of_fp32 is None else self.drop_of_fp32.measure

    @property
    def facts(self) -> dict[str, Any]:
        """All that determines what is measured on them."""
        task = self.reference.task
        return {"images": self.sha256, "task": task.name, "reading": repr(task), "measure": self.measure}

    @property
    def outcomes(self) -> np.ndarray:
        """FP32's, see ``outcomes_of``."""
        return _numbers(self.drop_of_fp32)

    def outcomes_of(self, graph: Graph) -> np.ndarray:
        """What a form of the network loses on all images: the numbers of a ``Drop``; empty if nothing is measured."""
        if self.drop_of_fp32 is None:
            return self.outcomes
        run = PredictionRun(self.reference.task, {"network": graph}, BATCH_SIZE)
        found = self.executor(run, self.samples.stream(BATCH_SIZE), silent, CHECKING)
        return _numbers(self.reference.drop(each["network"] for each in found))

    def drop(self, outcomes: np.ndarray) -> Optional[Drop]:
        """What a form of the network with these outcomes loses against FP32; None if nothing is measured."""
        return None if self.measure is None else Drop(self.count, self.measure, *outcomes.tolist())

    def divergence(self, graph: Graph) -> float:
        """How far the predictions of a form of the network are from FP32's: the mean over the subset, from 0 to 1."""
        task = self.reference.task
        pairs = zip(self.predicted, _predictions(task, graph, _cut(self.subset)), strict=True)
        return float(np.mean([task.difference(*pair) for pair in pairs]))


def judged_by_task(
    model: Model, name: TaskName, data: CalibrationData, progress: Progress, executor: Executor = in_this_process
) -> JudgedByTask:
    """Run the original FP32 network, where ``executor`` says, over images that ``judge`` takes, or a dataset.

    Raises:
        UserError: the outputs do not fit the task.
        DataError: the images or their annotations cannot be used.
        ExtraMissing: COCO's rules need a package that is not installed.
    """
    network = network_of(model)
    if isinstance(data, CalibrationDataset):
        task = make_task(name, network.output_shapes, model.input_shape, model.name, model.labels)
        annotated: Optional[AnnotatedImages[Any]] = None
        opened = dataset(model, data)
    else:
        task, images = task_and_data(name, network, data)
        annotated = images if isinstance(images, AnnotatedImages) else None
        opened = dataset(model, images.samples if isinstance(images, AnnotatedImages) else images)
    run = PredictionRun(task, {"network": model.graph}, BATCH_SIZE)
    found = executor(run, opened.stream(BATCH_SIZE), progress, "running FP32 over the evaluation images")
    predictions = [each["network"] for each in found]
    digest = hashlib.sha256(found.sha256.encode())
    if annotated is not None:
        for index in range(len(predictions)):
            digest.update(_bytes(annotated.truth(index)))
        digest.update(repr(annotated.photographs).encode())
    input_size = model.input_shape[1], model.input_shape[2]
    reference = TaskReference(task, predictions, annotated, model.preprocess, input_size)
    subset = subset_of(opened, len(predictions))
    predicted = tuple(_predictions(task, model.graph, _cut(subset)))
    own = reference.drop(predictions)
    return JudgedByTask(opened, len(predictions), reference, subset, predicted, own, digest.hexdigest(), executor)


def _predictions(task: Task[Any, Any, Any], graph: Graph, batches: Iterable[np.ndarray]) -> Iterator[Any]:
    for outputs in outputs_of(graph, batches, BATCH_SIZE):
        yield from task.decode(outputs)


def _cut(images: np.ndarray) -> Iterator[np.ndarray]:
    return (images[start : start + BATCH_SIZE] for start in range(0, len(images), BATCH_SIZE))


def _numbers(drop: Optional[Drop]) -> np.ndarray:
    return np.array([] if drop is None else [drop.reference, drop.other, drop.loss, drop.low, drop.high], np.float64)


def _bytes(truth: Boxes | Person | np.ndarray) -> bytes:
    """All that is true of an image."""
    if isinstance(truth, np.ndarray):
        return truth.tobytes()
    if isinstance(truth, Boxes):
        parts = (truth.corners, truth.labels, truth.ignored)
    else:
        parts = (truth.points, truth.visible, np.array(truth.area))
    return b"".join(part.tobytes() for part in parts)
