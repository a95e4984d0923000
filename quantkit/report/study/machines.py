"""The machines that figures were measured on, in words: this one, and those of published figures."""

from __future__ import annotations

from typing import Optional

from quantkit.benchmark.results.results import Machine, Published, PublishedSource, Run
from quantkit.report.study.summary import Row


def published_figure(run: Run, row: Row, scenario: str, metric: str) -> Optional[Published]:
    """A row's published figure; for a speed-up that none states, the throughput or latency that it follows from."""
    figures = {
        each.metric: each
        for each in run.published
        if (each.network, each.batch, each.contestant, each.scenario) == (*row.key, scenario)
    }
    return figures.get(metric, figures.get(scenario) if metric == "speedup" else None)


def source_of(run: Run, figure: Optional[Published]) -> Optional[PublishedSource]:
    """The table that a published figure is from; None for a figure of the suite's own."""
    return next((source for source in run.sources if figure is not None and source.table == figure.table), None)


def machine_text(machine: Machine) -> str:
    """``EC2 C5.24xlarge: 48 cores, AVX512-VNNI``."""
    return f"{machine.name}: GPU" if machine.gpu else f"{machine.name}: {machine.cores} cores, {machine.isa}"


def own_machine(run: Run) -> str:
    """``this machine: 2 cores, avx512_vnni``."""
    sets = run.host.get("isa")
    best = str(sets[-1]) if isinstance(sets, (list, tuple)) and sets else ""
    cores = f"{run.host['usable_cores']} cores" if run.host.get("usable_cores") else ""
    return f"this machine: {', '.join(filter(None, (cores, best)))}"
