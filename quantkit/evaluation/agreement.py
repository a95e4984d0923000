"""How close one network's outputs are to another's, image by image and output by output."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np

from quantkit.evaluation.deviation import DeviationSums
from quantkit.units import decibels, percent

Outputs = Sequence[np.ndarray]
"""A network's outputs for a batch, each of shape (images, ...)."""


@dataclass(frozen=True)
class OutputAgreement:
    """How close one output is to the reference's.

    Attributes:
        name: the output's name.
        cosine: the cosine of the two outputs as vectors, averaged over images.
        sqnr: the signal-to-quantization-noise ratio over all values in dB; infinite if nothing deviates.
        deviation: the largest absolute deviation of a value.
        largest: the largest absolute value of the reference, in the same units.
    """

    name: str
    cosine: float
    sqnr: float
    deviation: float
    largest: float

    @property
    def text(self) -> str:
        """The measures in words."""
        return (
            f"cosine {self.cosine:.4f}, signal to noise {decibels(self.sqnr)}, largest deviation {self.deviation:.3g} "
            f"of values up to {self.largest:.3g}"
        )


@dataclass(frozen=True)
class Agreement:
    """How close a network's outputs are to a reference's.

    ``top1`` is the share of images with the same prediction, from 0 to 1; None if the outputs are not class scores.
    """

    images: int
    top1: Optional[float]
    outputs: tuple[OutputAgreement, ...]

    @property
    def cosine(self) -> float:
        """The cosine of the first output."""
        return self.outputs[0].cosine

    @property
    def texts(self) -> tuple[str, ...]:
        """The measures in words: one line for class scores, else one line for each output."""
        if self.top1 is not None:
            return (f"top-1 the same for {percent(self.top1)}, cosine {self.cosine:.4f}",)
        if len(self.outputs) == 1:
            return (self.outputs[0].text,)
        return tuple(f"{output.name}: {output.text}" for output in self.outputs)

    @property
    def document(self) -> dict[str, Any]:
        """The measures as JSON values; ``sqnr`` is null if it is not finite."""
        return {
            "top1": self.top1,
            "cosine": self.cosine,
            "outputs": [
                {
                    "name": output.name,
                    "cosine": output.cosine,
                    "sqnr": output.sqnr if math.isfinite(output.sqnr) else None,
                    "deviation": output.deviation,
                    "largest": output.largest,
                }
                for output in self.outputs
            ],
        }


def same_top1(reference: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Whether outputs of shape (images, ...) have their largest value at the same place: booleans (images,)."""
    a, b = (value.reshape(len(value), -1).argmax(axis=1) for value in (reference, other))
    same: np.ndarray = a == b
    return same


def cosines(reference: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The cosine of each image's outputs as vectors, float64 of shape (images,).

    The cosine of two zero vectors is 1, that of a zero and another vector 0.
    """
    a, b = (np.asarray(value, np.float64).reshape(len(value), -1) for value in (reference, other))
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    equal = (a == b).all(axis=1)
    return np.where(norms > 0, (a * b).sum(axis=1) / np.where(norms > 0, norms, 1.0), equal)


class AgreementSums:
    """Running sums over outputs, batch by batch; memory does not grow with their number."""

    def __init__(self, names: Sequence[str], class_scores: bool) -> None:
        """Start with no outputs of these names; ``class_scores`` says whether the first is a row of class scores."""
        self._outputs = [_OutputSums(name) for name in names]
        self._class_scores = class_scores
        self._images = self._same = 0

    def add(self, reference: Outputs, other: Outputs) -> None:
        """Add both networks' outputs for the same images."""
        self._images += len(reference[0])
        if self._class_scores:
            self._same += int(same_top1(reference[0], other[0]).sum())
        for sums, expected, actual in zip(self._outputs, reference, other, strict=True):
            sums.add(expected, actual)

    def result(self) -> Agreement:
        """The agreement over all images added, of which there must be at least one."""
        top1 = self._same / self._images if self._class_scores else None
        return Agreement(self._images, top1, tuple(sums.result() for sums in self._outputs))


class _OutputSums:
    """Running sums over one output."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._noise = DeviationSums()
        self._rows, self._cosines, self._deviation, self._largest = 0, 0.0, 0.0, 0.0

    def add(self, expected: np.ndarray, actual: np.ndarray) -> None:
        self._rows += len(expected)
        # Rows of scores may have further axes of 1 in one of the networks.
        actual = actual.reshape(expected.shape)
        self._cosines += float(cosines(expected, actual).sum())
        self._noise.add(expected, actual)
        self._deviation = max(self._deviation, float(np.abs(expected - actual).max(initial=0.0)))
        self._largest = max(self._largest, float(np.abs(expected).max(initial=0.0)))

    def result(self) -> OutputAgreement:
        sqnr = self._noise.result().sqnr
        return OutputAgreement(self._name, self._cosines / self._rows, sqnr, self._deviation, self._largest)


def agreement(pairs: Iterable[tuple[Outputs, Outputs]], names: Sequence[str], class_scores: bool) -> Agreement:
    """Compare the outputs of two networks.

    Top-1 alone hides changes that cancel; the cosine of each image's outputs as vectors does not.

    Args:
        pairs: the outputs (reference, other) of each batch.
        names: the names of the outputs.
        class_scores: whether the first output is a row of class scores; see ``class_scores.class_scores``.
    """
    sums = AgreementSums(names, class_scores)
    for reference, other in pairs:
        sums.add(reference, other)
    return sums.result()
