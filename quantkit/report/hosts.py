"""Runs of several hosts in one report: absolute speed and cost, and which choice is best; never ratios."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Optional

from quantkit.report.page.document import Part, Section
from quantkit.report.page.table import Table
from quantkit.report.study.summary import Row, Study, cost_of_million, key_of
from quantkit.report.study.words import listed, marked, number

_P99 = 2

# What vendors add to the name of a processor's model: marks, the word itself, the base frequency.
_ADDITIONS = re.compile(r"\((?:R|TM)\)| CPU\b| Processor\b| @ [\d.]+ ?GHz", re.IGNORECASE)


@dataclass(frozen=True)
class Offer:
    """One measured cell on one host.

    Attributes:
        host: names the machine.
        network: the cell's network; ``contestant`` and ``batch`` are its other parts.
        scenario: ``server`` if requests came at random, as many as the latency bound admits.
        throughput: in items per second.
        p99: the 99th percentile of latency, in ms.
        cost: the price of a million items; None if it is unknown or the scenario has none.
        doubtful: whether the cell has a warning.
        priced: whether the machine has a price.
    """

    host: str
    network: str
    contestant: str
    batch: int
    scenario: str
    instances: int
    throughput: float
    p99: float
    cost: Optional[float]
    doubtful: bool
    priced: bool


def host_names(studies: Sequence[Study]) -> dict[str, str]:
    """What to call each host, by its identity: its processor and cores, and the identity where two are alike."""
    facts = {str(study.run.host["id"]): study.run.host for study in studies}
    names = {key: f"{_model(host.get('cpu'))}, {host.get('usable_cores')} cores" for key, host in facts.items()}
    texts = list(names.values())
    return {key: f"{name} ({key[:6]})" if texts.count(name) > 1 else name for key, name in names.items()}


def _model(cpu: object) -> str:
    """``Intel Xeon Platinum 8275CL`` of ``Intel(R) Xeon(R) Platinum 8275CL CPU @ 3.00GHz``."""
    return _ADDITIONS.sub("", str(cpu))


def offers(studies: Sequence[Study], latency_bound: Optional[float] = None) -> tuple[Offer, ...]:
    """Every cell with timings, and every served one at the highest rate within its bound, on every host.

    Args:
        studies: the runs.
        latency_bound: a p99 in ms that served cells have to keep as well as their own bound.
    """
    names = host_names(studies)
    named = [(study, names[str(study.run.host["id"])]) for study in studies]
    return tuple(
        offer
        for study, host in named
        for offer in (*(_timed(row, study, host) for row in study.rows), *_served(study, host, latency_bound))
    )


def _timed(row: Row, study: Study, host: str) -> Offer:
    return Offer(
        host, row.network, row.contestant, row.batch, row.scenario, row.instances, row.throughput,
        row.percentiles[_P99], row.cost, study.doubtful(*row.key), study.price is not None,
    )  # fmt: skip


def _served(study: Study, host: str, latency_bound: Optional[float]) -> Iterator[Offer]:
    for cell in study.served:
        if cell.server is None:
            continue
        bound = cell.server.bound if latency_bound is None else min(cell.server.bound, latency_bound)
        kept = [trial for trial in cell.server.trials if trial.p99 <= bound and 0 < trial.rate <= cell.server.rate]
        if kept:
            trial = max(kept, key=lambda each: each.rate)
            speed = trial.rate * cell.batch
            yield Offer(
                host, cell.network, cell.contestant.name, cell.batch, cell.scenario, len(cell.placements), speed,
                trial.p99, cost_of_million(study.price, speed), study.doubtful(*key_of(cell)), study.price is not None,
            )  # fmt: skip


def across_hosts(studies: Sequence[Study], latency_bound: Optional[float] = None) -> Part:
    """The part of a report that tells hosts apart.

    Args:
        studies: the runs, each evaluated within its host.
        latency_bound: the p99 that a choice has to keep, in ms.
    """
    all_offers = offers(studies, latency_bound)
    return Part(
        "Across hosts",
        tuple(_verdicts(_networks(studies), all_offers, latency_bound)),
        ("Hosts differ in more than their processors: these figures are absolute, and no ratio is formed of two.",),
        (Section("Hosts and costs", (_hosts(studies), _best(all_offers, latency_bound), _all(all_offers))),),
    )


def with_hosts(parts: Sequence[Part], studies: Sequence[Study]) -> tuple[Part, ...]:
    """The parts of runs, each with its host in the title, since the same suite may have run on several."""
    names = host_names(studies)
    return tuple(
        replace(part, title=f"{part.title}: {names[str(study.run.host['id'])]}") for part, study in zip(parts, studies)
    )


_Rank = Callable[[Offer], float]


def _most(offer: Offer) -> float:
    return -offer.throughput


def _cheapest(offer: Offer) -> float:
    return float("inf") if offer.cost is None else offer.cost


def _least_latency(offer: Offer) -> float:
    return offer.p99


def best(network: str, all_offers: Sequence[Offer], bound: Optional[float]) -> Iterator[tuple[str, Offer]]:
    """The best choices for a network among those within the bound, each with what it is best in."""
    fitting = [each for each in all_offers if each.network == network and (bound is None or each.p99 <= bound)]
    ranks: tuple[tuple[str, _Rank], ...] = (
        ("throughput", _most), ("cost", _cheapest), ("p99", _least_latency),
    )  # fmt: skip
    for what, rank in ranks:
        chosen = min(fitting, key=rank, default=None)
        if chosen is not None and rank(chosen) != float("inf"):
            yield what, chosen


def _verdicts(networks: Sequence[str], all_offers: Sequence[Offer], bound: Optional[float]) -> Iterator[str]:
    within = "" if bound is None else f" with a p99 within {number(bound)} ms"
    none = []
    for network in networks:
        chosen = dict(best(network, all_offers, bound))
        if not chosen:
            none.append(network)
            continue
        fast, cheap = chosen["throughput"], chosen.get("cost")
        what = f"{network}: most items per second{within}"
        if cheap is None:
            yield f"{what}: {_speed(fast)}, {_choice(fast)}."
        elif cheap is fast:
            yield f"{what}, and least cost: {_speed(fast)}, {_cost(fast)} a million, {_choice(fast)}."
        else:
            yield f"{what}: {_speed(fast)}, {_choice(fast)}; least cost: {_cost(cheap)} a million, {_choice(cheap)}."
    if none:
        kept = "its latency bound" if bound is None else f"a p99 of {number(bound)} ms"
        yield f"Nothing measured keeps {kept} for {listed(none)}."


def _choice(offer: Offer) -> str:
    requests = ", requests at random" if offer.scenario == "server" else ""
    return f"{offer.contestant} at batch size {offer.batch} on {offer.host}{requests}"


def _speed(offer: Offer) -> str:
    return marked(f"{number(offer.throughput)}/s", offer.doubtful)


def _cost(offer: Offer) -> str:
    return "" if offer.cost is None else marked(number(offer.cost), offer.doubtful)


def _without_cost(shown: Iterable[Offer]) -> str:
    """Why costs are blank, where the machine has a price."""
    if any(each.priced and each.cost is None for each in shown):
        return "Latency cells have no cost: their requests come one at a time and leave the machine partly idle."
    return ""


def _networks(studies: Sequence[Study]) -> list[str]:
    cells = [cell for study in studies for cell in (*study.cells.values(), *study.served)]
    return list(dict.fromkeys(cell.network for cell in cells))


def _hosts(studies: Sequence[Study]) -> Table:
    names = host_names(studies)
    prices = {str(study.run.host["id"]): number(study.price) for study in studies if study.price is not None}
    lines = {}
    for study in studies:
        host, key = study.run.host, str(study.run.host["id"])
        lines[key] = (names[key], ", ".join(map(str, host.get("isa") or ())), prices.get(key, ""))
    return Table("Hosts", ("host", "instruction sets", "price per hour"), tuple(lines.values()), frozenset({2}))


_FIGURES = ("contestant", "scenario", "batch size", "instances", "items/s", "p99, ms", "cost per million")


def _figures(offer: Offer) -> tuple[str, ...]:
    return (
        offer.contestant, offer.scenario, str(offer.batch), str(offer.instances),
        marked(number(offer.throughput), offer.doubtful), marked(number(offer.p99), offer.doubtful), _cost(offer),
    )  # fmt: skip


def _best(all_offers: Sequence[Offer], bound: Optional[float]) -> Table:
    lines = []
    shown: list[Offer] = []
    for network in dict.fromkeys(each.network for each in all_offers):
        chosen = dict(best(network, all_offers, bound))
        shown += chosen.values()
        for offer in {id(each): each for each in chosen.values()}.values():
            merits = ", ".join(what for what, each in chosen.items() if each is offer)
            lines.append((network, merits, offer.host, *_figures(offer)))
    within = "" if bound is None else f" within a p99 of {number(bound)} ms"
    columns = ("network", "best", "host", *_FIGURES)
    note = _without_cost(shown)
    return Table(f"Best choices{within}", columns, tuple(lines), frozenset(range(5, 10)), note)


def _all(all_offers: Sequence[Offer]) -> Table:
    lines = [
        (network, each.host, *_figures(each))
        for network in dict.fromkeys(each.network for each in all_offers)
        for each in sorted(all_offers, key=lambda one: (one.batch, _most(one)))
        if each.network == network
    ]
    columns = ("network", "host", *_FIGURES)
    return Table("Every choice", columns, tuple(lines), frozenset(range(4, 9)), _without_cost(all_offers))
