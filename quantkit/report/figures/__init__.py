"""The figures of a report, one file each: from an evaluated run to what is drawn."""

from __future__ import annotations

from quantkit.report.figures import accuracy, attribution, distribution, published, scaling, server, speedup
from quantkit.report.page.figure import Figure
from quantkit.report.study.summary import Study


def figures(study: Study) -> dict[str, Figure]:
    """All figures that a run has the data for, by name."""
    drawn = (
        speedup.figure(study, "throughput"),
        speedup.figure(study, "latency"),
        published.figure(study),
        attribution.figure(study),
        scaling.figure(study),
        distribution.figure(study),
        accuracy.figure(study),
        server.figure(study),
    )
    return {each.name: each for each in drawn if each is not None}


NAMES = ("throughput", "latency", "published", "attribution", "scaling", "distribution", "accuracy", "server")
