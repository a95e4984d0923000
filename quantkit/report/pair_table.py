"""Contestants beside those that they were put against, as a table."""

from __future__ import annotations

from typing import Optional

from quantkit.report.page.table import Table
from quantkit.report.study.pairs import Pair, pairs
from quantkit.report.study.summary import Study
from quantkit.report.study.words import marked, ratio_text
from quantkit.report.tables import noted


def pair_table(study: Study) -> Optional[Table]:
    """Each pair's ratio; None if there is no pair."""
    names = [each.name for each in study.run.contestants]
    ordered = sorted(pairs(study), key=lambda each: (names.index(each.contestant), names.index(each.against)))
    if not ordered:
        return None
    return Table(
        "One against another",
        ("contestant", "against", "network", "batch size", "metric", "times as fast"),
        tuple(
            (each.contestant, each.against, each.network, str(each.batch), each.metric, _factor(study, each))
            for each in ordered
        ),
        frozenset({3, 5}),
        noted(
            "Times as fast as what it is put against; in parentheses the 95 % interval.",
            study,
            (each.network for each in ordered),
        ),
    )


def _factor(study: Study, pair: Pair) -> str:
    return marked(ratio_text(pair.factor), study.doubtful(pair.network, pair.batch, pair.contestant, pair.against))
