"""Run one of quantkit's modules as a program in an isolated interpreter.

    python -I isolated_start.py PATH MODULE ARGUMENT...

PATH is a JSON list of folders to search for packages after the interpreter's own. This file needs only the standard
library.
"""

from __future__ import annotations

import importlib.util
import json
import runpy
import sys
from pathlib import Path


def main(path: str, module: str, *arguments: str) -> None:
    """Extend the search path by ``path``, load the quantkit that this file belongs to, and run ``module``."""
    sys.path.extend(folder for folder in json.loads(path) if folder not in sys.path)
    _load_package("quantkit", Path(__file__).resolve().parents[2])
    sys.argv[1:] = arguments
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _load_package(name: str, folder: Path) -> None:
    """Import a package from its folder, whatever else on the path has its name."""
    spec = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"{folder} is not a package")
    sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])


if __name__ == "__main__":
    main(*sys.argv[1:])
