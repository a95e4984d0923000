"""Sample images in arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from quantkit.data.samples import Sample, Samples, label_of
from quantkit.errors import DataError


def arrays(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any] | None = None, name: str = "arrays") -> Samples:
    """The samples along the first axis of ``x``, with the class indices ``y`` if known.

    ``x`` is uint8 of shape (samples, height, width, 3), RGB, or float32 of shape (samples, ...) as
    the network reads it.

    Raises:
        DataError: other dtypes or shapes, or labels that do not fit.
    """
    check_layout(x.dtype, x.shape, f"x of {name}")
    labels = None if y is None else labels_of(y, len(x), name)

    def read(positions: Iterable[int]) -> Iterator[Sample]:
        for position in positions:
            yield Sample(x[position], None if labels is None else labels[position], f"sample {position} of {name}")

    return Samples(name, read, len(x))


def check_layout(dtype: np.dtype[Any], shape: tuple[int, ...], where: str) -> None:
    """Check the dtype and shape of an array of samples along the first axis.

    Raises:
        DataError: neither uint8 (samples, height, width, 3) nor float32 (samples, ...), or the samples hold nothing.
    """
    pixels = dtype == np.uint8 and len(shape) == 4 and shape[-1] == 3
    if 0 in shape[1:] or not (pixels or (dtype == np.float32 and len(shape) >= 2)):
        raise DataError(
            f"{where} is {dtype} of shape {shape}; give uint8 of shape (samples, height, width, 3), "
            "or float32 that is preprocessed already, of shape (samples, channels, height, width)"
        )


def labels_of(y: np.ndarray[Any, Any], number: int, name: str) -> list[int]:
    """``y`` as class indices.

    Raises:
        DataError: not one whole number from 0 up for each of the ``number`` samples.
    """
    if y.shape != (number,):
        raise DataError(f"y of {name} has shape {y.shape}, but there are {number} samples; give one label for each")
    return [label_of(value, f"sample {index} of {name}") for index, value in enumerate(y.tolist())]


def as_numpy(array: Any) -> np.ndarray[Any, Any]:
    """An array of NumPy or MXNet, or anything that NumPy accepts as one, as a NumPy array."""
    return np.asarray(array.asnumpy() if hasattr(array, "asnumpy") else array)
