"""Turning off the engines' telemetry: nothing that quantkit starts sends any.

OpenVINO, when imported, and NNCF send events with the package openvino-telemetry, from threads and a forked process,
and keep an identifier under ``~/intel``. ONNX Runtime has a sender in its library (its Privacy.md), with an identifier
under ``~/.cache/Microsoft``. The other packages that quantkit uses have no telemetry.
"""

from __future__ import annotations

import os
import sys


def turn_off() -> None:
    """Turn off the engines' telemetry in this process and those that it starts; call it before their import.

    The benchmark's worker and its ``peers.py``, which run without quantkit, do the same.
    """
    # ONNX Runtime reads this once, when it is loaded; its API comes after the first event.
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    # Its importers have stubs for a missing package. There is no variable that turns off this telemetry alone.
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
