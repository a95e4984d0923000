"""The door to matplotlib, which would take its settings from the current folder."""

from __future__ import annotations

import os
import sys
from types import ModuleType

from quantkit.extras import using


def load_matplotlib() -> ModuleType:
    """Import matplotlib without a ``matplotlibrc`` of the current folder, where results of strangers may lie.

    It says which code draws and which programs are run. matplotlib looks for it in the current folder first, whatever
    the variables say, so that the folder is left for the import; it was read already where matplotlib is in use.
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
