"""Writing a trace."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quantkit.errors import QuantkitError
from quantkit.files.files import writing


def write_trace(trace: Mapping[str, Any], path: Path) -> None:
    """Write a trace of ``chrome_trace`` to a file, completely or not at all; make its folder if there is none.

    Raises:
        QuantkitError: the disk is full, or the place cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise QuantkitError(f"cannot make {path.parent}: {error.strerror}; choose another folder") from error
    with writing(path) as file:
        file.write(json.dumps(trace, ensure_ascii=False).encode())
