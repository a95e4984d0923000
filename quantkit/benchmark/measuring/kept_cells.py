"""What an interrupted run leaves for the one that goes on with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Optional

from quantkit.benchmark.measuring.group import empty_cell
from quantkit.benchmark.measuring.team import Launch
from quantkit.benchmark.results.result_files import as_recorded, read_cells, remove_cell
from quantkit.benchmark.results.results import Cell
from quantkit.benchmark.suites.suite import Suite, batches_of
from quantkit.benchmark.variants import form_of
from quantkit.benchmark.workloads.network import Workload
from quantkit.errors import UserError

# The fields that two measurements of one cell must have in common.
_CONDITIONS = ("scenario", "placements", "environment", "checkpoint", "input")


def kept_cells(
    suite: Suite,
    workloads: Mapping[str, Workload],
    launches: Mapping[str, Sequence[Launch]],
    latency_bound: Optional[float],
    folder: Path,
) -> list[Cell]:
    """The cells of an interrupted run that count for this one, without failed ones, which are measured again.

    Raises:
        UserError: one is not part of the suite, or would be measured differently now.
    """
    cells = read_cells(folder)
    for cell in cells:
        differ = _differences(cell, suite, workloads, launches)
        if cell.server is not None and cell.server.bound != latency_bound:
            differ.append("latency bound")
        if differ:
            raise UserError(
                f"{folder} holds another run ({cell.network}, batch {cell.batch}, {cell.contestant.name}: its "
                f"{' and '.join(differ)} differ); choose another folder with --out, or discard it with --force"
            )
    for cell in cells:
        if cell.failure is not None:
            remove_cell(cell, folder)
    return [cell for cell in cells if cell.failure is None]


def _differences(
    cell: Cell, suite: Suite, workloads: Mapping[str, Workload], launches: Mapping[str, Sequence[Launch]]
) -> list[str]:
    """What sets a cell apart from the one that the suite would measure now, in words."""
    network = next((each for each in suite.networks if each.name == cell.network), None)
    if network is None or cell.contestant not in suite.contestants:
        return ["suite"]
    if cell.batch not in (*batches_of(suite, network), *suite.largest):
        return ["suite"]
    launch, workload = launches[cell.contestant.name], workloads[network.name]
    if form_of(launch[0].engine, cell.contestant.variant) in workload.obstacles:
        return ["checkpoint"]
    scenario = network.scenario or suite.scenario
    now = as_recorded(empty_cell(workload, scenario, cell.contestant, cell.batch, launch))
    return [name for name in _CONDITIONS if getattr(cell, name) != getattr(now, name)]
