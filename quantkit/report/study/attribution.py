"""What each step from the baseline to the fastest INT8 contributes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

from quantkit.backends.registry import MXNET
from quantkit.benchmark.results.results import Contestant
from quantkit.benchmark.results.statistics import Metric, Ratio, ratio, throughput
from quantkit.report.study.summary import Study

_ORDER = ("fp32", "fused", "int8")


@dataclass(frozen=True)
class Step:
    """One step: ``factor`` is the speed of ``contestant`` relative to the step before, ``total`` to the baseline."""

    label: str
    contestant: str
    factor: Ratio
    total: Ratio


@dataclass(frozen=True)
class Attribution:
    """The steps of one network and batch size, each relative to the step before."""

    network: str
    batch: int
    metric: Metric
    steps: tuple[Step, ...]


def attributions(study: Study) -> tuple[Attribution, ...]:
    """One attribution for each network and batch size that has a baseline and a step, all on one build.

    The build is the one with results for the most steps. Its variants follow in the order FP32, fused
    (MXNet's own fusion if there is no other), INT8, each placed like the baseline; then INT8 under the
    fastest policy. A step without a result is merged into the next one.
    """
    places = list(dict.fromkeys((row.network, row.batch) for row in study.rows))
    builds = dict.fromkeys(each.build for each in study.run.contestants)
    by_build = [[_attribution(study, network, batch, build) for network, batch in places] for build in builds]
    best = max(by_build, key=lambda chains: sum(len(each.steps) for each in chains if each), default=[])
    return tuple(each for each in best if each and each.steps)


def one_per_network(attributed: Sequence[Attribution]) -> tuple[Attribution, ...]:
    """The attribution of each network with the most steps; of several, the largest batch, for latency the smallest."""

    def rank(each: Attribution) -> tuple[int, int]:
        return len(each.steps), -each.batch if each.metric == "latency" else each.batch

    networks = dict.fromkeys(each.network for each in attributed)
    return tuple(max((each for each in attributed if each.network == network), key=rank) for network in networks)


def _attribution(study: Study, network: str, batch: int, build: str) -> Optional[Attribution]:
    baseline = study.cells.get((network, batch, study.run.baseline))
    if baseline is None:
        return None
    metric: Metric = "latency" if baseline.scenario == "latency" else "throughput"
    steps: list[Step] = []
    before, waiting = baseline, list[str]()
    for label, contestant in _chain(study, network, batch, build, metric):
        waiting.append(label)
        cell = study.cells.get((network, batch, contestant.name)) if contestant else None
        if contestant and cell:
            factor, total = ratio(cell, before, metric), ratio(cell, baseline, metric)
            steps.append(Step(" + ".join(waiting), contestant.name, factor, total))
            before, waiting = cell, []
    return Attribution(network, batch, metric, tuple(steps))


def _chain(
    study: Study, network: str, batch: int, build: str, metric: Metric
) -> list[tuple[str, Optional[Contestant]]]:
    """The steps of this run, by label, with the contestant of each."""
    run = study.run
    baseline = next(each for each in run.contestants if each.name == run.baseline)
    own = [
        each
        for each in run.contestants
        if each.build == build and each != baseline and each.settings == baseline.settings
    ]

    def placed_alike(variant: str) -> Optional[Contestant]:
        return next((each for each in own if each.variant == variant and each.policy == baseline.policy), None)

    fused = placed_alike("fused")
    stock = None if fused else placed_alike("stock")
    fusion = ("MXNet's fusion" if stock else "fusion", fused or stock)
    engine = next((each.engine for each in run.builds if each.name == build), MXNET.name)
    chain = [
        (build, placed_alike("fp32")),
        # Other engines always fuse FP32 networks.
        *([fusion] if engine == MXNET.name else []),
        ("INT8", placed_alike("int8")),
    ]
    if build == baseline.build and baseline.variant in _ORDER:
        chain = chain[_ORDER.index(baseline.variant) + 1 :]
    elsewhere = [
        each
        for each in own
        if each.variant == "int8" and each.policy != baseline.policy and (network, batch, each.name) in study.cells
    ]
    if elsewhere and metric == "throughput":
        fastest = max(elsewhere, key=lambda each: throughput(study.cells[network, batch, each.name]))
        chain.append((f"placed {fastest.policy}", fastest))
    return chain
