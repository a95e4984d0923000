"""The options of a cluster, and the executor that they stand for."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Optional

import click

from quantkit.cli.options import given, option
from quantkit.cli.targets import check_file_target
from quantkit.cli.terminal import Terminal
from quantkit.errors import UserError
from quantkit.extras import require

if TYPE_CHECKING:
    from distributed import Client

    from quantkit.cluster.executor import ClusterExecutor
    from quantkit.data.aggregation import Executor

_FILE = click.Path(path_type=Path)

Tls = Optional[tuple[Path, Path, Path]]


@dataclass(frozen=True)
class OnCluster:
    """Where networks run over many samples."""

    cluster: Optional[str] = option(
        "--cluster",
        metavar="local:N|ADDRESS|FILE",
        help="Run networks on a Dask cluster: N workers on this machine, a scheduler's address (tcp://HOST:8786), or "
        "its file (.json). Results are those of one process whose engine has as many threads, to the last "
        "bit.",
    )
    shard_size: Optional[int] = option(
        "--shard-size",
        type=click.IntRange(min=1),
        metavar="N",
        help="How many samples a worker takes at a time.  [default: 256 at most, and fewer towards the end]",
    )
    tls: Tls = option(
        "--tls",
        type=(_FILE, _FILE, _FILE),
        metavar="CA CERT KEY",
        help="Certificates (.pem) for a cluster whose nodes talk over TLS. local:N makes its own.",
    )
    dashboard: bool = option(
        "--dashboard",
        is_flag=True,
        default=False,
        help="Print the address of Dask's page of what goes on; with local:N, serve it.",
    )
    cluster_report: Optional[Path] = option(
        "--cluster-report",
        type=_FILE,
        metavar="FILE",
        help="Write a page (.html) of which worker computed what, and when.",
    )
    engine_threads: int = option(
        "--engine-threads",
        type=click.IntRange(min=1),
        default=1,
        show_default=True,
        metavar="N",
        help="Threads of each engine. Their number may change the last bit of layers that sum up many values.",
    )

    def __post_init__(self) -> None:
        """Refuse options that would have no effect."""
        if self.cluster is None and (name := next(given(self), None)) is not None:
            raise click.UsageError(f"{name} is about clusters; give a --cluster")
        if self.cluster_report is not None:
            _check_report(self.cluster_report)


def _check_report(path: Path) -> None:
    """Make sure that a page can be written, before the work that it tells of.

    Raises:
        UserError: something is there, or nothing can be.
        ExtraMissing: the packages for pages are not installed.
    """
    if path.exists():
        raise UserError(f"{path} exists already; remove it, or choose another place with --cluster-report")
    check_file_target(path, False, option="--cluster-report")
    for module in ("jinja2", "matplotlib"):
        require("report", module, "pages of clusters")


@contextmanager
def executor_of(terminal: Terminal, options: OnCluster) -> Iterator[Executor]:
    """The executor that the options ask for, until the end of the context, which says what a cluster has done.

    Results are written within the context, so that a page that cannot be written costs nothing else.

    Raises:
        UserError: there is no such cluster, or an option needs one.
        ClusterError: it does not answer, or its workers cannot be used.
    """
    if options.cluster is None:
        from quantkit.data.aggregation import in_this_process

        yield in_this_process
        return
    from quantkit.cluster.executor import ClusterExecutor

    with (
        client_of(terminal, options.cluster, options.tls, options.dashboard) as client,
        ClusterExecutor(client, options.shard_size, options.engine_threads) as executor,
    ):
        terminal.tell(f"cluster: {executor.description}")
        yield executor
        _tell(terminal, executor, options.cluster_report)


@contextmanager
def client_of(terminal: Terminal, cluster: str, tls: Tls, dashboard: bool = False) -> Iterator[Client]:
    """A client of a cluster, until the end of the context.

    Raises:
        UserError, ClusterError: see ``connected``.
    """
    from quantkit.cluster.connect import TlsFiles, connected

    # Errors become one line of ours.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    terminal.stage(f"connecting to {cluster}")
    with connected(cluster, None if tls is None else TlsFiles(*tls), dashboard) as client:
        if dashboard:
            terminal.tell(f"dashboard: {client.dashboard_link or 'the cluster has none'}")
        yield client


def _tell(terminal: Terminal, executor: ClusterExecutor, report: Optional[Path]) -> None:
    """Say what a cluster has done, in a line and on a page."""
    from quantkit.cluster.timeline import timeline

    if not executor.work:
        if report is not None:
            terminal.warn(f"nothing had to be computed on the cluster, so there is nothing to tell in {report}")
        return
    terminal.tell(f"cluster: {timeline(executor.work, executor.slots).text}")
    if report is None:
        return
    # The result may lie there by now.
    _check_report(report)
    from quantkit.cluster.page import cluster_page
    from quantkit.files.files import writing

    text = cluster_page(executor.work, executor.slots, executor.description, executor.again, executor.copies)
    with terminal.work.writing(report), writing(report) as file:
        file.write(text.encode())
    terminal.tell(f"cluster: {report} tells which worker computed what, and when")
