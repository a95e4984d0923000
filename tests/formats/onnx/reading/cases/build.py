"""How the networks are built whose operators are tried."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.formats.onnx.reading.files import Writer

Build = Callable[[Writer], str]
"""Adds operators to a network with the input ``x`` of shape (N, 6, 9, 14); returns the name of the result."""


def one(op: str, *more: Any, **attributes: Any) -> Build:
    """One operator of the input and constants."""
    return lambda w: w.op(op, "x", *more, **attributes)


def positive(op: str, *more: Any, **attributes: Any) -> Build:
    """One operator of a tensor without negative values."""
    return lambda w: w.op(op, w.op("Exp", "x"), *more, **attributes)


def typed(kind: int, build: Build) -> Build:
    """A network whose result is of another type than float32."""

    def built(w: Writer) -> str:
        w.kind = kind
        return build(w)

    return built
