"""Operators as ONNX files have them, one by one: the networks that the tests of writing them look at."""

from __future__ import annotations

from tests.lowering.operators import arithmetic, layers, selection, shapes
from tests.lowering.operators.build import Build

CASES: dict[str, Build] = {**layers.CASES, **arithmetic.CASES, **shapes.CASES, **selection.CASES}
