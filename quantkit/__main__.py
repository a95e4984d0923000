"""The command line, as ``quantkit`` and as ``python -m quantkit``."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from quantkit.current_folder import searching_elsewhere, without_current_folder


def main() -> NoReturn:
    """Run the command line; what it imports and starts from here on does not come from the current folder."""
    sys.path[:] = without_current_folder(sys.path)
    for name in os.environ.keys() - (kept := searching_elsewhere(os.environ)).keys():
        del os.environ[name]
    os.environ.update(kept)
    from quantkit.cli.main import main as command_line

    command_line()


if __name__ == "__main__":
    main()
