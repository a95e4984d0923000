"""Whether a bundle's calibration holds for the images that are analysed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Optional

import numpy as np

from quantkit.calibration.table import CalibrationTable
from quantkit.data.dataset import CalibrationDataset
from quantkit.diagnosis.layers.tensor import TensorUse


@dataclass(frozen=True)
class InputStatistics:
    """The network's input over all images.

    Attributes:
        mean, deviation: of each channel.
        constant: the images in which each channel holds one value throughout.
        whole: whether all values are whole numbers, as those of pixels that were not preprocessed.
    """

    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    constant: int
    whole: bool


@dataclass(frozen=True)
class Audit:
    """What the bundle was calibrated with, held against the analysed images.

    Attributes:
        method, images, data: of the calibration.
        repeated: how many of the analysed images were calibrated with; None where that is not known.
        half_change: by how much ranges of half of the analysed images differ from those of all: the median over
            tensors, and the largest.
        moved: by how much the ranges that the same method chooses for the analysed images differ from those of the
            bundle: the median over tensors, and the largest.
        beyond: the share of all values, over all tensors, that the bundle's ranges cut off.
        input: statistics of the network's input.
    """

    method: str
    images: int
    data: str
    repeated: Optional[int]
    half_change: tuple[float, float]
    moved: tuple[float, float]
    beyond: float
    input: InputStatistics


class InputWatch:
    """Watches the network's input batch by batch."""

    def __init__(self) -> None:
        """Start with nothing seen."""
        self.digests: list[str] = []
        self._values = 0
        self._sum = self._squares = np.zeros(0)
        self._constant = 0
        self._whole = True

    def add(self, images: np.ndarray) -> None:
        """Take in a batch, float32 (images, channels, height, width)."""
        self.digests += [_digest(image) for image in images]
        flat = images.reshape(*images.shape[:2], -1).astype(np.float64)
        zeros = np.zeros(flat.shape[1])
        self._sum = (self._sum if self._sum.size else zeros) + flat.sum(axis=(0, 2))
        self._squares = (self._squares if self._squares.size else zeros) + np.square(flat).sum(axis=(0, 2))
        self._values += flat.shape[0] * flat.shape[2]
        self._constant += int((flat == flat[:, :, :1]).all(axis=(1, 2)).sum())
        self._whole = self._whole and bool((np.rint(images) == images).all())

    def result(self) -> InputStatistics:
        """The statistics of all images so far."""
        mean = self._sum / self._values
        deviation = np.sqrt(np.maximum(self._squares / self._values - np.square(mean), 0.0))
        return InputStatistics(tuple(mean.tolist()), tuple(deviation.tolist()), self._constant, self._whole)


def audit(
    table: CalibrationTable, tensors: Sequence[TensorUse], seen: InputWatch, calibrated: Optional[frozenset[str]]
) -> Audit:
    """Hold the calibration against the analysed images.

    Args:
        table: the bundle's calibration.
        tensors: how the analysed images' tensors fit into their integers.
        seen: the input of the analysed images.
        calibrated: what ``calibration_digests`` gives.
    """
    moved = [abs(each.measured / each.calibrated - 1) for each in tensors if each.calibrated]
    changes = [each.half_change for each in tensors]
    return Audit(
        method=table.method,
        images=table.samples,
        data=table.data_name,
        repeated=None if calibrated is None else sum(digest in calibrated for digest in seen.digests),
        half_change=(median(changes), max(changes)),
        moved=(median(moved), max(moved)) if moved else (0.0, 0.0),
        beyond=sum(each.saturated * each.values for each in tensors) / sum(each.values for each in tensors),
        input=seen.result(),
    )


def calibration_digests(table: CalibrationTable, samples: CalibrationDataset) -> Optional[frozenset[str]]:
    """What identifies each image that a bundle was calibrated with, if these samples are where they came from.

    The table has one hash over all calibration images. So the images are chosen from the samples as calibration
    chooses them; if their hash is another, nothing is known: None.
    """
    if samples.size is None or samples.size < table.samples:
        return None
    chosen = samples.subset(table.samples)
    found = frozenset(_digest(batch.data[0]) for batch in chosen.batches(1))
    return found if chosen.sha256 == table.data_sha256 else None


def _digest(image: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(image).tobytes()).hexdigest()
