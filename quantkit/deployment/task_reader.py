"""What a deployment reads from the outputs of a task: predictions in the images' own pixels."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np

from quantkit.data.boxes import BoxCorners
from quantkit.data.placement import Placement, placement
from quantkit.data.preprocess import Preprocess
from quantkit.deployment.inputs import Images, InputReader, NamedArray
from quantkit.deployment.outputs import OutputReader
from quantkit.deployment.runner import Outputs
from quantkit.tasks.choose import make_task
from quantkit.tasks.task import Task, TaskName

Run = Callable[[Iterable[np.ndarray]], Iterator[Outputs]]
"""Gives the outputs for each batch, in order."""

# The outputs that detections are read from: classes, scores and boxes, or scores and boxes.
_DETECTIONS_IN = 3


@dataclass(frozen=True)
class TaskReader:
    """Reads what a network predicts of images, for the tasks that its outputs fit.

    Attributes:
        inputs: reads the images.
        outputs: reads the outputs.
        shapes: of the outputs, for one image.
        labels: the names of the classes; empty if unknown.
        preprocess: how images become the network's input; None if unknown.
        box_corners: what the corners of the network's boxes are.
    """

    inputs: InputReader
    outputs: OutputReader
    shapes: tuple[tuple[int, ...], ...]
    labels: tuple[str, ...]
    preprocess: Optional[Preprocess]
    box_corners: BoxCorners

    def task(self, name: TaskName, max_overlap: Optional[float] = None) -> Task[Any, Any, Any]:
        """What reads and draws the predictions of a task.

        Raises:
            UserError: the outputs are of another task, or see ``make_task``.
        """
        shape, network = self.inputs.shape, self.outputs.name
        corners = self.box_corners
        return make_task(name, self.shapes, shape, network, self.labels, box_corners=corners, max_overlap=max_overlap)

    def stream(self, name: TaskName, images: Images, run: Run, max_overlap: Optional[float] = None) -> Iterator[Any]:
        """The predictions of a task for one image after the other, in its own pixels.

        Raises:
            UserError: see ``task``.
            DataError: an image cannot be read, or does not fit; the message names it.
            EngineError: an output that is read holds NaN or infinite values.
            QuantkitError: see ``run``.
        """
        task = self.task(name, max_overlap)
        start, read = 0, _DETECTIONS_IN if task.name == "detection" else 1
        chunks: deque[list[NamedArray]] = deque()

        def batches() -> Iterator[np.ndarray]:
            for chunk, batch in self.inputs.with_samples(images):
                chunks.append(chunk)
                yield batch

        for outputs in run(batches()):
            chunk = chunks.popleft()
            for output in outputs[:read]:
                self.outputs.finite(output, start)
            start += len(chunk)
            for prediction, image in zip(task.decode(outputs), chunk):
                yield task.in_image(prediction, self._placed(image.array))

    def _placed(self, image: np.ndarray) -> Placement:
        """Where an image lies in the network's input, which an array that is preprocessed already is itself."""
        inner = self.inputs.shape[1], self.inputs.shape[2]
        if image.dtype != np.uint8:
            return placement(None, inner, inner)
        return placement(self.preprocess, (image.shape[0], image.shape[1]), inner)
