"""CalibrationTable: the ranges that calibration measured, and the file that stores them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Union

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from quantkit.calibration.ranges import Range
from quantkit.errors import UserError
from quantkit.files.files import writing
from quantkit.files.schema import FirstFaultOnly, first_fault
from quantkit.files.text import MEBIBYTE, read_json
from quantkit.kinds import of_kind

_VERSION: Final = 1
_LARGEST_FILE: Final = 32 * MEBIBYTE


@dataclass(frozen=True)
class CalibrationTable:
    """The range of each tensor, by its name in the network, and how the ranges were measured.

    ``method`` is the calibration method as given, ``samples`` the number of samples, and ``data_name``
    where they came from. ``graph_sha256`` is the hash of the calibrated network (structure and weights)
    and ``data_sha256`` that of the samples as the network read them, both in hexadecimal. ``left_out`` is the
    number of samples that could not be read or used and are not among ``samples``.
    """

    method: str
    samples: int
    data_name: str
    ranges: Mapping[str, Range]
    graph_sha256: str
    data_sha256: str
    left_out: int = 0


_LARGEST = float(np.finfo(np.float32).max)
_Bound = Annotated[FiniteFloat, Field(ge=-_LARGEST, le=_LARGEST)]
_Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class _File(BaseModel):
    """The schema of a table's file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    format: Literal["quantkit-calibration-table"] = "quantkit-calibration-table"
    version: Literal[1] = _VERSION
    method: Annotated[str, Field(min_length=1)]
    samples: Annotated[int, Field(ge=1)]
    data_name: str
    data_sha256: _Sha256
    graph_sha256: _Sha256
    ranges: Annotated[dict[str, Annotated[list[_Bound], Field(min_length=2, max_length=2)]], FirstFaultOnly()]
    left_out: Annotated[int, Field(ge=0)] = 0


def write_table(table: CalibrationTable, path: Union[str, Path]) -> None:
    """Write ``table`` as JSON: the same bytes for the same table, every range to the last bit.

    Raises:
        UserError: it is no table, or holds something that ``read_table`` would reject.
        QuantkitError: the file cannot be written.
    """
    of_kind("table", table, CalibrationTable, "which calibrate() returns")
    path = Path(path)
    fields = {name: getattr(table, name) for name in CalibrationTable.__dataclass_fields__}
    fields["ranges"] = {name: [float(bounds.low), float(bounds.high)] for name, bounds in table.ranges.items()}
    file = _checked(fields, path)
    nothing = set() if file.left_out else {"left_out"}
    text = json.dumps(file.model_dump(exclude=nothing), sort_keys=True, indent=1, ensure_ascii=False)
    with writing(path) as stream:
        stream.write(text.encode() + b"\n")


def read_table(path: Union[str, Path]) -> CalibrationTable:
    """Read a table that ``write_table`` wrote to ``path``.

    Raises:
        UserError: the file cannot be read, has another version, or holds no valid table.
    """
    path = Path(path)
    try:
        content = read_json(path, _LARGEST_FILE)
    except OSError as error:
        raise UserError(f"cannot read calibration table {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise _invalid(path, f"is not valid JSON ({error})") from error
    if not isinstance(content, dict):
        raise _invalid(path, "is not a JSON object")
    if content.get("version") != _VERSION and "version" in content:
        raise _invalid(path, f"has version {content['version']!r}, but this quantkit reads version {_VERSION}")
    for key in ("format", "version"):
        if key not in content:
            raise _invalid(path, f"has no {key!r}")
    file = _checked(content, path)
    try:
        ranges = {name: Range(low, high) for name, (low, high) in file.ranges.items()}
    except UserError as error:
        raise _invalid(path, f"holds an impossible range: {error}") from error
    return CalibrationTable(
        file.method, file.samples, file.data_name, ranges, file.graph_sha256, file.data_sha256, file.left_out
    )


def _checked(content: Mapping[str, Any], path: Path) -> _File:
    """Check ``content`` against the schema."""
    try:
        return _File.model_validate(content)
    except ValidationError as error:
        where, what = first_fault(error)
        raise _invalid(path, f"is not valid at {where!r}: {what}") from error


def _invalid(path: Path, reason: str) -> UserError:
    return UserError(f"calibration table {path} {reason}; calibrate again or give another table")
