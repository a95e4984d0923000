"""How samples become what a network reads: images are preprocessed, token ids checked, arrays taken as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional, Union

import numpy as np

from quantkit.data.preprocess import Preprocess, apply, check_input
from quantkit.data.vocabulary import Vocabulary, token_input

Preparation = Optional[Union[Preprocess, Vocabulary]]
"""The preprocessing of images, the vocabulary of token ids, or None for arrays that are taken as they are."""


def network_input(
    preparation: Preparation, sample: np.ndarray[Any, Any], input_shape: Sequence[int], where: str
) -> np.ndarray[Any, Any]:
    """``sample`` as a network with ``input_shape`` reads it, float32, checked; ``where`` names it in errors.

    Pixels are preprocessed if a ``Preprocess`` is given; float32 is used as it is.

    Raises:
        DataError: see ``apply``, ``check_input`` and ``token_input``.
    """
    if isinstance(preparation, Vocabulary):
        return token_input(preparation, sample, input_shape, where)
    if sample.dtype == np.uint8 and preparation is not None:
        sample = apply(preparation, sample, where, input_shape)
    check_input(sample, input_shape, where)
    return sample
