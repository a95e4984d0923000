"""The integers of a network's input, so that who makes the input can quantize it before the network would."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

import numpy as np

from quantkit.ir.graph import Graph, Tensor
from quantkit.quantization.arithmetic import LEVELS, LIMITS, DType

_QUANTIZE = "_contrib_quantize_v2"


@dataclass(frozen=True)
class InputIntegers:
    """How MXNet quantizes an input: its values times ``factor``, a float32, rounded and saturated to ``dtype``."""

    factor: float
    dtype: DType

    def of(self, values: np.ndarray) -> np.ndarray:
        """The integers of float32 values, to the last one those of MXNet's kernel."""
        low, high = LIMITS[self.dtype]
        integers: np.ndarray = np.clip(np.rint(values * np.float32(self.factor)), low, high).astype(self.dtype)
        return integers


def input_integers(graph: Graph, name: str) -> Optional[InputIntegers]:
    """The integers that an INT8 symbol makes of an input; None where something reads its values, or nothing does.

    MXNet's quantize operator hands on integers that it is given, so the network runs from them as it stands.
    """
    readers = graph.consumers.get(Tensor(name), ())
    forms = {
        tuple(node.attrs.get(each) for each in ("out_type", "min_calib_range", "max_calib_range")) for node in readers
    }
    if len(forms) != 1 or Tensor(name) in graph.outputs or any(node.op != _QUANTIZE for node in readers):
        return None
    out_type, low, high = forms.pop()
    dtype: Optional[DType] = next((each for each in LEVELS if each == out_type), None)
    if dtype is None or low is None or high is None:
        return None
    peak = max(abs(np.float32(low)), abs(np.float32(high)))
    return InputIntegers(float(np.float32(LEVELS[dtype]) / peak), dtype) if peak > 0 else None
