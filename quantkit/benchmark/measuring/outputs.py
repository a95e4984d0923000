"""Comparing the outputs of two builds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Optional

import numpy as np

from quantkit.formats.npz import read_npz
from quantkit.host.cpu import read_cpu
from quantkit.tasks.detection import Detection, detection_form

# FP32 kernels sum in different orders; a larger difference means a different computation.
FLOAT_ALLOWED = 1e-3

# Another engine may round a few activations to the neighbouring integer: one step of an 8-bit output.
INT8_ALLOWED = 1 / 127

# Rounding decides which of two boxes comes first, and whether one at a bound is among those put out.
DETECTIONS_ALLOWED = 0.05


def deviation(reference: Path, outputs: Path) -> float:
    """The largest difference over all outputs, relative to the largest value of each.

    Detections are lists of boxes, and their order does not count: their difference is that of the image where they
    differ most, from 0 to 1, see ``tasks.detections.difference``. It is infinite if outputs do not fit, if there is
    nothing to compare, or if a value is not finite.

    Args:
        reference: an .npz file with the outputs in order.
        outputs: an .npz file with the outputs to compare.
    """
    expected, computed = tuple(read_npz(reference).values()), tuple(read_npz(outputs).values())
    if not expected or len(expected) != len(computed):
        return float("inf")
    if not all(_comparable(one, two) for one, two in zip(expected, computed)):
        return float("inf")
    if _are_detections(expected):
        # Boxes are compared as they are; neither the size of the input nor the number of classes matters.
        task = Detection("suppressed", (1, 1), (), None)
        pairs = zip(task.decode(expected), task.decode(computed))
        return max(task.difference(one, two) for one, two in pairs)
    return max(_relative(one, two) for one, two in zip(expected, computed))


def allowed_for(outputs: Path, usual: float) -> float:
    """The deviation allowed from outputs in an .npz file: the ``usual`` one, or more if they are detections."""
    return DETECTIONS_ALLOWED if _are_detections(tuple(read_npz(outputs).values())) else usual


def int8_allowed(float32: Path, int8: Path) -> float:
    """The allowed deviation of another engine from MXNet for an INT8 network, given the outputs of FP32 and of MXNet.

    Other engines multiply the same integers, but add, average and round elsewhere. They must come as near to FP32 as
    MXNet does, within one step of 8 bits; by the triangle inequality they are then no further from MXNet than this.
    It is infinite if the two cannot be compared.
    """
    return 2 * deviation(float32, int8) + allowed_for(int8, INT8_ALLOWED)


def too_far(found: float, name: str, allowed: Optional[float], *, int8: bool) -> str:
    """What to say of outputs of an INT8 or FP32 network that are too far from those of ``name``."""
    limit = "" if allowed is None else f", {allowed:.2g} is allowed"
    cpu = read_cpu()
    reason = ""
    if int8 and np.isfinite(found) and cpu.isa and not cpu.has_vnni:
        reason = "; this processor has no VNNI, so sums may saturate in 16 bits, in each engine differently"
    return f"its outputs deviate from those of {name} by {found:.2g} of the largest{limit}{reason}"


def _are_detections(outputs: Sequence[np.ndarray]) -> bool:
    return all(each.ndim for each in outputs) and detection_form([each.shape[1:] for each in outputs]) == "suppressed"


def _comparable(expected: np.ndarray, computed: np.ndarray) -> bool:
    if expected.shape != computed.shape or not expected.size:
        return False
    return bool((np.isfinite(expected) & np.isfinite(computed)).all())


def _relative(expected: np.ndarray, computed: np.ndarray) -> float:
    difference, largest = np.abs(expected - computed).max(), np.abs(expected).max()
    if difference == 0:
        return 0.0
    return float(difference / largest) if largest else float("inf")
