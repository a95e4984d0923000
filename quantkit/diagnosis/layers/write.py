"""Writing an analysis into a folder."""

from __future__ import annotations

from pathlib import Path

from quantkit.diagnosis.layers.analysis import Analysis
from quantkit.diagnosis.layers.page import analysis_page, json_text
from quantkit.files.folders import Kind, replacing

PAGE = "index.html"
DATA = "analysis.json"

ANALYSIS = Kind("an analysis", DATA, frozenset({PAGE, DATA}))
"""The kind of folder that an analysis is."""


def write_analysis(analysis: Analysis, directory: Path, force: bool = False) -> None:
    """Write the page and the JSON, completely or not at all.

    Raises:
        UserError: the directory holds an analysis and ``force`` is not given, or holds anything else.
        QuantkitError: the disk is full, or the place cannot be written.
    """
    text, page = json_text(analysis), analysis_page(analysis)
    with replacing(directory, force, ANALYSIS) as new:
        (new / DATA).write_bytes(text.encode())
        (new / PAGE).write_bytes(page.encode())
