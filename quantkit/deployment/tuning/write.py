"""Writing a tuning: the deployment, the page, and everything that was measured."""

from __future__ import annotations

import json
from pathlib import Path

from quantkit.deployment.deployment_file import DEPLOYMENT, deployment_text, this_host
from quantkit.deployment.tuning.outcome import deployment_of, tuning_document
from quantkit.deployment.tuning.page import document
from quantkit.deployment.tuning.tuned import Tuned
from quantkit.files.folders import Kind, replacing
from quantkit.report.page.html import page

PAGE = "index.html"
_DATA = "tuning.json"

TUNING = Kind("a tuning", DEPLOYMENT, frozenset({DEPLOYMENT, PAGE, _DATA}), replacing="--retune (again=True)")
"""The kind of a tuning's folder."""


def write_tuning(tuned: Tuned, folder: Path, again: bool = False, command: str = "") -> None:
    """Write a tuning's folder, complete or not at all; with ``again`` it may replace an earlier one.

    ``command`` is told on the page and in the data; empty if there was none. Once it is written, the journal of the
    search is removed.

    Raises:
        UserError: the folder holds something else, or an earlier tuning and ``again`` is not given.
        QuantkitError: it cannot be written.
    """
    host = this_host()
    files = {
        DEPLOYMENT: deployment_text(deployment_of(tuned, host)),
        PAGE: page(document(tuned, host, folder, command)),
        _DATA: json.dumps(tuning_document(tuned, host, command), indent=1) + "\n",
    }
    with replacing(folder, again, TUNING) as new:
        for name, text in files.items():
            (new / name).write_text(text, encoding="utf-8")
    # Not before: a search whose result cannot be written goes on from it.
    if tuned.journal is not None:
        tuned.journal.unlink(missing_ok=True)
