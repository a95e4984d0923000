"""``quantkit tune``: the fastest deployment of a bundle on this machine."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

import click

from quantkit.cli.option_types import Memory, Milliseconds, Minutes, Rate, Share
from quantkit.cli.options import Verb, output_options
from quantkit.cli.targets import check_target
from quantkit.cli.terminal import Terminal
from quantkit.errors import UserError
from quantkit.extras import require
from quantkit.files.bundles import is_bundle

if TYPE_CHECKING:
    from rich.table import Table

    from quantkit.bundle import Bundle
    from quantkit.deployment.tuning.tuned import Tuned


@click.command(
    cls=Verb,
    examples=(
        "quantkit tune resnet50_v1-int8",
        "quantkit tune resnet50_v1-int8 --p99 15ms --memory 4GB --budget 10",
        "quantkit tune net-int8 net-mixed net-fused --agreement 99% --goal latency",
    ),
)
@click.argument("bundles", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="BUNDLE...")
@click.option(
    "--goal",
    type=click.Choice(["throughput", "latency"]),
    default="throughput",
    show_default=True,
    help="Images per second, or the median time of one image alone.",
)
@click.option("--p99", type=Milliseconds(), help="The largest p99 latency of single images under load, such as 15ms.")
@click.option(
    "--rate",
    type=Rate(),
    help="Images that come one by one at random times, such as 200/s; the p99 of their latencies then counts.",
)
@click.option("--memory", type=Memory(), help="The most memory that all processes may take together, such as 4GB.")
@click.option(
    "--agreement",
    type=Share(),
    help="Leave out bundles whose top-1 agreement with FP32, as measured when they were made, is lower, such as 99%.",
)
@click.option(
    "--images",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Typical images, a file or a folder, to find how many threads decode them fastest while the network runs.",
)
@click.option("--budget", type=Minutes(), default=5.0, show_default=True, help="Minutes for the search, about.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder for the deployment and the page.  [default: NAME-deployment]",
)
@click.option("--retune", is_flag=True, help="Measure everything anew, and replace an earlier tuning in the folder.")
@output_options
def tune(
    terminal: Terminal,
    bundles: tuple[Path, ...],
    goal: str,
    p99: Optional[float],
    rate: Optional[float],
    memory: Optional[int],
    agreement: Optional[float],
    images: Optional[Path],
    budget: float,
    out: Optional[Path],
    retune: bool,
) -> None:
    """Find the fastest deployment of a bundle on this machine.

    Engines, instances, streams, batches, OpenMP runtimes and allocators are measured; the best are compared with
    quantkit's default and with what each engine does by itself. The default stays where nothing is better beyond doubt.
    Of several BUNDLES, forms of one network, the first is the default. `load(BUNDLE, deployment="DIR/deployment.toml")`
    uses the result. An interrupted search goes on where it was.
    """
    from quantkit.deployment.deployment_file import DEPLOYMENT, this_host
    from quantkit.deployment.tuning.goal import TuningGoal
    from quantkit.deployment.tuning.outcome import tuning_document
    from quantkit.deployment.tuning.search import tune as search
    from quantkit.deployment.tuning.write import PAGE, TUNING, write_tuning

    wanted = TuningGoal(goal, p99, memory, rate)  # type: ignore[arg-type]
    chosen = _chosen(terminal, bundles, agreement)
    for package in ("matplotlib", "jinja2"):
        require("report", package, "the page of a tuning")
    require("benchmark", "scipy", "intervals of speeds")
    folder = out or Path(f"{chosen[0].directory.resolve().name}-deployment")
    _check_untuned(folder, chosen, retune)
    check_target(folder, retune, TUNING)
    tuned = search(chosen, wanted, budget, retune, terminal.tell, images=images)
    with terminal.work.writing(folder):
        write_tuning(tuned, folder, retune, shlex.join(["quantkit", *sys.argv[1:]]))
    result = {**tuning_document(tuned, this_host(), ""), "deployment": str(folder / DEPLOYMENT)}
    terminal.show(result, *_texts(tuned), f"\n{folder / DEPLOYMENT}\n{folder / PAGE}")


def _chosen(terminal: Terminal, paths: tuple[Path, ...], agreement: Optional[float]) -> list[Bundle]:
    """The bundles that agree well enough with FP32."""
    from quantkit.bundle import read_bundle
    from quantkit.cli.networks import warn_of_bundle

    chosen = []
    for path in paths:
        if not is_bundle(path):
            raise UserError(f"{path} is no bundle; give folders that quantkit wrote")
        bundle = read_bundle(path)
        warn_of_bundle(terminal, str(path), bundle.manifest.source.weights)
        reached = _agreement(bundle)
        if agreement is not None and reached is None:
            raise UserError(f"{path} says nothing of its agreement with FP32; leave it or --agreement out")
        if agreement is None or (reached is not None and reached >= agreement):
            chosen.append(bundle)
        else:
            terminal.tell(f"{path} is left out: it agrees with FP32 on {100 * (reached or 0):.1f} % of the images")
    if not chosen:
        raise UserError("no bundle agrees with FP32 so well; allow less with --agreement, or make a better one")
    return chosen


def _agreement(bundle: Bundle) -> Optional[float]:
    if bundle.manifest.kind == "fp32":
        return 1.0
    return None if bundle.manifest.agreement is None else bundle.manifest.agreement.top1


def _check_untuned(folder: Path, bundles: list[Bundle], retune: bool) -> None:
    """Refuse to measure what is known already."""
    from quantkit.deployment.deployment_file import DEPLOYMENT, read_deployment

    file = folder / DEPLOYMENT
    if retune or not file.is_file():
        return
    stored = read_deployment(file)
    for bundle in bundles:
        if bundle.sha256 == stored.bundle.sha256:
            stored.check(bundle, file)
            raise UserError(
                f"{bundle.directory} is tuned already, for this host, in {file}; tune it again with --retune"
            )


def _texts(tuned: Tuned) -> list[Any]:
    from rich.text import Text

    from quantkit.deployment.tuning.page import verdict

    tables = [_table(tuned), *([Text(), _decoding(tuned)] if tuned.decoded else [])]
    return [*tables, Text(f"\n{verdict(tuned)}", "bold")]


def _table(tuned: Tuned) -> Table:
    from rich.table import Table

    from quantkit.deployment.tuning.outcome import MEGABYTE
    from quantkit.report.study.words import number, ratio_text

    table = Table(box=None, pad_edge=False)
    for name in ("deployment", "images/s", "p50, ms", "p99, ms", "MB", "chosen is times as good"):
        table.add_column(name, justify="left" if name in ("deployment", "chosen is times as good") else "right")
    for each in tuned.finalists:
        table.add_row(
            each.contestant.name,
            number(each.rate),
            number(each.p50),
            number(each.p99),
            number(each.memory / MEGABYTE),
            "chosen" if each is tuned.winner else ratio_text(tuned.over(each)),
        )
    return table


def _decoding(tuned: Tuned) -> Table:
    from rich.table import Table

    from quantkit.deployment.tuning.page import DECODING, decoding_rows

    table = Table(box=None, pad_edge=False)
    for place, name in enumerate(DECODING):
        table.add_column(name, justify="left" if place > 1 else "right")
    for row in decoding_rows(tuned):
        table.add_row(*row)
    return table
