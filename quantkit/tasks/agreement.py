"""How far a network's predictions agree with a reference's, batch by batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

import numpy as np

from quantkit.backends.mxnet.shapes import infer_shapes
from quantkit.data.resizing import Size
from quantkit.evaluation.measure import Score, score
from quantkit.models.model import Model
from quantkit.tasks.box_agreement import BoxAgreement, box_agreement, found_again
from quantkit.tasks.choose import judged_task, stated_task
from quantkit.tasks.detection import CONFIDENT, Detection
from quantkit.tasks.detections import above
from quantkit.tasks.task import Task


@dataclass(frozen=True, eq=False)
class TaskAgreement:
    """The predictions of a network held against those of a reference, which are taken for the truth.

    Attributes:
        task: how outputs are read and compared.
        input_size: the height and the width of the networks' input.
        unordered: whether outputs are lists of predictions, whose order may differ where these are alike.
    """

    task: Task[Any, Any, Any]
    input_size: Size
    unordered: bool = False
    _compared: list[Any] = field(default_factory=list)
    _boxes: list[np.ndarray] = field(default_factory=list)

    def add(self, reference: Sequence[np.ndarray], other: Sequence[np.ndarray]) -> None:
        """Add both networks' outputs for a batch."""
        for wanted, seen in zip(self.task.decode(reference), self.task.decode(other), strict=True):
            self.compare(wanted, seen)

    def compare(self, wanted: Any, seen: Any) -> None:
        """Add what the reference predicts of an image, and what the other network does."""
        self._compared.append(self.task.compare(self.task.as_truth(wanted, self.input_size), seen))
        if isinstance(self.task, Detection):
            self._boxes.append(found_again(above(wanted, CONFIDENT), seen))

    @property
    def scores(self) -> tuple[Score, ...]:
        """The scores over all images added, of which there must be at least one."""
        return tuple(map(score, self.task.agreement(self._compared)))

    @property
    def boxes(self) -> Optional[BoxAgreement]:
        """How the reference's confident detections lie in the other network; None where there are none."""
        return box_agreement(self._boxes) if self._boxes else None


def agreement_of(model: Model) -> Optional[TaskAgreement]:
    """What compares the predictions of two forms of a network; None where it is for no task that is judged so.

    Raises:
        UserError: the outputs do not fit the task.
    """
    if judged_task(model.task) is None:
        return None
    inferred = infer_shapes(model.graph, dict.fromkeys(model.graph.inputs, (1, *model.input_shape)))
    shapes = [inferred[output][1:] for output in model.graph.outputs]
    return agreement_for(model.task, shapes, model.input_shape, model.name, model.labels)


def agreement_for(
    said: Optional[str],
    shapes: Sequence[tuple[int, ...]],
    input_shape: Sequence[int],
    network: str,
    classes: tuple[str, ...] = (),
) -> Optional[TaskAgreement]:
    """What ``agreement_of`` gives for a network of which these facts are known; see ``make_task``."""
    task = stated_task(said, shapes, input_shape, network, classes)
    if task is None:
        return None
    unordered = isinstance(task, Detection) and task.form == "suppressed"
    return TaskAgreement(task, (input_shape[1], input_shape[2]), unordered)
