"""The command line, as ``quantkit`` and as ``python -m quantkit``."""

from __future__ import annotations

import sys
from typing import NoReturn

from quantkit.import_path import without_current_folder


def main() -> NoReturn:
    """Run the command line; what it imports from here on does not come from the current folder."""
    sys.path[:] = without_current_folder(sys.path)
    from quantkit.cli.main import main as command_line

    command_line()


if __name__ == "__main__":
    main()
