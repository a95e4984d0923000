"""The task of a network, from its outputs and what the user says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional, Union, get_args

from quantkit.data.boxes import BoxCorners
from quantkit.data.resizing import Size
from quantkit.errors import UserError
from quantkit.kinds import number
from quantkit.tasks.detection import Detection, Form, Rules, classes_of, detection_form
from quantkit.tasks.pose import Pose, is_pose
from quantkit.tasks.segmentation import Segmentation, is_segmentation
from quantkit.tasks.suppression import MAX_OVERLAP
from quantkit.tasks.task import TaskName

AnyTask = Union[Detection, Segmentation, Pose]

_NEEDS: dict[TaskName, str] = {
    "detection": "classes, scores and boxes of shapes (boxes, 1), (boxes, 1) and (boxes, 4), or scores and boxes of "
    "shapes (boxes, 1 + classes) and (boxes, 4)",
    "segmentation": "scores of shape (classes, rows, columns)",
    "pose": "heatmaps of shape (joints, rows, columns)",
}


def task_named(said: Any, network: str = "") -> TaskName:
    """The task of a name.

    Args:
        said: the name.
        network: the network whose card or bundle says it; empty where the caller does.

    Raises:
        UserError: there is none.
    """
    name = judged_task(said)
    if name is None:
        others = " or ".join(get_args(TaskName))
        if network and said is not None:
            raise UserError(f"{network} is for {said}, which evaluate() judges; call that, or give {others}")
        which = f"{network} does not say which task it is for" if network else f"there is no task {said!r}"
        raise UserError(f"{which}; give {others}")
    return name


def judged_task(said: Optional[str]) -> Optional[TaskName]:
    """What a network is for as the task that its outputs are read by; None where class scores or plain values tell."""
    names: tuple[TaskName, ...] = get_args(TaskName)
    return next((name for name in names if name == said), None)


def task_of(shapes: Sequence[tuple[int, ...]]) -> Optional[TaskName]:
    """The task that outputs of these shapes, without the batch axis, fit; None if none. Poses are taken for maps."""
    if detection_form(shapes) is not None:
        return "detection"
    return "segmentation" if is_segmentation(shapes) else None


def stated_task(
    said: Optional[str],
    shapes: Sequence[tuple[int, ...]],
    input_shape: Sequence[int],
    network: str,
    classes: tuple[str, ...] = (),
) -> Optional[AnyTask]:
    """The task of a network that is for ``said``; None where that is no task; see ``make_task``."""
    name = judged_task(said)
    return None if name is None else make_task(name, shapes, input_shape, network, classes)


def make_task(
    name: TaskName,
    shapes: Sequence[tuple[int, ...]],
    input_shape: Sequence[int],
    network: str,
    classes: tuple[str, ...] = (),
    rules: Rules = "voc",
    box_corners: BoxCorners = "edges",
    max_overlap: Optional[float] = None,
) -> AnyTask:
    """A task of a network.

    Args:
        name: which.
        shapes: those of the network's outputs for one image, without the batch axis.
        input_shape: (channels, height, width).
        network: the network's name, for errors.
        classes: the names of its classes, or of those of the data if the network's have none.
        rules: whose rules detections are judged by.
        box_corners: what the corners of the network's boxes are; only detections in images depend on it.
        max_overlap: the largest intersection over union of two boxes of a class, for a detector that leaves their
            suppression to its caller; None: that of GluonCV's SSD.

    Raises:
        UserError: the outputs do not fit the task, or ``max_overlap`` is no overlap or there is nothing to suppress.
    """
    size = _input_size(input_shape, network)
    if name == "segmentation" and is_segmentation(shapes):
        _check_names(network, shapes[0][0], "", classes)
        return Segmentation(shapes[0][0])
    if name == "pose" and is_pose(shapes):
        return Pose(shapes[0][0], size)
    form = detection_form(shapes) if name == "detection" else None
    if form is None:
        listed = ", ".join(map(str, shapes))
        raise UserError(
            f"{name} needs outputs that are {_NEEDS[name]}; {network} puts out {listed} for each image: give the task "
            "that it was trained for (--task, `task` in its card), or classification to compare outputs as they are"
        )
    count = classes_of(form, shapes)
    if count is not None:
        _check_names(network, count, " besides the background", classes)
    overlap = _overlap(max_overlap, form, network)
    return Detection(form, size, classes, count or len(classes) or None, rules, box_corners, overlap)


def _overlap(max_overlap: Optional[float], form: Form, network: str) -> float:
    """The bound of overlaps as it was given, or the usual one."""
    if max_overlap is None:
        return MAX_OVERLAP
    remedy = "give an intersection over union from 0 to 1"
    bound = number("max_overlap", max_overlap, remedy)
    if not 0 <= bound <= 1:
        raise UserError(f"max_overlap is {max_overlap!r}; {remedy}")
    if form == "suppressed":
        raise UserError(
            f"{network} does not leave the suppression of overlapping boxes to its caller; leave out max_overlap "
            "(--max-overlap)"
        )
    return bound


def _check_names(network: str, number: int, besides: str, classes: tuple[str, ...]) -> None:
    if classes and len(classes) != number:
        raise UserError(
            f"{network} puts out scores of {number} classes{besides}, and {len(classes)} have names; give as many "
            "names (`labels` in its card)"
        )


def _input_size(input_shape: Sequence[int], network: str) -> Size:
    if len(input_shape) != 3:
        raise UserError(f"{network} reads inputs of shape {tuple(input_shape)}, not images; it has none of these tasks")
    return input_shape[1], input_shape[2]


def class_count(shapes: Sequence[tuple[int, ...]], names: int) -> Optional[int]:
    """The number of classes that detections or a map tell apart; None where outputs of these shapes are neither.

    Args:
        shapes: those of the outputs for one image, without the batch axis.
        names: how many classes have names, which decides where outputs do not.
    """
    if (form := detection_form(shapes)) is not None:
        return classes_of(form, shapes) or max(names, 1)
    return shapes[0][0] if is_segmentation(shapes) else None
