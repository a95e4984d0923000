"""``quantkit benchmark --hosts``: a suite on all hosts of a cluster at the same time."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

import click

from quantkit.cli.cluster import OnCluster, client_of
from quantkit.cli.options import given, option
from quantkit.cli.terminal import Terminal

if TYPE_CHECKING:
    from rich.table import Table

    from quantkit.benchmark.measuring.measurement import Conditions
    from quantkit.benchmark.results.results import Results
    from quantkit.benchmark.suites.suite import Suite
    from quantkit.cli.console import RenderableType
    from quantkit.cluster.hosts import HostRun


@dataclass(frozen=True)
class Elsewhere(OnCluster):
    """Where a suite is measured."""

    hosts: Optional[str] = option(
        "--hosts",
        metavar="ADDRESS|FILE",
        help="Measure a SUITE on every host of a Dask cluster at the same time, each alone: a scheduler's address "
        "(tcp://HOST:8786), or its file (.json). Results lie in DIR/HOST.",
    )

    def __post_init__(self) -> None:
        """Refuse options that would have no effect."""
        if self.hosts is None:
            if self.cluster is None and self.tls is not None:
                raise click.UsageError("--tls is about clusters; give --cluster or --hosts")
            super().__post_init__()
            return
        if (name := next((each for each in given(self) if each not in ("--hosts", "--tls")), None)) is not None:
            raise click.UsageError(f"{name} is not for --hosts, where each host measures by itself; leave it out")
        if self.hosts.startswith("local:"):
            raise click.UsageError(f"--hosts {self.hosts} is this host alone; leave --hosts out")


def measure_on_hosts(
    terminal: Terminal, options: Elsewhere, suite: Suite, folder: Path, conditions: Conditions, force: bool
) -> bool:
    """Measure a suite on all hosts, print what was measured, and tell whether all of it was.

    Raises:
        UserError: there is no such cluster, or a folder of results may not be written.
        ClusterError: the cluster does not answer, or its hosts cannot be used.
    """
    from quantkit.cluster.hosts import run_on_hosts

    with client_of(terminal, options.hosts or "", options.tls) as client:
        terminal.stage(f"measuring {suite.name} on every host")
        runs = run_on_hosts(client, suite, folder, conditions, terminal.tell, force)
    terminal.show(_document(runs), *_tables(runs))
    measured = True
    for run in runs:
        if run.results is None:
            terminal.warn(f"{run.host} measured nothing: {run.failure}")
        elif not run.results.cells:
            terminal.warn(f"{run.host} measured nothing; give a larger --budget")
        measured = measured and run.results is not None and is_whole(run.results)
    return measured


def is_whole(results: Results) -> bool:
    """Whether something was measured, and no cell failed."""
    return bool(results.cells) and not any(cell.failure for cell in results.cells)


def _document(runs: Sequence[HostRun]) -> dict[str, Any]:
    from quantkit.benchmark.results.cell_figures import results_document
    from quantkit.cluster.hosts import fleet, together

    return {
        "hosts": [
            {
                "host": run.host,
                "results": str(run.folder),
                "clock_ahead_s": run.clock.ahead,
                "clock_uncertainty_s": run.clock.uncertainty,
                "failure": run.failure,
                **({} if run.results is None else results_document(run.results)),
            }
            for run in runs
        ],
        "fleet": [asdict(row) for row in fleet(runs)],
        "together": together(runs),
    }


def _tables(runs: Sequence[HostRun]) -> Iterator[RenderableType]:
    from quantkit.cluster.hosts import fleet, together
    from quantkit.units import counted, percent

    hosts = _table("Hosts", ("host", "processor", "cores", "minutes", "clock ahead, ms", "results"))
    for run in runs:
        clock = f"{1000 * run.clock.ahead:.1f} ± {1000 * run.clock.uncertainty:.1f}"
        if run.results is None:
            hosts.add_row(run.host, "", "", "", clock, f"failed: {run.failure}")
            continue
        facts = run.results.run.host
        minutes = f"{(run.ended - run.began) / 60:.1f}"
        hosts.add_row(run.host, str(facts["cpu"]), str(facts["usable_cores"]), minutes, clock, str(run.folder))
    yield hosts
    rows = fleet(runs)
    number = rows[0].hosts if rows else 0
    if number > 1:
        title = f"{counted(number, 'host')} together, which measured {percent(together(runs))} of the time at once"
        table = _table(title, ("network", "batch", "contestant", "items/s"))
        for row in rows:
            table.add_row(row.network, str(row.batch), row.contestant, f"{row.throughput:.4g}")
        yield table
    folders = " ".join(shlex.quote(str(run.folder)) for run in runs if run.results is not None)
    if folders:
        across = " --across-hosts" if number > 1 else ""
        yield f"\na page of them: quantkit report {folders}{across} --out report/"


def _table(title: str, columns: Sequence[str]) -> Table:
    from rich.table import Table

    table = Table(title=f"\n{title}", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column)
    return table
