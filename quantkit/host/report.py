"""The report of ``doctor``: the facts, the findings, and the recommended number of threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from quantkit.host.diagnose import Finding, Level, diagnose
from quantkit.host.facts import EngineBuild, Facts, gather
from quantkit.host.threads import recommended_threads


@dataclass(frozen=True)
class HostReport:
    """Facts, findings in the order in which to fix them, and the best value of OMP_NUM_THREADS."""

    facts: Facts
    findings: tuple[Finding, ...]
    recommended_threads: int

    @property
    def worst(self) -> Level:
        """The worst level among the findings."""
        levels = {finding.level for finding in self.findings}
        return "fail" if "fail" in levels else "warn" if "warn" in levels else "ok"

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON's own types."""
        return {"worst": self.worst, **asdict(self)}


def examine(engine: Callable[[], EngineBuild], onnx_engines: Mapping[str, str]) -> HostReport:
    """Examine this machine; see ``gather``."""
    return report_on(gather(engine, onnx_engines))


def report_on(facts: Facts) -> HostReport:
    """The report about given facts."""
    return HostReport(facts, diagnose(facts), recommended_threads(facts.cpu, facts.limits))
