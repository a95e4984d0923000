from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from quantkit.benchmark.results.results import Cell, Results, ServerTrial
from quantkit.errors import UserError
from quantkit.report.hosts import Offer, across_hosts, best, host_names, offers
from quantkit.report.page.table import Table
from quantkit.report.study.summary import summarize
from quantkit.report.write import make_report
from tests.report.synthetic import HOST, INT8, NATIVE, results, served

OTHER = {**HOST, "id": "ffffffffffffffff", "cpu": "Xeon", "usable_cores": 4}
PRICES = (4.0, 1.0)


@pytest.fixture(scope="module")
def runs() -> tuple[Results, Results]:
    """The second host is half as fast and costs a quarter."""
    fast = results(("net",), (1, 8), (NATIVE, INT8), {"native": 2.0, "INT8": 40.0})
    slow = results(("net",), (1, 8), (NATIVE, INT8), {"native": 1.0, "INT8": 20.0}, host=OTHER)
    return fast, slow


@pytest.fixture(scope="module")
def priced(runs: tuple[Results, Results]) -> tuple[Offer, ...]:
    return offers(summarize(runs, PRICES))


def test_the_best_is_found_by_hand(priced: tuple[Offer, ...]) -> None:
    chosen = dict(best("net", priced, None))
    assert chosen["throughput"].throughput == max(each.throughput for each in priced)
    assert chosen["p99"].p99 == min(each.p99 for each in priced)
    assert chosen["cost"].cost == min(each.cost or 0 for each in priced)
    assert (chosen["throughput"].host, chosen["cost"].host) == ("AMD EPYC 9R14, 8 cores", "Xeon, 4 cores")


def test_costs_are_of_the_price_of_each_host(priced: tuple[Offer, ...]) -> None:
    for each in priced:
        price = PRICES[each.host.startswith("Xeon")]
        assert each.cost == pytest.approx(price / 3600 / each.throughput * 1e6)


def test_a_bound_leaves_out_what_is_slower(priced: tuple[Offer, ...]) -> None:
    for bound in sorted(each.p99 for each in priced):
        fitting = [each for each in priced if each.p99 <= bound]
        fastest = max(fitting, key=lambda each: each.throughput)
        assert dict(best("net", priced, bound))["throughput"] == fastest
    assert list(best("net", priced, 0.0)) == []


def test_hosts_that_are_alike_are_told_apart(runs: tuple[Results, Results]) -> None:
    again = results(("net",), (1,), (NATIVE, INT8), host={**HOST, "id": "abcdef0123"})
    assert host_names(summarize([runs[0], again])) == {
        HOST["id"]: "AMD EPYC 9R14, 8 cores (012345)",
        "abcdef0123": "AMD EPYC 9R14, 8 cores (abcdef)",
    }


def test_a_choice_that_is_best_in_all_is_named_once(runs: tuple[Results, Results]) -> None:
    (part, *_) = make_report(runs, None, (1.0, 4.0), across_hosts=True).document.parts
    (verdict,) = part.verdicts
    assert verdict.startswith("net: most items per second, and least cost: ")
    assert verdict.count("AMD EPYC") == 1
    (_, chosen, _) = part.sections[0].blocks
    assert isinstance(chosen, Table)
    assert [line[1] for line in chosen.rows] == ["throughput, cost, p99"]


def test_the_price_of_a_host_is_shown_wherever_it_was_given(runs: tuple[Results, Results]) -> None:
    hosts = across_hosts(summarize((*runs, runs[0]), (4.0, 1.0, None))).sections[0].blocks[0]
    assert isinstance(hosts, Table)
    assert [line[2] for line in hosts.rows] == ["4.00", "1.00"]


def test_names_of_processors_go_without_their_marks(runs: tuple[Results, Results]) -> None:
    host = {**HOST, "cpu": "Intel(R) Xeon(R) Platinum 8275CL CPU @ 3.00GHz"}
    other = results(("net",), (1,), (NATIVE, INT8), host=host)
    assert list(host_names(summarize([other])).values()) == ["Intel Xeon Platinum 8275CL, 8 cores"]


def test_a_report_across_hosts_opens_with_them_and_keeps_ratios_within_each(runs: tuple[Results, Results]) -> None:
    report = make_report(runs, None, PRICES, across_hosts=True, latency_bound=1000.0)
    first, *of_runs = report.document.parts
    hosts = ("AMD EPYC 9R14, 8 cores", "Xeon, 4 cores")
    assert [part.title for part in of_runs] == [f"{run.run.title}: {host}" for run, host in zip(runs, hosts)]
    assert first.verdicts[0].startswith("net: most items per second with a p99 within 1000 ms: ")
    assert re.search(
        r"on AMD EPYC 9R14, 8 cores; least cost: [\d.]+ a million, .* on Xeon, 4 cores.$", first.verdicts[0]
    )
    titles = [block.title for section in first.sections for block in section.blocks if hasattr(block, "title")]
    assert titles == ["Hosts", "Best choices within a p99 of 1000 ms", "Every choice"]
    document = json.loads(report.files["report.json"])
    assert [(run["host"]["cpu"], run["price_per_hour"]) for run in document["runs"]] == [
        ("AMD EPYC 9R14", 4.0),
        ("Xeon", 1.0),
    ]
    assert [part.verdicts for part in of_runs] == [tuple(run["verdicts"]) for run in document["runs"]]


def test_different_hosts_are_refused_by_name_unless_asked_for(runs: tuple[Results, Results]) -> None:
    with pytest.raises(UserError, match=r"0123456789abcdef.*AMD EPYC.*ffff.*Xeon.*--across-hosts"):
        make_report(runs)
    with pytest.raises(UserError, match="a latency bound is for the best choice across hosts"):
        make_report(runs[:1], latency_bound=3.0)


def test_networks_that_nothing_keeps_within_the_bound_share_a_last_sentence() -> None:
    """Networks after the first are slower or faster by chance only; the bound lies between two of them."""
    run = results(("a", "b", "c"), (1,), (NATIVE,))
    by_p99 = sorted(offers(summarize([run])), key=lambda offer: offer.p99)
    fastest = by_p99[0].network
    others = [name for name in "abc" if name != fastest]
    (part, *_) = make_report([run], None, across_hosts=True, latency_bound=by_p99[0].p99).document.parts
    first, last = part.verdicts
    assert first.startswith(f"{fastest}: most items per second")
    assert last.startswith("Nothing measured keeps a p99 of ") and last.endswith(f" ms for {' and '.join(others)}.")
    (part, *_) = make_report([run], None, across_hosts=True, latency_bound=0.001).document.parts
    assert part.verdicts == ("Nothing measured keeps a p99 of 0.00100 ms for a, b and c.",)


@pytest.mark.parametrize(("price", "told"), [(None, False), (2.0, True)])
def test_why_latency_cells_have_no_cost_is_said(price: float | None, told: bool) -> None:
    run = results(("net",), (1,), (NATIVE,), scenario="latency")
    (part, *_) = make_report([run], None, (price,), across_hosts=True).document.parts
    notes = [block.note for block in part.sections[0].blocks if isinstance(block, Table)]
    assert [note.startswith("Latency cells have no cost") for note in notes] == [False, told, told]


@pytest.fixture(scope="module")
def served_runs() -> tuple[Results, Results]:
    """Rates within a p99 of 15 ms: 100 and 400 requests per second on one host, none and 250 on the other."""
    cells = [[served("net", NATIVE, 100.0), served("net", INT8, 400.0)]]
    cells.append([served("net", NATIVE, 0.0), served("net", INT8, 250.0)])
    hosts = (HOST, OTHER)
    made = [results(("net",), (1,), (NATIVE, INT8), scenario="server", host=host) for host in hosts]
    return replace(made[0], cells=tuple(cells[0])), replace(made[1], cells=tuple(cells[1]))


def trials_of(cell: Cell) -> tuple[ServerTrial, ...]:
    assert cell.server is not None
    return tuple(cell.server.trials)


def test_served_rates_are_offers_with_their_p99_and_cost(served_runs: tuple[Results, Results]) -> None:
    found = offers(summarize(served_runs, PRICES))
    assert [(each.contestant, each.scenario, each.throughput) for each in found] == [
        (NATIVE.name, "server", 100.0), (INT8.name, "server", 400.0), (INT8.name, "server", 250.0),
    ]  # fmt: skip
    rates = ((4.0, 100), (4.0, 400), (1.0, 250))
    assert [each.cost for each in found] == [pytest.approx(price / 3600 / rate * 1e6) for price, rate in rates]
    p99 = {trial.rate: trial.p99 for run in served_runs for cell in run.cells for trial in trials_of(cell)}
    assert [each.p99 for each in found] == [p99[each.throughput] for each in found]
    (part, *_) = make_report(served_runs, None, PRICES, across_hosts=True).document.parts
    (verdict,) = part.verdicts
    assert verdict.startswith("net: most items per second: 400/s, INT8 at batch size 1 on AMD EPYC 9R14, 8 cores")
    assert ", requests at random" in verdict


def test_a_closer_bound_takes_the_highest_rate_that_keeps_it(served_runs: tuple[Results, Results]) -> None:
    trials = [trial for trial in trials_of(served_runs[0].cells[1]) if trial.rate <= 400.0]
    assert len(trials) > 1
    for trial in trials:
        found = offers(summarize(served_runs[:1]), trial.p99)
        assert [each.throughput for each in found if each.contestant == INT8.name] == [trial.rate]
    (part, *_) = make_report(served_runs[:1], None, across_hosts=True, latency_bound=0.001).document.parts
    assert part.verdicts == ("Nothing measured keeps a p99 of 0.00100 ms for net.",)


def test_a_served_request_has_as_many_items_as_its_batch() -> None:
    cell = replace(served("net", INT8, 100.0), batch=4)
    run = replace(results(("net",), (4,), (NATIVE, INT8), scenario="server"), cells=(cell,))
    (offer,) = offers(summarize([run], [3.6]))
    assert (offer.throughput, offer.cost) == (400.0, pytest.approx(2.5))


def test_a_network_that_nothing_serves_within_its_bound_is_named() -> None:
    run = replace(results(("net",), (1,), (NATIVE,), scenario="server"), cells=(served("net", NATIVE, 0.0),))
    (part, *_) = make_report([run], None, across_hosts=True).document.parts
    assert part.verdicts == ("Nothing measured keeps its latency bound for net.",)
