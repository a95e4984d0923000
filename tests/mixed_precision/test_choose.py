"""The arithmetic of choosing against brute force."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, pairwise

import numpy as np
import pytest

from quantkit.mixed_precision.choose import (
    Layers,
    Trial,
    first_meeting,
    gain_per_millisecond,
    greedy_path,
    leading,
    trimmed,
)

SEEDS = range(12)
NAMES = [f"layer{index}" for index in range(8)]
SINGLE = [frozenset({name}) for name in NAMES]


def additive(gains: dict[str, float], costs: dict[str, float]) -> Callable[[Layers], Trial]:
    """A network whose layers give and cost what they do whatever the others are."""

    def trial(layers: Layers) -> Trial:
        return Trial(sum(gains.values()) - sum(gains[x] for x in layers), sum(costs[x] for x in layers), 0.0)

    return trial


def drawn(seed: int) -> tuple[dict[str, float], dict[str, float]]:
    random = np.random.default_rng(seed)
    return dict(zip(NAMES, random.uniform(0.1, 2, 8))), dict(zip(NAMES, random.uniform(0.1, 1, 8)))


def subsets() -> list[Layers]:
    return [frozenset(each) for size in range(9) for each in combinations(NAMES, size)]


def gain(trial: Callable[[Layers], Trial], layers: Layers) -> float:
    return trial(frozenset()).divergence - trial(layers).divergence


@pytest.mark.parametrize("seed", SEEDS)
def test_of_equal_costs_and_additive_gains_the_path_is_the_optimum(seed: int) -> None:
    gains, _ = drawn(seed)
    trial = additive(gains, dict.fromkeys(NAMES, 0.5))
    path = list(greedy_path(SINGLE, trial, lambda found: True))
    assert [len(layers) for layers in path] == list(range(1, 9))
    for layers in path:
        best = max(gain(trial, other) for other in subsets() if len(other) == len(layers))
        assert gain(trial, layers) == pytest.approx(best)


@pytest.mark.parametrize("seed", SEEDS)
def test_under_a_limit_it_is_within_one_layer_of_the_knapsack_optimum(seed: int) -> None:
    gains, costs = drawn(seed)
    trial = additive(gains, costs)
    limit = 0.4 * sum(costs.values())
    *_, last = greedy_path(SINGLE, trial, lambda found: found.milliseconds <= limit)
    best = max(gain(trial, other) for other in subsets() if trial(other).milliseconds <= limit)
    assert trial(last).milliseconds <= limit
    assert best - max(gains.values()) < gain(trial, last) <= best + 1e-12


@pytest.mark.parametrize("seed", SEEDS)
def test_where_worth_only_falls_it_is_the_greedy_that_looks_at_all(seed: int) -> None:
    random = np.random.default_rng(seed)
    covered = {name: set(random.choice(30, random.integers(2, 9), replace=False)) for name in NAMES}
    costs = drawn(seed)[1]
    groups = [*SINGLE, *(frozenset(random.choice(NAMES, 2, replace=False)) for _ in range(4))]

    def trial(layers: Layers) -> Trial:
        seen = set().union(*(covered[name] for name in layers)) if layers else set()
        return Trial(30.0 - len(seen), sum(costs[name] for name in layers), 0.0)

    def looked_at_all() -> list[Layers]:
        path, chosen = [], frozenset[str]()
        while True:
            worth = [gain_per_millisecond(trial(chosen), trial(chosen | group), 0.0) for group in SINGLE]
            if max(worth) <= 0:
                return path
            chosen = chosen | SINGLE[int(np.argmax(worth))]
            path.append(chosen)

    assert list(greedy_path(SINGLE, trial, lambda found: True)) == looked_at_all()
    grouped = list(greedy_path(groups, trial, lambda found: True))
    assert all(before < after for before, after in pairwise(grouped))
    assert trial(grouped[-1]).divergence == trial(frozenset(NAMES)).divergence


def test_useless_and_harmful_layers_are_passed_over() -> None:
    trial = additive({"good": 1.0, "useless": 0.0, "harmful": -1.0}, dict.fromkeys(("good", "useless", "harmful"), 1.0))
    sets = [frozenset({name}) for name in ("useless", "harmful", "good")]
    assert list(greedy_path(sets, trial, lambda found: True)) == [frozenset({"good"})]


def test_what_is_of_worth_only_together_with_others_is_found_after_them() -> None:
    left = {"": 1.0, "a": 0.8, "b": 1.0, "ab": 0.1}
    sets = [frozenset("b"), frozenset("a")]
    path = greedy_path(sets, lambda found: Trial(left["".join(sorted(found))], len(found), 0.0), lambda found: True)
    assert list(path) == [frozenset("a"), frozenset("ab")]


def test_a_cost_counts_as_far_as_it_is_beyond_doubt() -> None:
    start = Trial(1.0, 0.0, 0.0)
    assert gain_per_millisecond(start, Trial(0.5, 0.6, 0.1), 0.0) == pytest.approx(0.5 / 0.5)
    assert gain_per_millisecond(start, Trial(0.5, 0.6, 0.1), 0.7) == pytest.approx(0.5 / 0.7)
    assert gain_per_millisecond(start, Trial(0.5, -0.2, 0.1), 0.3) == pytest.approx(0.5 / 0.3)
    assert gain_per_millisecond(start, Trial(0.5, 0.0, 0.0), 0.0) == pytest.approx(0.5 / 1e-3)
    assert gain_per_millisecond(Trial(1.0, 1.0, 0.4), Trial(0.5, 2.0, 0.3), 0.0) == pytest.approx(0.5 / 0.5)


def test_where_noise_hides_the_costs_gains_decide() -> None:
    gains = dict(zip(NAMES, (0.1, 0.2, 0.3, 0.4, 1.5, 0.6, 0.7, 0.8)))
    random = np.random.default_rng(0)
    noisy: dict[Layers, Trial] = {}

    def trial(layers: Layers) -> Trial:
        noise = random.uniform(1, 4)
        return noisy.setdefault(layers, Trial(5 - sum(gains[x] for x in layers), random.normal(0, noise / 2), noise))

    assert next(greedy_path(SINGLE, trial, lambda found: True)) == {"layer4"}


@pytest.mark.parametrize("needed", range(1, 22))
def test_the_first_that_meets_is_found_with_few_looks(needed: int) -> None:
    path = [frozenset(map(str, range(size))) for size in range(1, 21)]
    looks = 0

    def meets(layers: Layers) -> bool:
        nonlocal looks
        looks += 1
        return len(layers) >= needed

    taken = []
    found = first_meeting((taken.append(layers) or layers for layers in path), meets)
    assert found == (path[needed - 1] if needed <= 20 else None)
    assert looks <= 2 * np.ceil(np.log2(needed)) + 1
    assert len(taken) <= max(1, 2 * (needed - 1))


def test_no_path_meets_nothing() -> None:
    assert first_meeting([], lambda layers: True) is None


@pytest.mark.parametrize("seed", SEEDS)
def test_trimming_leaves_what_is_needed_and_no_more(seed: int) -> None:
    random = np.random.default_rng(seed)
    ways = [frozenset(random.choice(NAMES, random.integers(1, 5), replace=False)) for _ in range(3)]

    def meets(layers: Layers) -> bool:
        return any(way <= layers for way in ways)

    found = trimmed(frozenset(NAMES), list(random.permutation(NAMES)), meets)
    assert meets(found)
    assert not any(meets(found - {layer}) for layer in found)


def test_the_leading_sets_end_with_the_last_that_is_allowed() -> None:
    sets = [frozenset(map(str, range(count))) for count in range(1, 8)]
    for last in range(8):
        seen: list[Layers] = []

        def allowed(layers: Layers, last: int = last, seen: list[Layers] = seen) -> bool:
            seen.append(layers)
            return len(layers) <= last

        assert list(leading(sets, allowed)) == sets[:last]
        assert len(seen) <= 4
    assert not leading([], lambda layers: True)
