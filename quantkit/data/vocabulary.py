"""Token ids: what networks read that begin with an embedding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from quantkit.data.preprocess import check_shape
from quantkit.errors import DataError, SampleError

# float32, in which MXNet takes ids, holds every whole number up to here.
_EXACT = 1 << 24


@dataclass(frozen=True)
class Vocabulary:
    """The token ids that a network reads: from 0 up to below ``size``, the number of rows of the embedding ``node``."""

    node: str
    size: int


def token_input(
    vocabulary: Vocabulary, ids: np.ndarray[Any, Any], input_shape: Sequence[int], where: str
) -> np.ndarray[Any, Any]:
    """Token ids as MXNet takes them, float32 of ``input_shape``; ``where`` names the sequence in errors.

    Raises:
        SampleError: the ids are no whole numbers, have another shape, or one is not in the vocabulary.
        DataError: they are of a type that holds no ids.
    """
    if ids.dtype not in (np.int32, np.int64, np.float32):
        no_images = ": no images" if ids.dtype == np.uint8 else ""
        raise DataError(
            f"{where} is {ids.dtype} of shape {ids.shape}, but the network reads token ids of shape "
            f"{tuple(input_shape)}{no_images}; give int32 or int64 arrays (.npz, .npy)"
        )
    check_shape(ids.shape, input_shape, where)
    if ids.dtype == np.float32 and not (np.isfinite(ids).all() and (ids == np.floor(ids)).all()):
        raise SampleError(f"{where} holds numbers that are not whole; give token ids as int32 or int64", where)
    outside = (ids < 0) | (ids >= min(vocabulary.size, _EXACT))
    if outside.any():
        place = tuple(int(axis) for axis in np.argwhere(outside)[0])
        raise SampleError(
            f"{where} has the token id {int(ids[place])} at step {place[-1]}, but the vocabulary of node "
            f"{vocabulary.node!r} (Embedding) has {vocabulary.size} tokens (0 to {vocabulary.size - 1}); give the "
            "id of an unknown token instead, or the vocabulary that the network was trained with",
            where,
        )
    return ids.astype(np.float32, copy=False)
