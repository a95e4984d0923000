"""Python processes that do engine work apart from this one."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from quantkit.host.current_folder import searching_elsewhere, without_current_folder
from quantkit.host.dependent import dependent

_START = Path(__file__).with_name("isolated_start.py")


def module_command(module: str, *arguments: str) -> list[str]:
    """The command that runs one of quantkit's modules as a program, in an interpreter that is isolated.

    It takes code neither from the current folder nor from where PYTHONPATH says, but finds every package that this
    process finds, and the same quantkit. It ends with this process.
    """
    path = without_current_folder(sys.path)
    return dependent([sys.executable, "-I", str(_START), json.dumps(path), module, *arguments])


def environment(**settings: str) -> dict[str, str]:
    """This process's environment with ``settings``, in which no library is taken from the current folder."""
    return {**searching_elsewhere(os.environ), **settings}
