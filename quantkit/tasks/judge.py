"""Judging networks by a task on data of a name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Optional, Union

from quantkit.data.aggregation import Executor, in_this_process
from quantkit.data.annotated import AnnotatedImages
from quantkit.data.annotated_sources import is_coco, load_boxes, load_masks, load_people
from quantkit.data.samples import Samples
from quantkit.data.sources import DataSource, load_data
from quantkit.evaluation.evaluate import BATCH_SIZE
from quantkit.evaluation.joint_run import Role
from quantkit.evaluation.network import Network
from quantkit.progress import Progress, silent
from quantkit.tasks.choose import AnyTask, make_task
from quantkit.tasks.evaluate import TaskEvaluation, evaluate_task
from quantkit.tasks.task import TaskName


def judge(
    task: TaskName,
    networks: Mapping[Role, Network],
    data: DataSource,
    batch_size: int = BATCH_SIZE,
    num_samples: Optional[int] = None,
    progress: Progress = silent,
    executor: Executor = in_this_process,
) -> TaskEvaluation:
    """Judge networks by a task; detections by COCO's rules on a COCO file, else by VOC's.

    Args:
        task: which.
        networks: the networks by role; ``network`` is required.
        data: a VOC folder, FOLDER:SPLIT, or, for detection and pose, a COCO file; other images if there is a reference
            to agree with.
        batch_size: the number of images in a run.
        num_samples: the number of images to use, the first ones; None for all.
        progress: wraps the stream of batches.
        executor: where to run the networks: in this process, or elsewhere.

    Raises:
        UserError: the outputs do not fit the task, or the networks cannot be compared.
        DataError: the data cannot be used, or there is nothing to judge by.
        EngineError: a network computes maps with NaN or infinite values.
        ExtraMissing: COCO's rules need a package that is not installed.
    """
    made, opened = task_and_data(task, networks["network"], data)
    return evaluate_task(made, networks, opened, batch_size, num_samples, progress, executor)


def task_and_data(
    task: TaskName, network: Network, data: DataSource
) -> tuple[AnyTask, Union[AnnotatedImages[Any], Samples]]:
    """A network's task as some data judge it, and the data: annotated images, or images alone; see ``judge``."""
    shapes = network.output_shapes
    # Outputs that do not fit are told before a large set is read.
    made = make_task(task, shapes, network.input_shape, network.name, network.labels)
    if not isinstance(data, (str, os.PathLike)):
        return made, load_data(data)
    spec = os.fspath(data)
    if task == "segmentation":
        return made, load_masks(spec, network.labels or tuple(map(str, range(shapes[0][0]))))
    if task == "pose":
        return made, load_people(spec, (network.input_shape[1], network.input_shape[2]), shapes[0][0])
    boxes = load_boxes(spec, network.labels)
    classes = boxes.classes if isinstance(boxes, AnnotatedImages) else network.labels
    detector = make_task(
        task,
        shapes,
        network.input_shape,
        network.name,
        classes,
        "coco" if is_coco(spec) else "voc",
        network.box_corners,
    )
    return detector, boxes
