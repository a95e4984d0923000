"""Samples in arrays: images, vectors, sequences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from quantkit.data.joined_inputs import record_of
from quantkit.data.samples import Label, Sample, Samples, label_of, step_labels
from quantkit.errors import DataError

_INPUTS = (np.float32, np.int32, np.int64)


def arrays(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any] | None = None, name: str = "arrays") -> Samples:
    """The samples along the first axis of ``x``, with the class indices ``y`` if known.

    ``x`` is uint8 of shape (samples, height, width, 3), RGB, float32 of shape (samples, ...) as
    the network reads it, or token ids: int32 or int64 of shape (samples, steps). ``y`` has the shape (samples,), or
    (samples, steps) where every step of a sequence has a class.

    Raises:
        DataError: other dtypes or shapes, or labels that do not fit.
    """
    check_layout(x.dtype, x.shape, f"x of {name}")
    labels = None if y is None else labels_of(y, x.shape, name)

    def read(positions: Iterable[int]) -> Iterator[Sample]:
        for position in positions:
            yield Sample(x[position], None if labels is None else labels[position], f"sample {position} of {name}")

    return Samples(name, read, len(x))


def arrays_by_name(
    inputs: Mapping[str, np.ndarray[Any, Any]],
    y: np.ndarray[Any, Any] | None = None,
    name: str = "arrays",
    start: int = 0,
) -> Samples:
    """The samples of a network with several inputs: those along the first axes of arrays with their names.

    The arrays are float32 of shape (samples, ...), or token ids as for ``arrays``; ``y`` is of shape (samples,). The
    first sample has the number ``start`` in messages.

    Raises:
        DataError: other dtypes or shapes, different numbers of samples, or labels that do not fit.
    """
    number = check_alike({key: (array.dtype, array.shape) for key, array in inputs.items()}, name)
    labels = None if y is None else labels_of(y, (number,), name)

    def read(positions: Iterable[int]) -> Iterator[Sample]:
        for position in positions:
            record = record_of({key: array[position] for key, array in inputs.items()})
            label = None if labels is None else labels[position]
            yield Sample(record, label, f"sample {start + position} of {name}")

    return Samples(name, read, number)


def check_alike(forms: Mapping[str, tuple[np.dtype[Any], tuple[int, ...]]], where: str) -> int:
    """Check the dtypes and shapes of arrays of the same samples; returns how many samples these are.

    Raises:
        DataError: there are no arrays, one does not hold samples of a network's input, or they differ in their number.
    """
    if not forms:
        raise DataError(f"{where} holds no arrays; give one for each of the network's inputs")
    for key, (dtype, shape) in forms.items():
        if dtype not in _INPUTS or len(shape) < 2 or 0 in shape[1:]:
            raise DataError(
                f"input {key!r} of {where} is {dtype} of shape {shape}; give float32 as the network reads it, of shape "
                "(samples, ...), or token ids, int32 or int64 of shape (samples, steps)"
            )
    (first, number), *others = ((key, shape[0]) for key, (_, shape) in forms.items())
    for key, other in others:
        if other != number:
            raise DataError(f"{where} has {number} samples in {first!r}, but {other} in {key!r}; give as many in each")
    return number


def check_layout(dtype: np.dtype[Any], shape: tuple[int, ...], where: str) -> None:
    """Check the dtype and shape of an array of samples along the first axis.

    Raises:
        DataError: neither uint8 (samples, height, width, 3), float32 (samples, ...), nor int32 or int64
            (samples, steps), or the samples hold nothing.
    """
    pixels = dtype == np.uint8 and len(shape) == 4 and shape[-1] == 3
    tokens = dtype in (np.int32, np.int64) and len(shape) == 2
    if dtype.kind == "O" and len(shape) == 1:
        raise DataError(f"{where} holds objects; pad or cut sequences to one length, so that they are one array")
    if len(shape) in (2, 3) and shape[1] == 0 and (tokens or dtype == np.float32):
        raise DataError(f"{where} has the shape {shape}: its sequences are empty; give sequences of one step or more")
    if 0 in shape[1:] or not (pixels or tokens or (dtype == np.float32 and len(shape) >= 2)):
        raise DataError(
            f"{where} is {dtype} of shape {shape}; give uint8 of shape (samples, height, width, 3), "
            "float32 that is preprocessed already, of shape (samples, channels, height, width), or sequences: float32 "
            "of shape (samples, steps, features), or token ids, int32 or int64 of shape (samples, steps)"
        )


def labels_of(y: np.ndarray[Any, Any], shape: tuple[int, ...], name: str) -> Sequence[Label]:
    """``y`` as class indices, one for each sample or, for sequences, for each step of each.

    Args:
        y: the labels.
        shape: of the samples; those of sequences are (samples, steps) or (samples, steps, features).
        name: what messages call the samples.

    Raises:
        DataError: not one whole number from 0 up for each sample or step.
    """
    number = shape[0]
    if len(shape) in (2, 3) and y.ndim == 2:
        if y.shape != shape[:2]:
            raise DataError(
                f"y of {name} has shape {y.shape}, but there are {number} samples of {shape[1]} steps; give one label "
                "for each sample, or for each of its steps"
            )
        return [step_labels(row, f"sample {index} of {name}") for index, row in enumerate(y)]
    if y.shape != (number,):
        raise DataError(f"y of {name} has shape {y.shape}, but there are {number} samples; give one label for each")
    return [label_of(value, f"sample {index} of {name}") for index, value in enumerate(y.tolist())]


def numpy_by_name(values: Mapping[Any, Any], where: str) -> dict[str, np.ndarray[Any, Any]]:
    """Arrays by the names of a network's inputs as NumPy arrays; see ``as_numpy``.

    Raises:
        DataError: a name is no text, or a value forms no array.
    """
    for key in values:
        if not isinstance(key, str) or not key:
            raise DataError(f"{where} has the key {key!r}; give arrays by the names of the network's inputs")
    return {key: as_numpy(value) for key, value in values.items()}


def as_numpy(array: Any) -> np.ndarray[Any, Any]:
    """An array of NumPy or MXNet, or anything that NumPy accepts as one, as a NumPy array.

    Raises:
        DataError: sequences of different lengths form no array.
    """
    try:
        return np.asarray(array.asnumpy() if hasattr(array, "asnumpy") else array)
    except ValueError as error:
        raise DataError(f"the data form no array ({error}); pad or cut sequences to one length") from error
