"""Whether a bundle's calibration holds for the images that are analysed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Optional

import numpy as np

from quantkit.calibration.table import CalibrationTable
from quantkit.data.dataset import CalibrationDataset
from quantkit.data.digests import digests_of
from quantkit.diagnosis.layers.tensor import TensorUse
from quantkit.models.layout import InputLayout


@dataclass(frozen=True)
class InputStatistics:
    """The network's input over all images.

    Attributes:
        mean: the mean of each channel, of sequences that of each feature; empty of token ids.
        deviation: the standard deviation of each.
        constant: the number of images in which each channel of several values holds one throughout.
        whole: whether all values are whole numbers, like those of pixels that were not preprocessed.
    """

    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    constant: int
    whole: bool


@dataclass(frozen=True)
class Audit:
    """The bundle's calibration compared with the analysed images.

    Attributes:
        method: the calibration's method.
        images: the number of images that it used.
        data: their name.
        repeated: the number of analysed images that calibration used as well; None if that is not known.
        half_change: how far the ranges from half of the analysed images are from those of all: the median over
            tensors, and the largest.
        moved: how far the ranges that the same method chooses for the analysed images are from those of the bundle:
            the median over tensors, and the largest.
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

    def __init__(self, layout: InputLayout) -> None:
        """Start with nothing seen of inputs of this layout."""
        self._layout = layout
        self.digests: list[bytes] = []
        # Of each batch the sum and the sum of squares of each channel, so that their order does not matter.
        self._sums: list[np.ndarray] = []
        self._values = 0
        self._constant = 0
        self._whole = True

    def add(self, images: np.ndarray) -> None:
        """Add a batch, float32, its axes those of the layout."""
        self.digests += [digest.tobytes() for digest in digests_of(images)]
        self._whole = self._whole and bool((np.rint(images) == images).all())
        if "C" not in self._layout:
            return
        images = np.moveaxis(images, self._layout.index("C"), 1)
        flat = images.reshape(*images.shape[:2], -1).astype(np.float64)
        self._sums.append(np.array([[flat.sum(axis=(0, 2)), np.square(flat).sum(axis=(0, 2))]]))
        self._values += flat.shape[0] * flat.shape[2]
        if flat.shape[2] > 1:
            self._constant += int((flat == flat[:, :, :1]).all(axis=(1, 2)).sum())

    def state(self) -> dict[str, np.ndarray]:
        """All that has been seen, by name."""
        return {
            "digests": np.frombuffer(b"".join(self.digests), np.uint8).reshape(len(self.digests), -1),
            "sums": np.concatenate(self._sums) if self._sums else np.empty((0, 2, 0)),
            "numbers": np.array([self._values, self._constant, self._whole], np.int64),
        }

    def merge(self, state: Mapping[str, np.ndarray]) -> None:
        """Add the ``state`` of another watch, whose images come after these."""
        self.digests += [digest.tobytes() for digest in state["digests"]]
        if len(state["sums"]):
            self._sums.append(state["sums"])
        values, constant, whole = map(int, state["numbers"])
        self._values, self._constant = self._values + values, self._constant + constant
        self._whole = self._whole and bool(whole)

    def result(self) -> InputStatistics:
        """The statistics of all images so far."""
        sums = np.concatenate(self._sums) if self._sums else np.empty((0, 2, 0))
        total, squares = (np.array([math.fsum(values) for values in each.T]) for each in (sums[:, 0], sums[:, 1]))
        mean = total / max(self._values, 1)
        deviation = np.sqrt(np.maximum(squares / max(self._values, 1) - np.square(mean), 0.0))
        return InputStatistics(tuple(mean.tolist()), tuple(deviation.tolist()), self._constant, self._whole)


def audit(
    table: CalibrationTable, tensors: Sequence[TensorUse], seen: InputWatch, calibrated: Optional[frozenset[bytes]]
) -> Audit:
    """Compare the calibration with the analysed images.

    Args:
        table: the bundle's calibration.
        tensors: how the tensors of the analysed images fit into their integers.
        seen: the input of the analysed images.
        calibrated: the result of ``calibration_digests``.
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


def calibration_digests(table: CalibrationTable, samples: CalibrationDataset) -> Optional[frozenset[bytes]]:
    """The digests of the images that a bundle was calibrated with, if they came from these samples; else None.

    The table has only one hash over all calibration images. So this chooses images from the samples as calibration does
    and compares their hash with the table's.
    """
    if samples.size is None or samples.size < table.samples:
        return None
    chosen = samples.subset(table.samples)
    digests = frozenset(digests_of(batch.data).tobytes() for batch in chosen.batches(1))
    return digests if chosen.sha256 == table.data_sha256 else None
