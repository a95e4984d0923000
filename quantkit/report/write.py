"""Writing a report into a folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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

PAGE = "index.html"
_KINDS = ("png", "svg")


@dataclass(frozen=True)
class Written:
    """A report on disk: its content, and its files in the order in which they were written."""

    document: Document
    files: tuple[Path, ...]


def write_report(
    results: Sequence[Results],
    out: Path,
    title: Optional[str] = None,
    price_per_hour: Optional[float] = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Written:
    """Write ``index.html``, ``report.md``, ``report.json``, ``cells.csv`` and the figures.

    Files of an earlier report in the folder are replaced, its figures that this one lacks are removed.

    Args:
        results: runs of one host.
        out: the folder; it is made if need be.
        title: the report's title; None for that of the only run.
        price_per_hour: what the machine costs in an hour, for the cost of a million items.
        tell: is told what happens.

    Raises:
        UserError: the runs come from different hosts, or the price is not a positive number.
        QuantkitError: the folder cannot be written.
    """
    tell("computing ratios and intervals")
    studies = summarize(results, price_per_hour)
    report = document(studies, title)
    _make(out)
    _make(out / "figures")
    written = []
    tell(f"drawing {len(report.pictures)} figures" if len(report.pictures) != 1 else "drawing 1 figure")
    for picture in report.pictures:
        for kind in _KINDS:
            path = out / f"{picture.file}.{kind}"
            _make(path.parent)
            with files.writing(path) as file:
                write_sheet(picture.figure, file, kind)
            written.append(path)
    _remove_others(out / "figures", written)
    tell("writing the page")
    for name, text in (
        ("cells.csv", csv_text(studies)),
        ("report.json", json_text(report, studies)),
        ("report.md", markdown(report)),
        (PAGE, page(report)),
    ):
        with files.writing(out / name) as file:
            file.write(text.encode())
        written.append(out / name)
    return Written(report, tuple(written))


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise UserError(f"{folder} is a file; choose a folder for the report") from error
    except OSError as error:
        raise QuantkitError(
            f"cannot make {folder}: {error.strerror or error}; choose a folder you may write to"
        ) from error


def _remove_others(folder: Path, written: Sequence[Path]) -> None:
    """Remove the figures of an earlier report; other files stay."""
    for place in (folder, *(each for each in folder.iterdir() if each.is_dir() and each.name.isdigit())):
        for name in NAMES:
            for kind in _KINDS:
                path = place / f"{name}.{kind}"
                if path not in written:
                    path.unlink(missing_ok=True)
