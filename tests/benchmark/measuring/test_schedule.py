from __future__ import annotations

from itertools import combinations

import pytest

from quantkit.benchmark.measuring.schedule import (
    LEAST_ROUNDS,
    ROUNDS,
    Forecast,
    Pace,
    affordable,
    least_cost,
    pace,
    share,
)


def cost(requests: list[float], rounds: int, seconds: float) -> float:
    """Of rounds that end with the request that runs when their time is over, a warm-up of twice that, and binding."""
    return sum(
        rounds * (max(request, seconds) + min(request, seconds) / 2) + max(request, 2 * seconds) + 0.3
        for request in requests
    )


def test_without_a_budget_the_pace_is_the_most_thorough() -> None:
    assert pace([100.0], None) == Pace(ROUNDS, 1.0, 2.0)


@pytest.mark.parametrize("requests", [[0.001], [0.5, 0.05], [3.0, 0.4, 0.3, 0.1], [0.2, 0.02]])
@pytest.mark.parametrize("available", [0.5, 1.5, 3, 4, 6, 9, 14, 20, 40, 80, 200])
def test_the_pace_has_as_many_rounds_as_fit_and_then_as_long_ones(requests: list[float], available: float) -> None:
    slices = (1.0, 0.7, 0.5, 0.35, 0.25, 0.15, 0.1)
    fitting = [
        (rounds, seconds)
        for rounds in range(LEAST_ROUNDS, ROUNDS + 1)
        for seconds in slices
        if cost(requests, rounds, seconds) <= available
    ]
    rounds, seconds = max(fitting, default=(LEAST_ROUNDS, slices[-1]))
    assert pace(requests, available) == Pace(rounds, seconds, 2 * seconds)


def test_what_exactly_fits_is_taken() -> None:
    assert pace([0.25], cost([0.25], ROUNDS, 1.0)) == Pace(ROUNDS, 1.0, 2.0)


@pytest.mark.parametrize("request_", [0.001, 0.05, 0.15, 0.5])
def test_the_least_cost_is_that_of_three_short_rounds(request_: float) -> None:
    assert least_cost(request_) == pytest.approx(cost([request_], 3, 0.1))


@pytest.mark.parametrize("requests", [[0.001], [0.5, 0.05], [3.0, 0.4, 0.3, 0.1], [200.0, 1.0]])
@pytest.mark.parametrize("spare", [0.0, 5.0, 50.0])
def test_the_pace_fits_where_the_least_fits(requests: list[float], spare: float) -> None:
    available = sum(map(least_cost, requests)) + spare
    found = pace(requests, available)
    # A round ends with the request that is running when its time is over.
    spent = sum(found.rounds * max(request, found.seconds) + max(request, found.warm_up) for request in requests)
    assert LEAST_ROUNDS <= found.rounds <= ROUNDS
    assert spent <= available


def test_more_time_never_means_fewer_rounds() -> None:
    rounds = [pace([0.2, 0.02], seconds).rounds for seconds in (1, 3, 5, 10, 20, 100)]
    assert rounds == sorted(rounds) and rounds[0] < rounds[-1]


def test_affordable_takes_as_many_as_any_choice_could() -> None:
    costs = {"a": 5.0, "b": 1.0, "c": 3.0, "d": 40.0}
    for seconds in (0, 1, 4, 8, 9, 48, 49, 100):
        found = affordable(costs, dict.fromkeys(costs, 1), seconds)
        choices = [set(each) for size in range(5) for each in combinations(costs, size)]
        fitting = [each for each in choices if sum(costs[key] for key in each) <= seconds]
        assert found in fitting and len(found) == max(map(len, fitting))


def test_a_baseline_is_worth_the_ratios_that_refer_to_it() -> None:
    costs = {"baseline": 8.0, "one": 3.0, "two": 3.0, "three": 3.0}
    worth = {"baseline": 4, "one": 1, "two": 1, "three": 1}
    assert affordable(costs, worth, 12) == {"baseline", "one"}
    assert affordable(costs, worth, 7) == {"one", "two"}


def test_shares_of_all_networks_in_turn_use_up_the_time() -> None:
    macs, left = {"small": 1, "large": 9, "none": 0}, 100.0
    got = {}
    for position, name in enumerate(macs):
        got[name] = left * share({each: macs[each] for each in list(macs)[position:]}, name)
        left -= got[name]
    assert left == pytest.approx(0.0)
    assert got["large"] > got["small"] > 100 / 6


def test_a_share_is_half_by_number_and_half_by_arithmetic() -> None:
    assert share({"small": 1, "large": 9, "none": 0}, "large") == pytest.approx(1 / 6 + 9 / 20)
    assert share({"small": 1, "large": 9, "none": 0}, "none") == pytest.approx(1 / 6)
    assert share({"none": 0, "nothing": 0}, "none") == pytest.approx(1 / 2)


def test_a_forecast_scales_what_it_has_seen() -> None:
    forecast = Forecast({"one": 1000, "two": 3000, "unknown": 0})
    assert forecast.seconds("one", "native", 1) is None
    forecast.learn("one", "native", 2, 0.5)
    assert forecast.has_seen("one", "native") and not forecast.has_seen("two", "native")
    assert forecast.seconds("one", "native", 8) == pytest.approx(2.0)
    forecast.learn("one", "native", 4, 2.0)
    assert forecast.seconds("one", "native", 8) == pytest.approx(4.0)
    forecast.learn("one", "native", 2, 0.5)
    # Of the other network nothing is known but its size.
    assert forecast.seconds("two", "native", 2) == pytest.approx(1.5)
    assert forecast.seconds("two", "int8", 2) is None
    forecast.learn("unknown", "native", 1, 7.0)
    assert forecast.seconds("unknown", "native", 2) == pytest.approx(14.0)
