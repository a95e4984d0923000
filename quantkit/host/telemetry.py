"""Keeping engines from reporting to their makers: what quantkit starts sends nothing.

OpenVINO, when imported, and NNCF send events by the package openvino-telemetry, from threads and a forked process, and
keep an identifier under ``~/intel``. ONNX Runtime has a sender in its library (its Privacy.md), whose identifier lies
under ``~/.cache/Microsoft``. The others that quantkit uses have no such thing.
"""

from __future__ import annotations

import os
import sys


def turn_off() -> None:
    """Keep the telemetry of engines off in this process and in those that it starts; call it before their import.

    The benchmark's worker and its ``peers.py``, which run where there is no quantkit, say the same.
    """
    # ONNX Runtime reads it once, when it is loaded; its API would be asked after the first event.
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    # Its importers have a stub of their own for where the package is not installed. No variable turns it off that other
    # programs do not read, too.
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
