"""Results on disk.

A run is a folder: ``run.json`` describes the host, the builds and the plan, ``cells/`` holds one file for
each cell, written whole as soon as the cell is measured. Folders and names of the host and its user are replaced by
the placeholders of ``quantkit/host/placeholders.py``.
"""

from __future__ import annotations

import dataclasses
import json
import re
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, Union

from quantkit.backends.registry import DEPLOYED
from quantkit.benchmark.results.results import DISCARDED, FORMAT, Cell, Results, Round, Run
from quantkit.benchmark.variants import VARIANTS
from quantkit.errors import UserError
from quantkit.files import files
from quantkit.files.contained import file_in
from quantkit.files.schema import first_fault
from quantkit.files.text import MEBIBYTE, read_bytes
from quantkit.host.placeholders import recorded

RUN = "run.json"
CELLS = "cells"

_LARGEST_FILE = 256 * MEBIBYTE

# More than a century of nanoseconds; the difference of two such times fits into 64 bits.
_TIME_END = 1 << 62

# Fields without placeholders: names that other parts refer to, values that users do not choose, and numbers.
_KEPT = frozenset(
    [
        *("name", "title", "network", "networks", "batches", "contestant", "contestants", "baseline", "scenario"),
        *("published", "state", "host", "features", "revision", "checkpoint"),
        *("placements", "proofs", "warm_up", "rounds"),
    ]
)

Recorded = TypeVar("Recorded", Run, Cell)


def write_run(run: Run, folder: Path) -> None:
    """Write the run's description into its folder."""
    _write(run, folder / RUN)


def write_cell(cell: Cell, folder: Path) -> None:
    """Write one cell into the run's folder."""
    _write(cell, folder / CELLS / cell_file(cell.network, cell.batch, cell.contestant.name))


def remove_cell(cell: Cell, folder: Path) -> None:
    """Remove a cell from the run's folder."""
    (folder / CELLS / cell_file(cell.network, cell.batch, cell.contestant.name)).unlink(missing_ok=True)


def cell_file(network: str, batch: int, contestant: str) -> str:
    """The name of a cell's file."""
    return re.sub(r"[^\w.+-]+", "_", f"{network}-b{batch}-{contestant}") + ".json"


def read_results(folder: Union[str, Path]) -> Results:
    """Read a run and its cells from the folder that ``run_benchmark`` or ``quantkit benchmark`` has written.

    Raises:
        UserError: the folder holds no run, one of another format, or a damaged file.
    """
    folder = Path(folder)
    if not (folder / RUN).is_file():
        raise UserError(f"{folder} holds no benchmark results ({RUN} is missing); `quantkit benchmark` makes them")
    run = read_run(folder)
    if run.state == DISCARDED:
        raise UserError(f"the results in {folder} were discarded with --force; `quantkit benchmark` makes new ones")
    return Results(run, read_cells(folder))


def read_cells(folder: Path) -> tuple[Cell, ...]:
    """Read the cells of a run; empty if it has none yet.

    Raises:
        UserError: one is damaged.
    """
    return tuple(_read_cell(folder, path.name) for path in sorted((folder / CELLS).glob("*.json")))


def read_run(folder: Path) -> Run:
    """Read a run's description.

    Raises:
        UserError: it is damaged or of another format.
    """
    run: Run = _read(Run, folder, RUN)
    if run.format != FORMAT:
        raise UserError(
            f"{folder / RUN} has format {run.format}, this quantkit reads {FORMAT}; measure again with this version"
        )
    unknown = {build.engine for build in run.builds} - DEPLOYED.keys()
    unknown |= {contestant.variant for contestant in run.contestants} - VARIANTS.keys()
    if unknown:
        raise UserError(
            f"{folder / RUN} tells of {min(unknown)!r}, no engine or variant that this quantkit knows; "
            "measure again with this version"
        )
    return run


def _read_cell(folder: Path, name: str) -> Cell:
    path = folder / CELLS / name
    cell: Cell = _read(Cell, folder, f"{CELLS}/{name}")
    for key, kind in (("settings", dict), ("libraries", list)):
        if not isinstance(cell.engine.get(key), (kind, type(None))):
            raise UserError(f"{path} is damaged: engine.{key} is no {kind.__name__}; remove it and measure again")
    for number, turn in enumerate(cell.rounds):
        if problem := _problem(turn, len(cell.placements)):
            raise UserError(f"{path} is damaged: rounds.{number}: {problem}; remove it and measure again")
    return cell


def _problem(turn: Round, instances: int) -> str:
    """Why a round is impossible; empty if it is possible."""
    if not instances:
        return "it has no instances"
    if len(turn.instances) != instances:
        return f"it has {len(turn.instances)} instances instead of {instances}"
    for ticks in turn.instances:
        if not ticks.starts or len(ticks.starts) != len(ticks.ends):
            return f"an instance has {len(ticks.starts)} starts and {len(ticks.ends)} ends"
        if any(end <= start for start, end in zip(ticks.starts, ticks.ends)):
            return "a request ends before it starts"
        if max(map(abs, (*ticks.starts, *ticks.ends))) >= _TIME_END:
            return "a time is more than 62 bits of nanoseconds"
    begin, end = turn.window
    if begin >= end:
        return "its instances have no time in common"
    return ""


def as_recorded(value: Recorded) -> Recorded:
    """A run or a cell as it is on disk: with placeholders in place of folders and names."""
    public: Recorded = recorded(value, _KEPT)
    return public


def _write(value: Recorded, path: Path) -> None:
    text = json.dumps(dataclasses.asdict(as_recorded(value)), separators=(",", ":"), allow_nan=False)
    with files.writing(path) as file:
        file.write(text.encode() + b"\n")


def _read(kind: Any, folder: Path, name: str) -> Any:
    from pydantic import ValidationError

    path = folder / name
    try:
        content = read_bytes(file_in(folder, name), _LARGEST_FILE)
        # Runs from when MXNet was the only engine name a build's version after it.
        content = re.sub(rb'"mxnet":(?="[^"]*","library":)', b'"version":', content)
        return _schema(kind).validate_json(content)
    except ValidationError as error:
        where, what = first_fault(error)
        raise UserError(f"{path} is damaged: {where or 'the file'}: {what}; remove it and measure again") from error
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error


@cache
def _schema(kind: Any) -> Any:
    """The schema of a file, cached since it takes longer to make than to use."""
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
