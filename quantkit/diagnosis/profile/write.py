"""Writing a trace."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quantkit.errors import QuantkitError
from quantkit.files.files import writing


def write_trace(trace: Mapping[str, Any], path: Path) -> None:
    """Write what ``chrome_trace`` makes to a file, complete or not at all; its folder is made where there is none.

    Raises:
        QuantkitError: the disk is full, or the place cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise QuantkitError(f"cannot make {path.parent}: {error.strerror}; choose another folder") from error
    with writing(path) as file:
        file.write(json.dumps(trace, ensure_ascii=False).encode())
