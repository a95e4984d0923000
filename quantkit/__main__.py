"""The command line, as ``quantkit`` and as ``python -m quantkit``."""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn

from quantkit.host.current_folder import searching_elsewhere, without_current_folder


def main() -> NoReturn:
    """Run the command line; what it imports and starts from here on does not come from the current folder."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Until the command line takes care of it, Ctrl-C ends the process without a traceback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.path[:] = without_current_folder(sys.path)
    for name in os.environ.keys() - (kept := searching_elsewhere(os.environ)).keys():
        del os.environ[name]
    os.environ.update(kept)
    from quantkit.cli.main import main as command_line

    command_line()


if __name__ == "__main__":
    main()
