"""Samples of networks with several inputs: one array for each, by name, and all of them as one vector.

Such a sample is a structured array without axes, with a field for each input. While a network is quantized and
measured it reads the inputs one after another in one vector, see ``ir.joined_inputs``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Optional, Union

import numpy as np

from quantkit.data.preprocess import check_input
from quantkit.data.vocabulary import Vocabulary, token_input
from quantkit.errors import DataError
from quantkit.units import counted


@dataclass(frozen=True)
class JoinedInput:
    """One of a network's several inputs.

    Attributes:
        name: its name.
        shape: without the batch.
        vocabulary: of the token ids that it reads; None if it reads none.
    """

    name: str
    shape: tuple[int, ...]
    vocabulary: Optional[Vocabulary] = None

    @property
    def size(self) -> int:
        """How many values of the vector it takes."""
        return prod(self.shape)

    def __str__(self) -> str:
        """``'left' 3x32x32``."""
        return f"{self.name!r} {'x'.join(map(str, self.shape))}"


@dataclass(frozen=True)
class JoinedInputs:
    """A network's several inputs, in their order in the vector."""

    inputs: tuple[JoinedInput, ...]

    @property
    def size(self) -> int:
        """The length of the vector."""
        return sum(each.size for each in self.inputs)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the inputs, without the batch, by their names."""
        return {each.name: each.shape for each in self.inputs}

    def __str__(self) -> str:
        """``'left' 3x32x32 and 'right' 5``."""
        return " and ".join(map(str, self.inputs))


def record_of(arrays: Mapping[str, np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """The arrays of one sample as one structured array without axes.

    Raises:
        DataError: an array has a name that no input has, or they are larger than NumPy's structured arrays may be.
    """
    names = ", ".join(map(repr, arrays))
    try:
        kind = np.dtype([(name, array.dtype, array.shape) for name, array in arrays.items()])
    except (TypeError, ValueError) as error:
        raise DataError(f"the arrays {names} make no sample of several inputs ({error})") from error
    # NumPy gives a field without a name one of its own.
    if kind.names != tuple(arrays):
        raise DataError(f"the arrays {names} make no sample of several inputs: every one needs a name")
    record: np.ndarray[Any, Any] = np.empty((), kind)
    for name, array in arrays.items():
        record[name] = array
    return record


def joined_vector(
    joined: JoinedInputs, sample: Union[np.ndarray[Any, Any], np.void], where: str
) -> np.ndarray[Any, Any]:
    """A sample as the vector that the network reads, float32 of shape (values,), checked.

    Args:
        joined: the network's inputs.
        sample: a structured array with the inputs' names, or the vector.
        where: names the sample in errors.

    Raises:
        DataError: an input is missing, or of another shape or type; or the vector is.
    """
    if sample.dtype.names is None:
        if sample.dtype == np.float32 and sample.shape == (joined.size,):
            places = np.cumsum([each.size for each in joined.inputs])[:-1]
            for each, values in zip(joined.inputs, np.split(sample, places)):
                _values(each, values.reshape(each.shape), where)
            return sample
        raise DataError(
            f"{where} is {sample.dtype} of shape {sample.shape}, but the network reads "
            f"{counted(len(joined.inputs), 'input')}, {joined}; give an array for each by its name: an .npz file with "
            "arrays of these names, or a dictionary"
        )
    missing = [each.name for each in joined.inputs if each.name not in sample.dtype.names]
    if missing:
        raise DataError(f"{where} has no array {missing[0]!r}, and the network reads {joined}; give one for each")
    return np.concatenate([_values(each, np.asarray(sample[each.name]), where).reshape(-1) for each in joined.inputs])


def _values(given: JoinedInput, values: np.ndarray[Any, Any], where: str) -> np.ndarray[Any, Any]:
    where = f"input {given.name!r} of {where}"
    if given.vocabulary is not None:
        return token_input(given.vocabulary, values, given.shape, where)
    if values.dtype == np.uint8:
        raise DataError(f"{where} is uint8; several inputs are not preprocessed: give float32 as the network reads it")
    check_input(values, given.shape, where)
    return values
