"""The record of how a network was trained with its quantization, a JSON file of a bundle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quantkit.errors import DataError
from quantkit.files.text import MEBIBYTE, read_json

_LARGEST = 64 * MEBIBYTE


def training_record_text(record: Mapping[str, Any]) -> str:
    """The content of the file."""
    return json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def read_training_record(path: Path) -> Mapping[str, Any]:
    """Read the file.

    Raises:
        DataError: it cannot be read, or holds something else.
    """
    try:
        record = read_json(path, _LARGEST)
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read {path}: {error}") from error
    if not isinstance(record, dict):
        raise DataError(f"cannot read {path}: it is no JSON object")
    return record
