"""The choice of layers on machines whose times are known, against the best of all choices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations, pairwise

import numpy as np
import pytest

from quantkit.evaluation.latency import median_interval
from quantkit.mixed_precision.candidates import Candidate
from quantkit.mixed_precision.choose import Layers
from quantkit.mixed_precision.faster import Choice, Gain, Step, faster_layers, reasons

NAMES = "abcdefgh"
NONE: Layers = frozenset()


def chain() -> list[Candidate]:
    """Every run of successive layers, the long ones first."""
    return [
        Candidate(f"{NAMES[start]} to {NAMES[start + size - 1]}", frozenset(NAMES[start : start + size]))
        for size in range(len(NAMES), 0, -1)
        for start in range(len(NAMES) - size + 1)
    ]


class Machine:
    """Layers in a chain: each takes its time in INT8 or in FP32, and each change of precision a conversion."""

    def __init__(self, seed: int, conversion: float = 0.3, noise: float = 0.0) -> None:
        random = np.random.default_rng(seed)
        self.int8, self.fp32 = random.uniform(0.5, 1.5, (2, len(NAMES)))
        self.conversion, self.noise, self.random = conversion, noise, random
        self.timings: list[tuple[Layers, Layers]] = []

    def milliseconds(self, in_fp32: Layers) -> float:
        fp32 = [name in in_fp32 for name in NAMES]
        # The input and the output of the network are FP32.
        ends = [True, *fp32, True]
        changes = sum(before != after for before, after in pairwise(ends))
        return float(np.where(fp32, self.fp32, self.int8).sum()) + self.conversion * changes

    def timed(self, before: Layers, after: Layers) -> Gain:
        self.timings.append((before, after))
        saved = self.milliseconds(before) - self.milliseconds(after)
        interval = median_interval(saved + self.random.normal(0, self.noise, 40))
        return Gain(interval.median, interval.low, interval.high, self.milliseconds(before))

    def best(self) -> float:
        sets = (frozenset(each) for size in range(len(NAMES) + 1) for each in combinations(NAMES, size))
        return min(map(self.milliseconds, sets))


def choice_of(machine: Machine, spent: Callable[[], float] = lambda: 0.0) -> Choice:
    return faster_layers(chain(), machine.timed, spent)


@pytest.mark.parametrize("conversion", [0.0, 0.1, 0.3, 1.0])
@pytest.mark.parametrize("seed", range(8))
def test_on_a_quiet_machine_the_choice_is_the_best_or_next_to_it(seed: int, conversion: float) -> None:
    machine = Machine(seed, conversion)
    choice = choice_of(machine)
    chosen = machine.milliseconds(frozenset(choice.returned))
    ends = machine.milliseconds(NONE), machine.milliseconds(frozenset(NAMES))
    assert chosen <= min(ends)
    assert chosen <= 1.02 * machine.best()
    assert (choice.measured, choice.complete) == (len(chain()), True)


@pytest.mark.parametrize("seed", range(8))
def test_where_all_is_equally_fast_noise_returns_nothing(seed: int) -> None:
    machine = Machine(seed, conversion=0.0, noise=0.2)
    machine.fp32 = machine.int8
    assert choice_of(machine).returned == {}


@pytest.mark.parametrize("seed", range(4))
def test_noise_hides_small_differences_only(seed: int) -> None:
    machine = Machine(seed, noise=0.1)
    assert machine.milliseconds(frozenset(choice_of(machine).returned)) <= 1.1 * machine.best()


def test_one_lucky_timing_is_not_enough() -> None:
    gains = iter([Gain(1.0, 0.5, 1.5, 9.0), Gain(0.1, -0.1, 0.3, 9.0)])
    assert faster_layers([Candidate("a", frozenset("a"))], lambda *_: next(gains), lambda: 0.0).returned == {}


@pytest.mark.parametrize("second", ["a", "bc"], ids=["taken back", "added"])
def test_one_lucky_timing_revises_nothing(second: str) -> None:
    """Two layers return, and then a part of them, or one more, wins in the first timing alone."""
    lucky = iter([True])

    def timed(before: Layers, after: Layers) -> Gain:
        first = (before, after) == (NONE, frozenset("ab"))
        again = before == frozenset("ab") and after in (frozenset("b"), frozenset("abc")) and next(lucky, False)
        return Gain(1.0, 0.5 if first or again else -0.5, 1.5, 9.0)

    choice = faster_layers([Candidate(each, frozenset(each)) for each in ("ab", second)], timed, lambda: 0.0)
    assert choice.returned.keys() == {"a", "b"}
    assert next(lucky, None) is None


def test_what_wins_among_others_but_not_alone_is_taken_back() -> None:
    """Of a group that is faster in FP32 one member is not: it returns to INT8, and the others keep their step."""
    times = {NONE: 10.0, frozenset("ab"): 8.0, frozenset("a"): 7.0, frozenset("b"): 11.0}

    def timed(before: Layers, after: Layers) -> Gain:
        saved = times[before] - times[after]
        # Alone, no timing tells that the first is faster.
        unknown = (before, after) == (NONE, frozenset("a"))
        return Gain(saved, -1.0 if unknown else saved - 0.1, saved + 0.1, times[before])

    groups = [Candidate(" and ".join(layers), frozenset(layers)) for layers in ("ab", "b", "a")]
    choice = faster_layers(groups, timed, lambda: 0.0)
    assert choice.returned == {"a": Step("a and b", Gain(2.0, 1.9, 2.1, 10.0))}


def ticking(step: float) -> Callable[[], float]:
    """A budget of which each look spends a part."""

    def steps() -> Iterator[float]:
        spent = 0.0
        while True:
            yield spent
            spent += step

    numbers = steps()
    return lambda: next(numbers)


def test_half_of_the_time_is_for_timing_candidates_alone() -> None:
    machine = Machine(1)
    choice = choice_of(machine, ticking(0.5 / 9))
    assert (choice.measured, choice.complete) == (9, False)
    assert [before for before, _ in machine.timings[:9]] == [NONE] * 9
    assert len(machine.timings) < 20


def test_without_time_nothing_is_returned() -> None:
    assert choice_of(Machine(1), lambda: 1.0) == Choice({}, 0, False)


def test_the_reason_counts_the_layers_of_a_step() -> None:
    gain = Gain(0.12345, 0.08, 0.15, 3.4)
    together, alone = Step("every 3x3 grouped Convolution", gain), Step("d", gain)
    said = reasons({"a": together, "b": together, "c": together, "d": alone})
    assert said["d"] == "returned to FP32: faster there by 0.123 ms [0.08, 0.15] of 3.4 ms where it was quantized"
    assert said["a"] == said["c"]
    assert "returned to FP32 with 2 others (every 3x3 grouped Convolution): faster there" in said["a"]
    assert "with 1 other (every" in reasons({"a": together, "b": together})["a"]
