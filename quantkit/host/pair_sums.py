"""What processors without VNNI add in 16 bits: the products of two neighbours.

Processors with AVX2 or AVX-512 but no VNNI multiply unsigned by signed bytes and add the products of two neighbours in
16 bits, with saturation (``vpmaddubsw``, Intel 64 Software Developer's Manual). Neighbours are the inputs 2i and
2i + 1 of a row; where the number of inputs is odd, kernels pad rows with a zero.
"""

from __future__ import annotations

import numpy as np

LARGEST_PAIR = 128
"""Inputs of 255 times weights that sum up to this fit in 16 bits."""


def padded_to_pairs(rows: np.ndarray) -> np.ndarray:
    """Rows of weights (channels, inputs), with a column of zeros at the end where the number of inputs is odd."""
    return np.pad(rows, ((0, 0), (0, rows.shape[1] % 2)))


def may_overflow(rows: np.ndarray) -> bool:
    """Whether two products of neighbours may leave 16 bits for some inputs from 0 to 255.

    Args:
        rows: int8, (channels, inputs).
    """
    padded = padded_to_pairs(rows).astype(np.int32)
    return bool((np.abs(padded[:, ::2] + padded[:, 1::2]) > LARGEST_PAIR).any())
