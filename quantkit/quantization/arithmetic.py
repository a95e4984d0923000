"""From a range to a scale, and the quantization it means: the arithmetic of MXNet 1.6 and newer.

MXNet's kernels have no zero point but 0. A range of magnitude m maps to ``q = round(x * levels / m)`` with
levels 255.5 for uint8 and 127.5 for int8, saturated to what the type holds: so the engine's sources
have it (``kUint8Range`` and ``kInt8Range`` in src/operator/quantization/quantization_utils.h).
``affine_params`` alone has others, for networks that are written for other engines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from quantkit.calibration.ranges import Range

DType = Literal["int8", "uint8"]

LEVELS: dict[DType, float] = {"int8": 127.5, "uint8": 255.5}
LIMITS: dict[str, tuple[int, int]] = {"int8": (-128, 127), "uint8": (0, 255)}

SMALLEST_PEAK = 1e-30
"""Where no value is larger, scales, their inverses and products leave the range of float32: such values count as 0."""


@dataclass(frozen=True)
class QuantParams:
    """How real numbers become integers: ``real = scale * (integer - zero_point)``."""

    scale: float
    dtype: DType
    zero_point: int = 0


def activation_params(values: Range, dtype: DType) -> QuantParams:
    """The parameters of a tensor whose values lie in ``values``."""
    return QuantParams(values.largest / LEVELS[dtype], dtype)


def affine_params(values: Range) -> QuantParams:
    """The finest uint8 parameters for a range, with a true zero point; what MXNet's kernels lack.

    The range is widened to hold 0, which is represented exactly, as in ONNX's DynamicQuantizeLinear.
    """
    low, high = min(values.low, 0.0), max(values.high, 0.0)
    scale = (high - low) / 255.0 if high - low > SMALLEST_PEAK else 1.0
    return QuantParams(scale, "uint8", int(np.rint(-low / scale)))


def quantize(array: np.ndarray, params: QuantParams) -> np.ndarray:
    """Real numbers to integers, rounded half to even and saturated."""
    low, high = LIMITS[params.dtype]
    integers: np.ndarray = np.clip(np.rint(array / params.scale) + params.zero_point, low, high).astype(params.dtype)
    return integers


def dequantize(array: np.ndarray, params: QuantParams) -> np.ndarray:
    """Integers back to real numbers, float32."""
    return (array.astype(np.float32) - params.zero_point) * np.float32(params.scale)
