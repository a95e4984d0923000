"""Comparing the outputs of two builds."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from quantkit.formats.npz import read_npz

# FP32 kernels sum in different orders; a larger difference means a different computation.
FLOAT_ALLOWED = 1e-3

# Another engine may round a few activations to the neighbouring integer: one step of an 8-bit output.
INT8_ALLOWED = 1 / 127


def deviation(reference: Path, outputs: Path) -> float:
    """The largest difference over all outputs, relative to the largest value of each.

    It is infinite if they do not fit, if there is nothing to compare, or if a value is not finite.

    Args:
        reference: an .npz file with the outputs in order.
        outputs: an .npz file with the outputs to compare.
    """
    expected, computed = read_npz(reference).values(), read_npz(outputs).values()
    if not expected or len(expected) != len(computed):
        return float("inf")
    return max(_relative(one, two) for one, two in zip(expected, computed))


def int8_allowed(float32: Path, int8: Path) -> float:
    """The allowed deviation of another engine from MXNet for an INT8 network, given the outputs of FP32 and of MXNet.

    Other engines multiply the same integers, but add, average and round elsewhere. They must come as near to FP32 as
    MXNet does, within one step of 8 bits; by the triangle inequality they are then no further from MXNet than this.
    It is infinite if the two cannot be compared.
    """
    return 2 * deviation(float32, int8) + INT8_ALLOWED


def _relative(expected: np.ndarray, computed: np.ndarray) -> float:
    if (
        expected.shape != computed.shape
        or not expected.size
        or not (np.isfinite(expected) & np.isfinite(computed)).all()
    ):
        return float("inf")
    difference, largest = np.abs(expected - computed).max(), np.abs(expected).max()
    if difference == 0:
        return 0.0
    return float(difference / largest) if largest else float("inf")
