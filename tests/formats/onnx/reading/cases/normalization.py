"""Normalizations."""

from __future__ import annotations

from typing import Any

from tests.formats.onnx.reading.cases.build import Build, one
from tests.formats.onnx.reading.files import Writer


def channels(op: str, count: int, **attributes: Any) -> Build:
    """An operator with ``count`` parameters for each channel, positive ones."""
    return lambda w: w.op(op, "x", *(w.random.uniform(0.5, 1.5, 6) for _ in range(count)), **attributes)


def layer_norm(axis: int, shape: tuple[int, ...], bias: bool = True) -> Build:
    def build(w: Writer) -> str:
        return w.op("LayerNormalization", "x", *(w.normal(*shape) for _ in range(1 + bias)), axis=axis)

    return build


CASES: dict[str, Build] = {
    "batch norm": channels("BatchNormalization", 4, epsilon=0.01),
    "batch norm of features": lambda w: w.op(
        "BatchNormalization", w.op("Flatten", w.op("GlobalMaxPool", "x")), *(w.random.uniform(1, 2, 6) for _ in "1234")
    ),
    "instance norm": channels("InstanceNormalization", 2, epsilon=0.01),
    "layer norm": layer_norm(-1, (14,)),
    "layer norm of images": layer_norm(1, (6, 9, 14), bias=False),
    "norm of channels": one("LpNormalization", axis=1, p=2),
    "norm of order 1": one("LpNormalization", p=1),
    "norm of zeros": lambda w: w.op("LpNormalization", w.op("Mul", "x", 0.0), axis=1),
    "local response": one("LRN", size=5, alpha=0.3, beta=0.6, bias=1.5),
}  # fmt: skip

OTHER_OPSETS: dict[str, tuple[int, Build]] = {
    "batch norm 7": (7, channels("BatchNormalization", 4, epsilon=0.01)),
    "group norm of channels": (21, lambda w: w.op("GroupNormalization", "x", w.normal(6), w.normal(6), num_groups=2)),
}  # fmt: skip
