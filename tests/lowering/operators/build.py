"""Networks of one operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quantkit.ir.graph import Tensor
from tests.networks import DATA, Builder

Build = Callable[[Builder], Tensor]

# Channels, height and width of the input, all different.
SHAPE = (6, 9, 14)


def one(op: str, *more: str, **attrs: Any) -> Build:
    """One operator of the input; ``more`` are further inputs: ``exp`` is a positive tensor of the input's shape."""

    def build(b: Builder) -> Tensor:
        positive = b.op("exp", "exp", b.op("_mul_scalar", "half", DATA, scalar=0.5))
        inputs = [positive if name == "exp" else DATA for name in more] if more else [DATA]
        return b.op(op, "one", *inputs, **attrs)

    return build
