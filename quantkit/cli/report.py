"""``quantkit report``: a page, tables and figures from benchmark results."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional, Union

import click

from quantkit.cli.option_types import Milliseconds
from quantkit.cli.options import Verb, output_options
from quantkit.cli.terminal import Terminal
from quantkit.errors import UserError

if TYPE_CHECKING:
    from rich.text import Text

# Python's float() also reads underscores, blanks, and digits of other alphabets.
_NUMBER = re.compile(r"\d{1,15}(?:\.\d{0,15})?|\.\d{1,15}", re.ASCII)


@click.command(
    cls=Verb,
    examples=(
        "quantkit report smoke-benchmark --out report",
        "quantkit report int8-speedup-benchmark rnn-benchmark --out report --price-per-hour 3.06",
        "quantkit report amd intel --across-hosts --price amd=4.08 --price intel=1.53 --out report",
    ),
)
@click.argument("results", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RESULTS...")
@click.option("--out", required=True, type=click.Path(path_type=Path), metavar="DIR", help="Folder for the report.")
@click.option(
    "--price-per-hour",
    type=click.FloatRange(min=0, min_open=True),
    metavar="PRICE",
    help="What the machine costs in an hour: adds the cost of a million items.",
)
@click.option(
    "--across-hosts",
    is_flag=True,
    help="RESULTS of several hosts: absolute throughput, latency and cost of each, and the best choice.",
)
@click.option(
    "--price",
    "prices",
    multiple=True,
    metavar="RESULTS=PRICE",
    help="What the machine of these RESULTS costs in an hour; may be repeated.",
)
@click.option(
    "--latency-bound",
    type=Milliseconds(),
    help="With --across-hosts: the bound on p99 that the best choice must keep, such as 15ms.",
)
@click.option("--title", metavar="TEXT", help="Title of the report.  [default: that of the run]")
@output_options
def report(
    terminal: Terminal,
    results: tuple[Path, ...],
    out: Path,
    price_per_hour: Optional[float],
    across_hosts: bool,
    prices: tuple[str, ...],
    latency_bound: Optional[float],
    title: Optional[str],
) -> None:
    """Make a report of benchmark results.

    Writes index.html (a page that needs no network connection), report.md, report.json, cells.csv, and the figures as
    PNG and SVG. Several RESULTS go into one report if they were measured on the same host. Ratios are formed only
    within a host; --across-hosts shows absolute figures side by side.
    """
    from quantkit.benchmark.results.result_files import read_results
    from quantkit.report.write import PAGE, make_report, write_report

    _check_distinct(results)
    runs = [read_results(folder) for folder in results]
    made = make_report(
        runs,
        title,
        _prices(results, price_per_hour, prices),
        across_hosts=across_hosts,
        latency_bound=latency_bound,
        tell=terminal.stage,
    )
    with terminal.work.writing(out):
        written = write_report(made, out)
    result = {
        "page": str(out / PAGE),
        "files": [str(path) for path in written],
        "runs": [
            {"title": part.title, "verdicts": part.verdicts, "reservations": part.reservations}
            for part in made.document.parts
        ],
    }
    terminal.show(result, *_summary(result))


def _prices(folders: Sequence[Path], of_all: Optional[float], given: Sequence[str]) -> list[Optional[float]]:
    """The price of each folder's machine."""
    known: dict[Path, float] = {}
    for text in given:
        name, _, price = text.rpartition("=")
        folder = _named(text, name, folders)
        if folder in known:
            raise UserError(f"--price {text!r} is the second price of {folder}; give one")
        if not _NUMBER.fullmatch(price):
            raise UserError(f"--price {text!r}: {price!r} is not a number such as 4.08")
        known[folder] = float(price)
    return [known.get(folder, of_all) for folder in folders]


def _named(text: str, name: str, folders: Sequence[Path]) -> Path:
    """The folder of this path, or the only one of this name."""
    named = [folder for folder in folders if name == str(folder)]
    named = named or [folder for folder in folders if name == folder.name]
    if len(named) > 1:
        raise UserError(f"--price {text!r}: {name!r} may be {', '.join(map(str, named))}; give the path of one")
    if not named:
        raise UserError(f"--price {text!r} is not RESULTS=PRICE, with one of {', '.join(map(str, folders))}")
    return named[0]


def _check_distinct(folders: Sequence[Path]) -> None:
    seen: dict[Path, Path] = {}
    for folder in folders:
        place = folder.resolve()
        if place in seen:
            raise UserError(f"{seen[place]} and {folder} are the same results; name each folder once")
        seen[place] = folder


def _summary(result: dict[str, Any]) -> list[Union[str, Text]]:
    from rich.text import Text

    from quantkit.report.study.words import printable

    lines: list[Union[str, Text]] = []
    for run in result["runs"]:
        lines.append(Text(f"\n{printable(run['title'])}", "bold"))
        lines += [f"  {printable(text)}" for text in run["verdicts"]]
        lines += [Text(f"  {printable(text)}", "yellow") for text in run["reservations"]]
    return [*lines, f"\n{result['page']}"]
