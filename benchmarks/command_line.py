"""What the suites' scripts have in common on the command line."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Callable

from quantkit.errors import QuantkitError


def data_root() -> Path:
    """The folder of trained weights and images; ends the process with a message where there is none."""
    root = Path(os.environ.get("QUANTKIT_REAL_DATA", "../shared/data"))
    if not root.is_dir():
        sys.exit(f"no trained weights and images at {root}; set QUANTKIT_REAL_DATA")
    return root


def run(main: Callable[[], None]) -> None:
    """Call ``main``; errors become a line and an exit code, Ctrl-C ends with 130."""
    try:
        main()
    except QuantkitError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
