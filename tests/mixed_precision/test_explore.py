"""The order of a search in a world whose layers give and cost what is known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import combinations
from types import SimpleNamespace
from typing import Any, Optional

import numpy as np
import pytest

from quantkit.evaluation.drop import Drop
from quantkit.fusion.fuse import Fused
from quantkit.mixed_precision.candidates import Candidate
from quantkit.mixed_precision.choose import Layers, Trial
from quantkit.mixed_precision.explore import Exploration, best, meets
from quantkit.mixed_precision.measurements import JudgedNetwork, TimeIsUp
from quantkit.quantization.goal import Goal
from quantkit.quantization.plan import QuantizationPlan
from quantkit.quantization.quantized_graph import QuantizedGraph
from tests.networks import fire, images
from tests.quantization.algorithms.networks import planned
from tests.quantized import int8_names

INT8_MS, FP32_MS = 2.0, 8.0


def check(
    layers: Iterable[str], points: float, extra: float, divergence: float = 1.0, again: bool = False
) -> JudgedNetwork:
    times = {"fp32": FP32_MS, "fp32_fused": 6.0, "int8": INT8_MS}
    mixed = {"mixed": INT8_MS + extra} if layers else {}
    drop = Drop(100, "top-1", 0.9, 0.9 - points / 100, points, points - 1, points + 1)
    return JudgedNetwork(frozenset(layers), again, divergence, drop, {**times, **mixed}, extra, 0.1)


@dataclass
class World:
    """Stands in for ``Measurements``: gains and costs add up, a point of accuracy is one of divergence."""

    gains: dict[str, float]
    costs: dict[str, float]
    affordable: Optional[int] = None
    checks: dict[tuple[Layers, bool], JudgedNetwork] = field(default_factory=dict)
    trials: dict[Layers, Trial] = field(default_factory=dict)
    made: int = 0

    @property
    def budget(self) -> Any:
        return SimpleNamespace(spent=0.0 if self.affordable is None else self.made / self.affordable)

    def _pay(self, overtime: bool = False) -> None:
        if self.budget.spent >= 1 and not overtime:
            raise TimeIsUp
        self.made += 1

    def left(self, layers: Layers) -> float:
        return sum(gain for name, gain in self.gains.items() if name not in layers)

    def cost(self, layers: Layers) -> float:
        return sum(self.costs[name] for name in layers)

    def knows(self, layers: Layers) -> bool:
        return layers in self.trials

    def trial(self, layers: Layers) -> Trial:
        if layers not in self.trials:
            self._pay()
            self.trials[layers] = Trial(self.left(layers), self.cost(layers), 0.0)
        return self.trials[layers]

    def check(self, layers: Layers, again: bool = False, overtime: bool = False) -> JudgedNetwork:
        if (layers, again) not in self.checks:
            self._pay(overtime)
            points = self.left(layers) * (0.5 if again else 1.0)
            self.checks[layers, again] = check(layers, points, self.cost(layers), points, again)
        return self.checks[layers, again]


@pytest.fixture(scope="module")
def network(engine: None) -> tuple[Fused, QuantizationPlan]:
    return planned(fire(), images(6))


def explored(
    network: tuple[Fused, QuantizationPlan],
    goal: Goal,
    seed: int,
    works: bool = False,
    affordable: Optional[int] = None,
) -> tuple[World, JudgedNetwork, bool]:
    fused, plan = network
    layers = int8_names(fused.graph, plan)
    random = np.random.default_rng(seed)
    world = World(dict(zip(layers, random.uniform(0.1, 2, len(layers)))), dict.fromkeys(layers, 0.25), affordable)
    adjusted = SimpleNamespace(network=QuantizedGraph(fused.graph, plan), algorithms=SimpleNamespace(works=works))
    found = [Candidate(name, frozenset({name})) for name in layers]
    search = Exploration(world, adjusted, goal, found, lambda stream, total, title: stream)  # type: ignore[arg-type]
    ended = search.run()
    return world, best(list(world.checks.values()), goal), ended


SEEDS = range(8)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_goal_is_met_with_the_fewest_layers(network: tuple[Fused, QuantizationPlan], seed: int) -> None:
    world, found, ended = explored(network, Goal(max_drop=1.5), seed)
    assert found.drop.loss <= 1.5
    assert not ended
    for fewer in combinations(world.gains, len(found.layers) - 1):
        assert world.left(frozenset(fewer)) > 1.5


@pytest.mark.parametrize("seed", SEEDS)
def test_speed_alone_gives_back_what_it_allows(network: tuple[Fused, QuantizationPlan], seed: int) -> None:
    # Twice as fast as FP32 leaves 2 ms, eight layers; 3.2 times 0.5 ms, two.
    _, found, _ = explored(network, Goal(min_speedup=2.0), seed)
    assert found.divergence == 0
    world, found, _ = explored(network, Goal(min_speedup=3.2), seed)
    assert found.speedup >= 3.2
    assert found.layers == frozenset(sorted(world.gains, key=world.gains.__getitem__)[-2:])


def test_accuracy_is_never_bought_with_speed_that_is_needed(network: tuple[Fused, QuantizationPlan]) -> None:
    goal = Goal(max_drop=0.0, min_speedup=3.2)
    world, found, ended = explored(network, goal, 0)
    assert not meets(found, goal)
    assert found.speedup >= 3.2
    assert found.drop.loss == min(c.drop.loss for c in world.checks.values() if c.speedup >= 3.2)
    assert len(found.layers) == 2
    assert not ended


def test_no_search_where_int8_is_good_enough_or_too_slow(network: tuple[Fused, QuantizationPlan]) -> None:
    for goal in (Goal(max_drop=50), Goal(min_speedup=4.1), Goal(max_drop=0, min_speedup=4.1)):
        world, found, ended = explored(network, goal, 0)
        assert (world.made, found.layers, ended) == (1, frozenset(), False)


def test_a_drop_of_nothing_takes_every_layer(network: tuple[Fused, QuantizationPlan]) -> None:
    world, found, _ = explored(network, Goal(max_drop=0), 0)
    assert found.layers == world.gains.keys()


def test_the_last_network_is_adjusted_again_and_kept_if_better(
    network: tuple[Fused, QuantizationPlan],
) -> None:
    _, plain, _ = explored(network, Goal(max_drop=1.5), 0)
    _, again, _ = explored(network, Goal(max_drop=1.5), 0, works=True)
    assert (plain.again, again.again) == (False, True)
    assert again.layers == plain.layers
    assert again.drop.loss < plain.drop.loss


@pytest.mark.parametrize("affordable", range(1, 20))
def test_a_budget_ends_the_search_with_the_best_so_far(
    network: tuple[Fused, QuantizationPlan], affordable: int
) -> None:
    goal = Goal(max_drop=1.5)
    world, found, ended = explored(network, goal, 0, affordable=affordable)
    assert world.made <= affordable + 1
    assert found.drop.loss <= check((), world.left(frozenset()), 0).drop.loss
    assert ended or meets(found, goal)
    if affordable > 4:
        assert found.layers


def explored_in(
    network: tuple[Fused, QuantizationPlan], world: World, goal: Goal, candidates: Iterable[str]
) -> JudgedNetwork:
    """The best of what a search in ``world`` checks, with single layers as candidates."""
    fused, plan = network
    adjusted = SimpleNamespace(network=QuantizedGraph(fused.graph, plan), algorithms=SimpleNamespace(works=False))
    found = [Candidate(name, frozenset({name})) for name in candidates]
    Exploration(world, adjusted, goal, found, lambda stream, total, title: stream).run()  # type: ignore[arg-type]
    return best(list(world.checks.values()), goal)


def test_a_set_between_those_looked_at_first_may_meet_the_goal(network: tuple[Fused, QuantizationPlan]) -> None:
    class Coarse(World):
        def check(self, layers: Layers, again: bool = False, overtime: bool = False) -> JudgedNetwork:
            judged = super().check(layers, again, overtime)
            self.checks[layers, again] = replace(judged, drop=replace(judged.drop, loss=9.0 * (len(layers) != 3)))
            return self.checks[layers, again]

    layers = int8_names(network[0].graph, network[1])
    assert len(layers) == 5
    world = Coarse(dict(zip(layers, (5.0, 4.0, 3.0, 2.0, -1.0))), dict.fromkeys(layers, 0.2))
    assert explored_in(network, world, Goal(max_drop=1.0), layers).layers == frozenset(layers[:3])


@pytest.mark.parametrize("goal", [Goal(max_drop=1.0), Goal(max_drop=1.0, min_speedup=2.5)])
def test_where_measured_candidates_do_not_suffice_others_follow_one_by_one(
    network: tuple[Fused, QuantizationPlan], goal: Goal
) -> None:
    layers = int8_names(network[0].graph, network[1])
    # All in FP32 takes 2 + 5 x 0.25 = 3.25 ms, and is 2.5 times as fast as 8 ms up to 3.2 ms.
    world = World(dict(zip(layers, (0.5, 2.0, 3.0, 1.0, 0.4))), dict.fromkeys(layers, 0.25))
    # The path ends at the second and the third; those that were not measured have to follow.
    found = explored_in(network, world, goal, layers[1:3])
    assert found.layers == {*layers[1:3], layers[3]}
    assert meets(found, goal)


def test_layers_that_were_not_measured_follow_those_of_the_path(network: tuple[Fused, QuantizationPlan]) -> None:
    layers = int8_names(network[0].graph, network[1])
    world = World(dict(zip(layers, (-0.1, 2.0, 3.0, 1.0, 0.4))), dict.fromkeys(layers, 0.25))
    explored_in(network, world, Goal(max_drop=0.5), layers[:3])
    checked = [each for each, _ in world.checks]
    # The first layer was measured, and gains nothing.
    first = checked[checked.index(frozenset(layers)) + 1]
    assert len(first) == 3
    assert first > {*layers[1:3]}
    assert layers[0] not in first


def test_a_budget_that_ends_there_keeps_all_layers(network: tuple[Fused, QuantizationPlan]) -> None:
    layers = int8_names(network[0].graph, network[1])
    gains, goal = dict.fromkeys(layers, 1.0), Goal(max_drop=0.5)
    # Six measurements reach the check of all layers.
    for affordable in range(6, 20):
        world = World(gains, dict.fromkeys(layers, 0.25), affordable)
        found = explored_in(network, world, goal, layers[:1])
        assert meets(found, goal), affordable


@pytest.mark.parametrize("affordable", range(8, 20))
def test_what_the_search_had_come_to_is_judged_at_the_end(
    network: tuple[Fused, QuantizationPlan], affordable: int
) -> None:
    world, found, ended = explored(network, Goal(max_drop=0.0), 0, affordable=affordable)
    dearest = sorted(world.gains, key=world.gains.__getitem__, reverse=True)
    path = [frozenset(dearest[:count]) for count in range(1, len(dearest) + 1)]
    measured = [name for name in world.gains if frozenset({name}) in world.trials]
    if ended and len(measured) == len(world.gains):
        assert found.layers == max((layers for layers in path if layers in world.trials), key=len)


def test_layers_that_only_came_with_their_group_are_taken_out_again(network: tuple[Fused, QuantizationPlan]) -> None:
    fused, plan = network
    useful, useless, *others = int8_names(fused.graph, plan)
    world = World(
        {useful: 2.0, useless: 0.0, **dict.fromkeys(others, 0.1)}, dict.fromkeys((useful, useless, *others), 0.2)
    )
    adjusted = SimpleNamespace(network=QuantizedGraph(fused.graph, plan), algorithms=SimpleNamespace(works=False))
    group = [Candidate("both", frozenset({useful, useless}))]
    goal = Goal(max_drop=1.0)
    Exploration(world, adjusted, goal, group, lambda stream, total, title: stream).run()  # type: ignore[arg-type]
    assert best(list(world.checks.values()), goal).layers == {useful}


def test_the_best_of_those_that_meet_the_goal_is_the_fastest() -> None:
    goal = Goal(max_drop=1.0)
    slow, fast = check("ab", 0.5, 0.9), check("c", 0.9, 0.3)
    missing, all_int8 = check("d", 1.1, 0.1), check((), 3, 0)
    assert best([all_int8, slow, missing, fast], goal) is fast
    # The subset is no faster, by the clock's whim, and still the better network.
    assert best([all_int8, check("ab", 0.5, 0.2), check("a", 0.8, 0.25)], goal).layers == {"a"}
    # All in FP32 is faster here than many changes between integers and FP32.
    assert best([all_int8, check("ab", 0.5, 0.2), check("a", 0.8, 0.5)], goal).layers == {"a", "b"}
    again = check("c", 0.2, 0.4, again=True)
    assert best([all_int8, fast, again], goal) is again


def test_the_best_of_those_that_miss_it_loses_least() -> None:
    goal = Goal(max_drop=1.0, min_speedup=3.5)
    checks = [check((), 3, 0), check("a", 2.0, 0.1, 0.2), check("b", 2.0, 0.1, 0.1), check("abc", 0.0, 1.9)]
    assert best(checks, goal).layers == {"b"}
    too_slow = [replace(each, milliseconds={**each.milliseconds, "fp32": 2.0}) for each in checks]
    assert best(too_slow, goal).layers == frozenset()
