"""The environment of Python processes that tests start."""

from __future__ import annotations

import os
from pathlib import Path


def environment(**settings: str) -> dict[str, str]:
    """This process's environment with ``settings``, in which the same quantkit can be imported."""
    path = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, **settings, "PYTHONPATH": os.pathsep.join(path)}
