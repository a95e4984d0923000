"""How a network quantizes its input, so that who makes the input can do it before."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Optional

import numpy as np

from quantkit.ir.graph import Graph, Tensor
from quantkit.quantization.arithmetic import LEVELS, LIMITS, SMALLEST_PEAK, DType

_QUANTIZE = "_contrib_quantize_v2"
_FORM = ("out_type", "min_calib_range", "max_calib_range")


@dataclass(frozen=True)
class InputQuantizer:
    """What MXNet does with an input: its values times ``factor``, a float32, are rounded and saturated to ``dtype``."""

    factor: float
    dtype: DType

    def quantize(self, values: np.ndarray) -> np.ndarray:
        """The integers of float32 values, to the last one those of MXNet's kernel, which multiplies in float32."""
        scaled = values * np.float32(self.factor)
        np.rint(scaled, out=scaled)
        np.clip(scaled, *LIMITS[self.dtype], out=scaled)
        return scaled.astype(self.dtype)


def input_quantizer(graph: Graph, name: str) -> Optional[InputQuantizer]:
    """How an INT8 symbol quantizes an input; None where something reads its values, or nothing does.

    MXNet's quantize operator hands on integers that it is given, so the network runs from them as it stands.
    """
    readers = graph.consumers.get(Tensor(name), ())
    forms = {tuple(node.attrs.get(each) for each in _FORM) for node in readers if node.op == _QUANTIZE}
    if len(forms) != 1 or Tensor(name) in graph.outputs or any(node.op != _QUANTIZE for node in readers):
        return None
    out_type, *ends = forms.pop()
    dtype: Optional[DType] = next((each for each in LEVELS if each == out_type), None)
    peak = _peak(dtype, *ends)
    return None if dtype is None or peak is None else InputQuantizer(float(np.float32(LEVELS[dtype]) / peak), dtype)


def _peak(dtype: Optional[DType], low: Optional[str], high: Optional[str]) -> Optional[np.float32]:
    """The largest magnitude of a range as quantkit writes it; None for others, which MXNet reads in another way."""
    with suppress(ValueError):
        least, peak = np.float32(low or ""), np.float32(high or "")
        if least == (0 if dtype == "uint8" else -peak) and SMALLEST_PEAK < peak < np.inf:
            return peak
    return None
