"""Programs that end when the process that starts them does, however that ends: no handler sees SIGKILL.

    python -I -S dependent.py PARENT PROGRAM ARGUMENT...

asks the kernel to end this process with its parent, then executes the program: see prctl(2), PR_SET_PDEATHSIG,
which persists across execve(2). Processes that the program starts are not covered. This file needs the standard
library alone.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1
_CANNOT_BE_STARTED = 127


def dependent(command: Sequence[str]) -> list[str]:
    """The command that runs a program that ends with this process, or with the thread that starts it.

    If the program cannot be started, the command says so on standard error and ends with exit code 127.
    """
    return [sys.executable, "-I", "-S", os.path.abspath(__file__), str(os.getpid()), *command]


def main(parent: str, program: str, *arguments: str) -> None:
    """Become the program, unless the parent has ended already."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):
        sys.exit(1)
    try:
        os.execvp(program, (program, *arguments))
    except OSError as error:
        print(f"{program} cannot be started: {error.strerror}", file=sys.stderr)
        sys.exit(_CANNOT_BE_STARTED)


if __name__ == "__main__":
    main(*sys.argv[1:])
