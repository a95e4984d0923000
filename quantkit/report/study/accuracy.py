"""The accuracy of networks and the speed of their INT8 variants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Optional

from quantkit.backends.registry import MXNET
from quantkit.benchmark.results.statistics import Ratio
from quantkit.report.study.summary import Row, Study


@dataclass(frozen=True)
class Graded:
    """A network with its accuracy (shares from 0 to 1 by name) and the INT8 cell that gives its speed, if any."""

    network: str
    weights: str
    accuracy: Mapping[str, float]
    row: Optional[Row]

    @property
    def speedup(self) -> Optional[Ratio]:
        """The speed of INT8 relative to the baseline."""
        return self.row.speedup if self.row else None


def graded(study: Study) -> tuple[Graded, ...]:
    """All networks with accuracy, each with its fastest INT8 at the largest batch size that can be compared.

    The accuracy is that of MXNet's INT8, so its speed is, too.
    """
    mxnet = {build.name for build in study.run.builds if build.engine == MXNET.name}
    int8 = {each.name for each in study.run.contestants if each.variant == "int8" and each.build in mxnet}
    grades = []
    for network in study.run.networks:
        if network.accuracy:
            rows = [row for row in study.rows if row.network == network.name and row.contestant in int8 and row.speedup]
            best = max(rows, key=lambda row: (row.batch, row.speedup.value if row.speedup else 0.0), default=None)
            grades.append(Graded(network.name, network.weights, network.accuracy, best))
    return tuple(grades)
