"""The rows of the zoo's networks in OUT.json, into which several runs may write at a time."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from operator import itemgetter
from pathlib import Path
from typing import Any

from command_line import host_facts, write_page, write_results
from zoo_page import page
from zoo_rows import Row

from quantkit.backends.mxnet.zoo import zoo_names
from quantkit.errors import UserError
from quantkit.files.files import locked
from quantkit.models.catalogue import catalogue

# Rows come from several runs. Each names its bounds, its host and its commit.
_COMMAND = "python benchmarks/zoo.py"

Cells = dict[str, Any]
"""A row as JSON has it."""


def file_of(out: Path) -> Path:
    """OUT.json."""
    return out.with_name(f"{out.name}.json")


def known_rows(path: Path) -> dict[str, Cells]:
    """The rows of an earlier run by network; none where there is no file. What a row lacks is as in a blank one.

    Raises:
        UserError: the file holds something else.
    """
    if not path.exists():
        return {}
    try:
        return {row["network"]: asdict(Row(**row)) for row in json.loads(path.read_bytes())["rows"]}
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(f"{path} is no file of zoo.py; give another or remove it") from error


def newest(*runs: Mapping[str, Cells]) -> dict[str, Cells]:
    """Of each network the row that was measured last; of rows of the same time, that of the later run."""
    rows = (row for run in runs for row in run.values())
    return {row["network"]: row for row in sorted(rows, key=itemgetter("measured"))}


@contextmanager
def changing(out: Path) -> Iterator[dict[str, Cells]]:
    """The rows of OUT.json by network, to be changed; then they and their page are written.

    Other processes that change them wait meanwhile.
    """
    with _alone(out):
        rows = known_rows(file_of(out))
        yield rows
        figures = {"names": len(zoo_names()), "rows": _ordered(rows.values())}
        write_results(out, _COMMAND, host_facts(), figures, page)


def mend_page(out: Path) -> None:
    """Write the page of OUT.json, if that is there: a run may have been killed between the two."""
    with _alone(out):
        if file_of(out).exists():
            rows = _ordered(known_rows(file_of(out)).values())
            write_page(out.with_name(f"{out.name}.md"), page({**json.loads(file_of(out).read_bytes()), "rows": rows}))


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    # Not beside OUT.json, which is committed.
    name = hashlib.sha256(bytes(file_of(out).resolve())).hexdigest()
    with locked(Path(tempfile.gettempdir()) / f"quantkit-zoo-{name}.lock", lambda: None):
        yield


def _ordered(rows: Iterable[Cells]) -> list[Cells]:
    """Rows in the order of the catalogue; what it lacks comes last."""
    places = {entry.name: place for place, entry in enumerate(catalogue())}
    return sorted(rows, key=lambda row: places.get(row["network"], len(places)))
