"""Rows of networks of the zoo, and the page of them."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from quantkit.diagnosis.coverage import Coverage, Left

COVERED = Coverage(1000, 10, 9, 400, 390, (Left("no kernel", 1, 10),))
REVISION = {"version": "0.1.0", "commit": "0123456789abcdef", "dirty": False}


def quantized(**changes: Any) -> dict[str, Any]:
    from zoo_rows import InEngine, Row

    engines = {"onnxruntime": InEngine(0.99991, 9), "openvino": InEngine(problem="EngineError: a | b")}
    row = Row("net", "pose", "3x8x8", "exported", "", 2e-7, 0.9876, COVERED, engines, 61.4, 12.0, 3.21)
    return asdict(replace(row, **{"minutes": 15.0, "host": {"cpu": "y"}, "revision": REVISION, **changes}))


def refused(**changes: Any) -> dict[str, Any]:
    """A network that cannot be loaded."""
    return quantized(reached="nothing", coverage=None, engines={}, **{"problem": "ModelError: a\n| b", **changes})


def stands(name: str, quantized_as: str) -> dict[str, Any]:
    """One of GluonCV's own INT8 networks."""
    from zoo_rows import Row

    return asdict(Row(name, "pose", "3x8x8", quantized_as=quantized_as))


def lines(*rows: dict[str, Any]) -> list[str]:
    from zoo_page import page

    return page({"command": "python x", "host": {"cpu": "z"}, "rows": rows}).splitlines()
