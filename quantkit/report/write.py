"""Making the files of a report, and writing them into a folder."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from quantkit import files
from quantkit.benchmark.results import Results
from quantkit.errors import QuantkitError, UserError
from quantkit.report.document import Document, document
from quantkit.report.drawing import write_sheet
from quantkit.report.export import csv_text, json_text
from quantkit.report.figures import NAMES
from quantkit.report.html import page
from quantkit.report.markdown import markdown
from quantkit.report.summary import summarize
from quantkit.report.words import counted

PAGE = "index.html"
_KINDS = ("png", "svg")


@dataclass(frozen=True)
class Report:
    """A report's content, and its files by their path in the folder to come."""

    document: Document
    files: Mapping[str, bytes]


def make_report(
    results: Sequence[Results],
    title: Optional[str] = None,
    price_per_hour: Optional[float] = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Report:
    """Make ``index.html``, ``report.md``, ``report.json``, ``cells.csv`` and the figures as PNG and SVG.

    Args:
        results: runs of one host.
        title: the report's title; None for that of the only run.
        price_per_hour: what the machine costs in an hour, for the cost of a million items.
        tell: is told what happens.

    Raises:
        UserError: the runs come from different hosts, or the price is not a positive number.
    """
    tell("computing ratios and intervals")
    studies = summarize(results, price_per_hour)
    content = document(studies, title)
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
    made["report.json"] = json_text(content, studies).encode()
    made["report.md"] = markdown(content).encode()
    made[PAGE] = page(content).encode()
    return Report(content, made)


def write_report(report: Report, out: Path) -> tuple[Path, ...]:
    """Write a report's files into a folder, which is made if need be, and return their paths.

    Files of an earlier report there are replaced, its figures that this one lacks are removed; others stay.

    Raises:
        UserError: ``out`` is a file.
        QuantkitError: the folder cannot be written.
    """
    for name, content in report.files.items():
        path = out / name
        _make(path.parent)
        with files.writing(path) as file:
            file.write(content)
    written = tuple(out / name for name in report.files)
    _remove_others(out / "figures", written)
    return written


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise UserError(f"{folder} cannot be a folder, a file is in the way; choose another for the report") from error
    except OSError as error:
        raise QuantkitError(f"cannot make {folder}: {error.strerror or error}; choose one you may write to") from error


def _remove_others(folder: Path, written: Sequence[Path]) -> None:
    places = [folder, *(each for each in folder.glob("*") if each.is_dir() and each.name.isdigit())]
    for path in (place / f"{name}.{kind}" for place in places for name in NAMES for kind in _KINDS):
        if path not in written:
            path.unlink(missing_ok=True)
