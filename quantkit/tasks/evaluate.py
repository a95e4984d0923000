"""Judging networks by the metric of their task."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Optional

from quantkit.data.aggregation import Executor, in_this_process
from quantkit.data.annotated import AnnotatedImages
from quantkit.data.batch_stream import BatchStream
from quantkit.data.placement import placement
from quantkit.data.samples import Samples
from quantkit.errors import DataError
from quantkit.evaluation.evaluate import BATCH_SIZE, check_comparable
from quantkit.evaluation.joint_run import Role
from quantkit.evaluation.measure import Measure, Score, ScoreDrop, over_groups, score, score_drop
from quantkit.evaluation.network import Network
from quantkit.kinds import whole_number
from quantkit.progress import Progress, silent
from quantkit.tasks.detection import Detection
from quantkit.tasks.prediction_run import PredictionRun, Predictions
from quantkit.tasks.task import Task, TaskName


@dataclass(frozen=True)
class TaskEvaluation:
    """The results of judging networks by their task.

    Attributes:
        task: which.
        images: the number of images.
        scores: of each network against what is true, the one it is judged by first; empty without annotations.
        agreement: of each other network against the reference's predictions; empty without a reference.
        drops: what the judged network loses against each other in the first score.
        notes: what the user should know of the data.
    """

    task: TaskName
    images: int
    scores: Mapping[Role, tuple[Score, ...]]
    agreement: Mapping[Role, tuple[Score, ...]]
    drops: Mapping[Role, ScoreDrop]
    notes: tuple[str, ...] = ()

    @property
    def loss(self) -> Optional[float]:
        """What the judged network loses in points: against its reference, or, without annotations, of agreement.

        None without a reference, or where there is nothing to score.
        """
        if "reference" in self.drops:
            return self.drops["reference"].points
        if "network" not in self.agreement:
            return None
        agreed = self.agreement["network"][0].value
        return None if agreed is None else 100 * (1 - agreed)

    @property
    def document(self) -> dict[str, Any]:
        """The results as JSON values: scores from 0 to 1, drops in points; null for what could not be scored."""
        return {
            "task": self.task,
            "images": self.images,
            "scores": {role: [asdict(each) for each in scores] for role, scores in self.scores.items()},
            "agreement": {role: [asdict(each) for each in scores] for role, scores in self.agreement.items()},
            "drops": {role: {**asdict(each), "verdict": each.verdict} for role, each in self.drops.items()},
            "notes": list(self.notes),
        }


def evaluate_task(
    task: Task[Any, Any, Any],
    networks: Mapping[Role, Network],
    data: Samples | AnnotatedImages[Any],
    batch_size: int = BATCH_SIZE,
    num_samples: Optional[int] = None,
    progress: Progress = silent,
    executor: Executor = in_this_process,
) -> TaskEvaluation:
    """Run networks over images in one pass and judge their predictions; see ``TaskEvaluation``.

    Args:
        task: how outputs are read and scored.
        networks: the networks by role; ``network`` is required.
        data: annotated images; images alone if there is a reference to agree with.
        batch_size: the number of images in a run.
        num_samples: the number of images to use, the first ones; None for all.
        progress: wraps the stream of batches.
        executor: where to run the networks: in this process, or elsewhere.

    Raises:
        UserError: the networks cannot be compared, or a number is not a whole one from 1 up.
        DataError: the images cannot be used, or there is nothing to judge by.
        EngineError: a network computes maps with NaN or infinite values.
        ExtraMissing: a score needs a package that is not installed.
    """
    batch_size = whole_number("batch_size", batch_size, 1, BATCH_SIZE)
    if num_samples is not None:
        num_samples = whole_number("num_samples", num_samples, 1)
    check_comparable(networks)
    annotated = data if isinstance(data, AnnotatedImages) else None
    samples = data.samples if isinstance(data, AnnotatedImages) else data
    if annotated is None and "reference" not in networks:
        raise DataError(
            f"{samples.name} has no annotations that {task.name} could be judged by; give a VOC folder or a COCO file, "
            "or a --reference to agree with"
        )
    first = networks["network"]
    stream = BatchStream(samples, first.preparation, first.input_shape, batch_size, num_samples)
    run = PredictionRun(task, {role: network.graph for role, network in networks.items()}, batch_size)
    predicted = executor(run, stream, progress, f"{task.name} on {samples.name}")
    true, agreed, images = _compared(task, networks, annotated, predicted)
    parts = None if annotated is None or annotated.photographs is None else annotated.photographs[:images]
    notes = () if annotated is None else annotated.notes
    return replace(_judged(task, true, agreed, images, parts), notes=notes)


def _compared(
    task: Task[Any, Any, Any],
    networks: Mapping[Role, Network],
    annotated: Optional[AnnotatedImages[Any]],
    predicted: Predictions,
) -> tuple[Mapping[Role, list[Any]], Mapping[Role, list[Any]], int]:
    """Each network's predictions compared with what is true, and with the reference's; and the number of images."""
    true: dict[Role, list[Any]] = defaultdict(list)
    agreed: dict[Role, list[Any]] = defaultdict(list)
    height, width = networks["network"].input_shape[1:]
    preprocess = networks["network"].preprocess
    readers = {role: _read_by(task, network) for role, network in networks.items()}
    images = 0
    for image, predictions in enumerate(predicted):
        for role, prediction in predictions.items():
            if annotated is not None:
                placed = placement(preprocess, annotated.size(image), (height, width))
                seen = readers[role].in_image(prediction, placed)
                true[role].append(task.compare(annotated.truth(image), seen))
            if "reference" in predictions and role != "reference":
                wanted = task.as_truth(predictions["reference"], (height, width))
                agreed[role].append(task.compare(wanted, prediction))
        images = image + 1
    return true, agreed, images


def _read_by(task: Task[Any, Any, Any], network: Network) -> Task[Any, Any, Any]:
    """The task as one network has it: each detector has corners of its own."""
    return replace(task, box_corners=network.box_corners) if isinstance(task, Detection) else task


def _judged(
    task: Task[Any, Any, Any],
    true: Mapping[Role, list[Any]],
    agreed: Mapping[Role, list[Any]],
    images: int,
    photographs: Optional[Sequence[int]],
) -> TaskEvaluation:
    measured: dict[Role, tuple[Measure, ...]] = {
        role: over_groups(task.measures(each), photographs) for role, each in true.items()
    }
    return TaskEvaluation(
        task.name,
        images,
        {role: tuple(map(score, measures)) for role, measures in measured.items()},
        {role: tuple(map(score, over_groups(task.agreement(each), photographs))) for role, each in agreed.items()},
        {
            role: score_drop(measured["network"][0], measures[0])
            for role, measures in measured.items()
            if role != "network"
        },
    )
