"""Separate Python processes for work with the engine."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from quantkit.host.current_folder import searching_elsewhere, without_current_folder
from quantkit.host.dependent import dependent

_START = Path(__file__).with_name("isolated_start.py")


def module_command(module: str, *arguments: str) -> list[str]:
    """The command that runs one of quantkit's modules as a program in an isolated interpreter.

    The program takes no code from the current folder or from PYTHONPATH, but finds every package that this process
    finds, and the same quantkit. It ends with this process.
    """
    path = without_current_folder(sys.path)
    return dependent([sys.executable, "-I", str(_START), json.dumps(path), module, *arguments])


def environment(**settings: str) -> dict[str, str]:
    """This process's environment with ``settings``, and without the current folder in its search paths."""
    return {**searching_elsewhere(os.environ), **settings}
