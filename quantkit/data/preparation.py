"""How samples become what a network reads: images preprocessed, token ids checked, several inputs joined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional, Union

import numpy as np

from quantkit.data.joined_inputs import JoinedInputs, joined_vector
from quantkit.data.preprocess import Preprocess, apply, check_input
from quantkit.data.vocabulary import Vocabulary, token_input
from quantkit.errors import DataError

Preparation = Optional[Union[Preprocess, Vocabulary, JoinedInputs]]
"""The preprocessing of images, the vocabulary of token ids, several inputs that one vector holds, or None for arrays
that are taken as they are."""


def network_input(
    preparation: Preparation, sample: np.ndarray[Any, Any], input_shape: Sequence[int], where: str
) -> np.ndarray[Any, Any]:
    """``sample`` as a network with ``input_shape`` reads it, float32, checked; ``where`` names it in errors.

    Pixels are preprocessed if a ``Preprocess`` is given; float32 is used as it is.

    Raises:
        DataError: see ``apply``, ``check_input``, ``token_input`` and ``joined_vector``; or several
            arrays are given for one input.
    """
    if isinstance(preparation, JoinedInputs):
        return joined_vector(preparation, sample, where)
    if sample.dtype.names is not None:
        sample = _only(sample, where)
    if isinstance(preparation, Vocabulary):
        return token_input(preparation, sample, input_shape, where)
    if sample.dtype == np.uint8 and preparation is not None:
        sample = apply(preparation, sample, where, input_shape)
    check_input(sample, input_shape, where)
    return sample


def reads_tokens(preparation: Preparation) -> bool:
    """Whether a network reads token ids, as its only input or as one of several."""
    if isinstance(preparation, JoinedInputs):
        return any(each.vocabulary is not None for each in preparation.inputs)
    return isinstance(preparation, Vocabulary)


def _only(sample: np.ndarray[Any, Any], where: str) -> np.ndarray[Any, Any]:
    """The array of a network's one input among several: ``x``, but for what would be wrong labels."""
    names = sample.dtype.names or ()
    if "x" in names and "y" not in names:
        return np.asarray(sample["x"])
    raise DataError(
        f"{where} has the arrays {', '.join(map(repr, names))}, but the network reads one input; give one array ('x' "
        "in an .npz file, with class indices 'y', whole numbers)"
    )
