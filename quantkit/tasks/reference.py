"""A network's predictions of a set of images, which other forms of it are held against."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Optional

from quantkit.data.annotated import AnnotatedImages
from quantkit.data.placement import placement
from quantkit.data.preprocess import Preprocess
from quantkit.data.resizing import Size
from quantkit.evaluation.drop import Drop
from quantkit.evaluation.measure import Measure, over_groups, score, score_drop
from quantkit.tasks.task import Task


@dataclass(frozen=True, eq=False)
class TaskReference:
    """A network's predictions of a set of images.

    Attributes:
        task: how predictions are compared and scored.
        predictions: for each image, in the coordinates of the network's input.
        annotated: what is true of the images; None: what the network predicts is.
        preprocess: how images become the network's input.
        input_size: the height and the width of that.
    """

    task: Task[Any, Any, Any]
    predictions: Sequence[Any]
    annotated: Optional[AnnotatedImages[Any]]
    preprocess: Optional[Preprocess]
    input_size: Size

    def drop(self, predictions: Iterable[Any]) -> Optional[Drop]:
        """What another form of the network loses with these predictions, in points of the task's first score.

        Without annotations that is the score of its agreement. None where there is nothing to score.
        """
        compared = self._compared(predictions)
        if self.annotated is None:
            agreed = score(self.task.agreement(compared)[0])
            if agreed.value is None or agreed.low is None or agreed.high is None:
                return None
            loss, low, high = (100 * (1 - share) for share in (agreed.value, agreed.high, agreed.low))
            return Drop(len(compared), agreed.name, 1.0, agreed.value, loss, low, high)
        measure = self._measure_of(compared)
        lost = score_drop(measure, self._measure)
        if lost.points is None or lost.low is None or lost.high is None:
            return None
        return Drop(len(compared), measure.name, self._measure.value, measure.value, lost.points, lost.low, lost.high)

    @cached_property
    def _measure(self) -> Measure:
        """The score of the network itself against what is true."""
        return self._measure_of(self._compared(self.predictions))

    def _measure_of(self, compared: Sequence[Any]) -> Measure:
        photographs = None if self.annotated is None else self.annotated.photographs
        return over_groups(self.task.measures(compared), photographs)[0]

    def _compared(self, predictions: Iterable[Any]) -> list[Any]:
        return [self.task.compare(truth, seen) for truth, seen in self._pairs(predictions)]

    def _pairs(self, predictions: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        """What should be predicted of each image, and what is."""
        for index, (own, prediction) in enumerate(zip(self.predictions, predictions, strict=True)):
            if self.annotated is None:
                yield self.task.as_truth(own, self.input_size), prediction
            else:
                placed = placement(self.preprocess, self.annotated.size(index), self.input_size)
                yield self.annotated.truth(index), self.task.in_image(prediction, placed)
