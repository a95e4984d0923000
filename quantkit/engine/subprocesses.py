"""The environment of Python processes that do engine work apart from this one."""

from __future__ import annotations

import os
from pathlib import Path


def environment(**settings: str) -> dict[str, str]:
    """This process's environment with ``settings``, in which the same quantkit can be imported."""
    path = [str(Path(__file__).resolve().parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, **settings, "PYTHONPATH": os.pathsep.join(path)}
