"""Real numbers on their way through 8-bit integers and back, as the INT8 network has them."""

from __future__ import annotations

from dataclasses import replace
from typing import Optional

import numpy as np

from quantkit.quantization.arithmetic import LIMITS, QuantParams
from quantkit.quantization.plan import TensorQuantization
from quantkit.quantization.threads import in_threads

_HIGHEST_SIGNED = 127


def rounded(values: np.ndarray, form: TensorQuantization, out: Optional[np.ndarray] = None) -> np.ndarray:
    """The values after their way through integers of ``form``, float32; ``out`` may be ``values``."""
    return through(values, form.params, LIMITS[form.dtype], out)


def rounded_sum(
    values: np.ndarray, form: TensorQuantization, addend: TensorQuantization, out: Optional[np.ndarray] = None
) -> np.ndarray:
    """The result of a convolution that adds ``addend`` in place; see ``lowering.mxnet_int8``."""
    if (form.dtype, addend.dtype) != ("uint8", "int8"):
        return rounded(values, form, out)
    coarse = replace(form.params, scale=2 * form.params.scale)
    return through(values, coarse, (0, _HIGHEST_SIGNED), out)


def through(
    values: np.ndarray, params: QuantParams, limits: tuple[int, int], out: Optional[np.ndarray] = None
) -> np.ndarray:
    """The values as multiples of the scale, float32: what ``dequantize`` makes of what ``quantize`` makes of them.

    Args:
        values: float32, (images, ...).
        params: scale and zero point.
        limits: the smallest and the largest integer.
        out: where the result goes, float32; it may be ``values``.
    """
    result = np.empty(values.shape, np.float32) if out is None else out
    scale = np.float32(params.scale)
    low, high = (np.float32(limit - params.zero_point) for limit in limits)

    def image(number: int) -> None:
        here = slice(number, number + 1)
        one = result[here]
        np.divide(values[here], scale, out=one)
        np.rint(one, out=one)
        np.maximum(one, low, out=one)
        np.minimum(one, high, out=one)
        np.multiply(one, scale, out=one)

    in_threads(image, len(values))
    return result
