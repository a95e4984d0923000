"""Making the files of a report and writing them to a folder."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Optional, Union

from quantkit.benchmark.results.results import Results
from quantkit.errors import UserError
from quantkit.files.folders import Kind, replacing
from quantkit.kinds import of_kind
from quantkit.progress import Tell, untold
from quantkit.report.compose import document
from quantkit.report.export import csv_text, json_text
from quantkit.report.figures import NAMES
from quantkit.report.hosts import across_hosts as across
from quantkit.report.hosts import with_hosts
from quantkit.report.page.document import Document
from quantkit.report.page.drawing import write_sheet
from quantkit.report.page.html import page
from quantkit.report.page.markdown import markdown
from quantkit.report.study.summary import check_same_host, summarize
from quantkit.report.study.words import counted

PAGE = "index.html"
_DATA = "report.json"
_KINDS = ("png", "svg")

_PICTURES = frozenset(f"figures/{place}{name}.{kind}" for place in ("", "[0-9]*/") for name in NAMES for kind in _KINDS)

REPORT = Kind("a report", _DATA, frozenset({PAGE, "report.md", _DATA, "cells.csv"}) | _PICTURES, is_derived=True)
"""The kind of a report's folder."""


@dataclass(frozen=True)
class Report:
    """A report's content, and its files by their path in the report's folder."""

    document: Document
    files: Mapping[str, bytes]


def make_report(
    results: Sequence[Results],
    title: Optional[str] = None,
    prices_per_hour: Sequence[Optional[float]] = (),
    *,
    across_hosts: bool = False,
    latency_bound: Optional[float] = None,
    tell: Tell = untold,
) -> Report:
    """Make ``index.html``, ``report.md``, ``report.json``, ``cells.csv`` and the figures as PNG and SVG.

    Args:
        results: runs of one host, or of several where ``across_hosts`` says so.
        title: the report's title; None for that of the only run.
        prices_per_hour: what the machine of each run costs in an hour, for the cost of a million items; None: unknown.
        across_hosts: open with absolute speed and cost host by host.
        latency_bound: the p99 in ms that the best choices across hosts have to keep.
        tell: called with the name of each phase.

    Raises:
        UserError: the runs come from different hosts, there are none, or a price or the bound is not a positive number.
    """
    if not isinstance(results, (list, tuple)) or not results:
        raise UserError("results is no list of runs, or an empty one; give Results, as run_benchmark() returns them")
    for each in results:
        of_kind("a run", each, Results, "which run_benchmark() returns")
    tell("computing ratios and intervals")
    if not across_hosts:
        _check_one_host(results, latency_bound)
    studies = summarize(results, prices_per_hour)
    content = document(studies, title)
    if across_hosts:
        content = replace(content, parts=(across(studies, latency_bound), *with_hosts(content.parts, studies)))
    made = {}
    if content.pictures:
        tell(f"drawing {counted(len(content.pictures), 'figure')}")
    for picture in content.pictures:
        for kind in _KINDS:
            drawn = io.BytesIO()
            write_sheet(picture.figure, drawn, kind)
            made[f"{picture.file}.{kind}"] = drawn.getvalue()
    tell("making the page")
    made["cells.csv"] = csv_text(studies).encode()
    made[_DATA] = json_text(content, studies).encode()
    made["report.md"] = markdown(content).encode()
    made[PAGE] = page(content).encode()
    return Report(content, made)


def _check_one_host(results: Sequence[Results], latency_bound: Optional[float]) -> None:
    if latency_bound is not None:
        raise UserError("a latency bound is for the best choice across hosts; ask for a report across hosts, too")
    for other in results[1:]:
        check_same_host(results[0].run, other.run)


def write_report(report: Report, out: Union[str, Path]) -> tuple[Path, ...]:
    """Write a report's files into a folder, complete or not at all, and return their paths.

    The folder may be new or empty, or hold an earlier report, which is replaced.

    Raises:
        UserError: ``out`` is a file, or holds anything else; or ``report`` is something else.
        QuantkitError: the folder cannot be written.
    """
    of_kind("report", report, Report, "which make_report() returns")
    folder = Path(out)
    with replacing(folder, False, REPORT) as new:
        for name, content in report.files.items():
            (new / name).parent.mkdir(parents=True, exist_ok=True)
            (new / name).write_bytes(content)
    return tuple(folder / name for name in report.files)
