"""What a task is: how outputs are read, compared with what is true, scored and drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, Protocol, TypeVar

import numpy as np

from quantkit.data.aggregation import Partial
from quantkit.data.placement import Placement
from quantkit.data.resizing import Size
from quantkit.evaluation.measure import Measure

TaskName = Literal["detection", "segmentation", "pose"]
"""The tasks whose outputs quantkit reads."""

Prediction = TypeVar("Prediction")
Truth = TypeVar("Truth")
Compared = TypeVar("Compared")


class Task(Protocol[Prediction, Truth, Compared]):
    """A task: ``Prediction`` is what a network says of an image, ``Truth`` what is true of it.

    ``Compared`` is what scores need of both, image by image; it is small, and all images' are held.
    """

    @property
    def name(self) -> TaskName:
        """What the task is called."""

    def decode(self, outputs: Sequence[np.ndarray]) -> list[Prediction]:
        """The prediction for each image of a batch, in the coordinates of the network's input.

        Raises:
            EngineError: maps hold NaN or infinite values.
        """

    def packed(self, predictions: Sequence[Prediction]) -> Partial:
        """Predictions of images as arrays, such that those of more images are these arrays concatenated."""

    def unpacked(self, packed: Partial) -> Iterator[Prediction]:
        """The predictions, equal to the last bit, one at a time."""

    def in_image(self, prediction: Prediction, placed: Placement) -> Prediction:
        """A prediction in the coordinates of the image."""

    def as_truth(self, prediction: Prediction, size: Size) -> Truth:
        """A reference's prediction as what another network should predict, in an image or an input of a size."""

    def compare(self, truth: Truth, prediction: Prediction) -> Compared:
        """What scores need of an image; both are in the same coordinates."""

    def measures(self, images: Sequence[Compared]) -> tuple[Measure, ...]:
        """The scores of a network; the first is the one that it is judged by."""

    def agreement(self, images: Sequence[Compared]) -> tuple[Measure, ...]:
        """The scores of a network where a reference's predictions are the truth."""

    def difference(self, reference: Prediction, prediction: Prediction) -> float:
        """How far two predictions of an input are apart, from 0 (alike) to 1; finer than scores."""

    def draw(self, image: np.ndarray, prediction: Prediction) -> np.ndarray:
        """A picture of a prediction, in the coordinates of the image.

        Args:
            image: uint8 of shape (height, width, 3), RGB.
            prediction: what to draw.

        Returns:
            pixels of the same form.
        """
