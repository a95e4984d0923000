"""The headline of a run: how many times as fast, at which accuracy, on which machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional

from quantkit.backends.registry import DEPLOYED, MXNET
from quantkit.benchmark.results.results import Cell, Contestant, Network
from quantkit.benchmark.results.statistics import Metric, Ratio, geometric_mean
from quantkit.benchmark.variants import VARIANTS
from quantkit.report.study.summary import METRICS, Study, random_weights
from quantkit.report.study.verdict import by_rank, compared, doubt
from quantkit.report.study.words import TIMES, bounded, counted, factor, listed, marked, number
from quantkit.units import percent

# Up to this many networks are named one by one.
_FEW = 3


@dataclass(frozen=True)
class Speed:
    """The speed of the leading contestant relative to the baseline, over all its ``comparisons`` in one metric.

    ``ratio`` is the geometric mean if there are several; ``doubtful`` is whether any of their cells has a warning.
    """

    contestant: str
    metric: Metric
    comparisons: int
    ratio: Ratio
    doubtful: bool


@dataclass(frozen=True)
class Headline:
    """``figures`` are displayed large, each with its meaning; ``facts``, by name, are the conditions."""

    figures: tuple[tuple[str, str], ...]
    facts: tuple[tuple[str, str], ...]


def headline(study: Study) -> Optional[Headline]:
    """The headline of the leading contestant; None if there is neither a comparison nor a served rate."""
    all_speeds = speeds(study)
    if all_speeds:
        figures = tuple(_figure(study, each) for each in all_speeds)
        leader = all_speeds[0].contestant
    else:
        cell = max((cell for cell in study.served if cell.server), key=_rank_served, default=None)
        if cell is None or not cell.server or not cell.server.rate:
            return None
        leader = cell.contestant.name
        says = f"requests that {leader} serves of {cell.network} with a p99 within {number(cell.server.bound)} ms"
        says += doubt(cell.server)
        doubtful = study.doubtful(cell.network, cell.batch, leader)
        figures = ((f"{number(cell.server.rate)}/s", _doubted(says, doubtful)),)
    return Headline(
        figures,
        (
            ("accuracy", accuracy(study, leader)),
            ("machine", machine(study.run.host)),
            ("compared", _engines(study, leader)),
        ),
    )


def speeds(study: Study) -> tuple[Speed, ...]:
    """The speed of the leading contestant (INT8 first, quantkit's before others') in each of its metrics."""
    leader = next((name for name in by_rank(study) if any(compared(study, name, metric) for metric in METRICS)), None)
    if leader is None:
        return ()
    all_speeds = []
    for metric in METRICS:
        rows = compared(study, leader, metric)
        if rows:
            doubtful = any(study.doubtful(row.network, row.batch, leader, study.run.baseline) for row, _ in rows)
            mean = geometric_mean([ratio for _, ratio in rows])
            all_speeds.append(Speed(leader, metric, len(rows), mean, doubtful))
    return tuple(all_speeds)


def _figure(study: Study, speed: Speed) -> tuple[str, str]:
    ratio = speed.ratio
    says = f"as fast as {study.run.baseline} in {speed.metric}"
    if not bounded(ratio):
        says += ", which proves nothing: there is no interval"
    else:
        says += f", 95 % interval {factor(ratio.low)} to {factor(ratio.high)}"
        if ratio.verdict == "not distinguishable":
            says += ": not distinguishable"
    if speed.comparisons > 1:
        says += f" (geometric mean of {counted(speed.comparisons, 'comparison')})"
    return f"{factor(ratio.value)}{TIMES}", _doubted(says, speed.doubtful)


def _doubted(says: str, doubtful: bool) -> str:
    return marked(f"{says}; measured with a warning" if doubtful else says, doubtful)


def _rank_served(cell: Cell) -> tuple[bool, float]:
    return VARIANTS[cell.contestant.variant].int8, cell.server.rate if cell.server else 0.0


def accuracy(study: Study, name: str) -> str:
    """The accuracy of a contestant in words: for INT8 against FP32, else the deviation of its outputs."""
    contestant = _contestant(study, name)
    variant = VARIANTS[contestant.variant]
    if not variant.int8:
        return _deviation(study, name)
    if variant.maker:
        return f"not measured for the networks of {variant.maker}"
    tested = {row.network for row in study.rows} | {cell.network for cell in study.served}
    networks = [network for network in study.run.networks if network.name in tested]
    trained = [network for network in networks if network.weights != "random"]
    if networks and not trained:
        return "none: the weights are random"
    known = [network for network in trained if network.accuracy]
    told = ", ".join(_measure(name, known) for name in dict.fromkeys(name for each in known for name in each.accuracy))
    if known and len(networks) > 1:
        told += f" ({listed([each.name for each in known]) if len(known) <= _FEW else f'{len(known)} networks'})"
    if known and _engine(study, contestant) != MXNET.name:
        told += ", as MXNet computes it"
    return "; ".join(filter(None, (told or "not measured", random_weights(networks))))


def _measure(name: str, networks: Sequence[Network]) -> str:
    shares = [network.accuracy[name] for network in networks if name in network.accuracy]
    texts = [f"{share:.4f}" if name == "cosine" else percent(share) for share in (min(shares), max(shares))]
    return f"{name} {' to '.join(dict.fromkeys(texts))}"


def _deviation(study: Study, name: str) -> str:
    agreements = [cell.agreement for key, cell in study.cells.items() if key[2] == name and cell.agreement]
    if not agreements:
        return "outputs not compared"
    worst = max(agreements, key=lambda each: each.deviation)
    return f"outputs within {worst.deviation:.2g} of those of {worst.reference}, relative to the largest"


def machine(host: Any) -> str:
    """The machine in one line, from the known facts."""
    parts = [
        _text(host.get("cpu")),
        f"{_text(host['cores'])} cores" if host.get("cores") else "",
        f"{_text(host['nodes'])} memory nodes" if host.get("nodes") not in (None, 1) else "",
        ", ".join(map(str, host["isa"])) if isinstance(host.get("isa"), (list, tuple)) else "",
        f"{_text(host['memory_gib'])} GiB" if host.get("memory_gib") else "",
        "virtual" if host.get("virtual") is True else "",
    ]
    return ", ".join(filter(None, parts)) or "not told"


def _text(fact: Any) -> str:
    return "" if fact is None else str(fact)


def _engines(study: Study, leader: str) -> str:
    told = []
    for name in (leader, study.run.baseline):
        each = _contestant(study, name)
        build = next((build for build in study.run.builds if build.name == each.build), None)
        engine = f"{DEPLOYED[build.engine].title} {build.version}" if build else each.build
        told.append(f"{name} ({VARIANTS[each.variant].title} on {engine}, policy {each.policy})")
    return " with ".join(dict.fromkeys(told))


def _contestant(study: Study, name: str) -> Contestant:
    return next(each for each in study.run.contestants if each.name == name)


def _engine(study: Study, contestant: Contestant) -> str:
    return next((build.engine for build in study.run.builds if build.name == contestant.build), MXNET.name)
