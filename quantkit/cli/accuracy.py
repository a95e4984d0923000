"""``quantkit benchmark`` of a suite of accuracy: every form of networks over the same images, as a table."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from quantkit.cli.cluster import OnCluster, executor_of
from quantkit.cli.terminal import Terminal

_LEGEND = (
    "calib: images to calibrate with; same top-1, cosine: with FP32; [...]: 95 % interval over images; "
    "*: more than chance"
)

if TYPE_CHECKING:
    from rich.table import Table

    from quantkit.benchmark.accuracy.table import NetworkAccuracy


def measure_table(
    terminal: Terminal, path: Path, networks: list[str], folder: Optional[Path], force: bool, on_cluster: OnCluster
) -> bool:
    """Measure a suite of accuracy, print its table, and tell whether all of it was measured.

    Raises:
        UserError: the suite or the folder cannot be used.
        ClusterError: the cluster cannot be used.
    """
    from quantkit.benchmark.accuracy.suite import read_accuracy_suite
    from quantkit.benchmark.accuracy.table import TABLE, measure_accuracy
    from quantkit.host.placeholders import command

    suite = read_accuracy_suite(path).part(networks)
    folder = folder or Path(f"{suite.name}-benchmark")
    terminal.work.kept = f"networks that were finished are in {folder}, and the same command goes on from there"
    with executor_of(terminal, on_cluster) as executor:
        found = measure_accuracy(
            suite,
            folder,
            command("quantkit", sys.argv[1:]),
            terminal.tell,
            terminal.progress,
            executor,
            force,
        )
    terminal.show(_document(found, folder / TABLE), *map(_table, found), f"\n{_LEGEND}\ntable: {folder / TABLE}")
    for each in found:
        if each.failure is not None:
            terminal.warn(f"{each.network} was not measured: {each.failure}")
    failed = [row for each in found for row in each.rows if row["failure"]]
    for row in failed:
        terminal.warn(f"{row['network']}, {row['form']}: {row['failure']}")
    return all(each.is_whole for each in found)


def _document(found: Sequence[NetworkAccuracy], path: Path) -> dict[str, Any]:
    return {
        "results": str(path),
        "networks": [{"network": each.network, "failure": each.failure, "rows": each.rows} for each in found],
    }


def _table(found: NetworkAccuracy) -> Table:
    from rich.table import Table

    images = next((row["images"] for row in found.rows if not row["failure"]), 0)
    title = f"\n{found.network}" + (f", {images} images, in %" if images else "")
    table = Table(title=title, title_justify="left", box=None, padding=(0, 1, 0, 0))
    for column in ("form", "calib", "top-1", "top-5", "same top-1", "cosine", "top-1 less FP32's"):
        table.add_column(column, justify="left" if column == "form" else "right", no_wrap=True)
    for row in found.rows:
        table.add_row(row["form"].removeprefix("quantkit "), *_cells(row))
    return table


def _cells(row: dict[str, Any]) -> Iterator[str]:
    yield "" if row["calibration_samples"] is None else str(row["calibration_samples"])
    if row["failure"]:
        yield "failed"
        return
    for name in ("top1", "top5", "agreement"):
        yield f"{row[name]:.2f}"
    yield f"{row['cosine']:.5f}"
    compared = row["accuracy_less_fp32"]
    if compared is None:
        yield ""
        return
    points, low, high = (100 * compared[name] for name in ("difference", "low", "high"))
    mark = "" if compared["verdict"] == "not distinguishable" else "*"
    yield f"{points:+.2f} [{low:+.2f}, {high:+.2f}]{mark}"
