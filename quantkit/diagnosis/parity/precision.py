"""Checking which layers of an ONNX file an engine computes in integers, and which it leaves in FP32."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from quantkit.backends.base import ExecutedLayer
from quantkit.diagnosis.parity.onnx_file import OnnxFile


@dataclass(frozen=True)
class PrecisionParity:
    """How convolutions and dense layers ran.

    ``kernels`` counts the kernels that computed in integers, by the engine's names. ``left`` are the layers that ran in
    FP32 but should not have, by their names in the file; ``planned`` are those that the plan leaves in FP32.
    """

    kernels: Mapping[str, int]
    left: tuple[str, ...]
    planned: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether only layers that the plan leaves in FP32 ran in FP32."""
        return not self.left


def precision_parity(file: OnnxFile, executed: Iterable[ExecutedLayer]) -> PrecisionParity:
    """Compare the precision in which an engine ran each layer with the precision in the file."""
    in_integers = [layer for layer in executed if layer.precision == "int8"]
    names = frozenset(name for layer in in_integers for name in layer.names)
    wanted = {
        precision: [name for name, each in file.layers.items() if each == precision] for precision in ("int8", "fp32")
    }
    return PrecisionParity(
        dict(Counter(layer.kernel for layer in in_integers).most_common()),
        tuple(name for name in wanted["int8"] if names.isdisjoint({name, *file.reshaped(name)})),
        tuple(wanted["fp32"]),
    )
