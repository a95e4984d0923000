"""The only place that imports matplotlib, which would read settings from the current folder."""

from __future__ import annotations

import os
import sys
from types import ModuleType

from quantkit.extras import using


def load_matplotlib() -> ModuleType:
    """Import matplotlib without a ``matplotlibrc`` of the current folder, which may hold untrusted results.

    Such a file decides which code draws and which programs run. matplotlib searches the current folder first, whatever
    its variables say, so this function leaves the folder during the import. If matplotlib is already imported, it has
    already read its settings.
    """
    if "matplotlib" not in sys.modules and os.path.exists("matplotlibrc"):
        before = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
        os.chdir(os.path.dirname(__file__))
        try:
            with using("report", "figures"):
                import matplotlib
        finally:
            os.fchdir(before)
            os.close(before)
    with using("report", "figures"):
        import matplotlib

    return matplotlib
