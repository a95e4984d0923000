"""Throughput, latency and ratios with intervals, computed from raw clock readings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from quantkit.benchmark.results.results import Cell, Ticks
from quantkit.extras import using

Metric = Literal["throughput", "latency"]

_RESAMPLES = 4000
_CONFIDENCE = 0.95
_ENOUGH_TO_DRAW_FROM = 8


@dataclass(frozen=True)
class Ratio:
    """The speed of one cell relative to another, above 1 is better; ``low`` to ``high`` is a 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """``faster`` or ``slower`` if the interval excludes 1, else ``not distinguishable``."""
        if self.low > 1:
            return "faster"
        return "slower" if self.high < 1 else "not distinguishable"


def work(ticks: Ticks, low: int, high: int) -> float:
    """The requests that one instance served between two times; one that crosses an edge counts by its part inside."""
    starts, ends = np.array(ticks.starts), np.array(ticks.ends)
    inside = np.minimum(ends, high) - np.maximum(starts, low)
    return float(np.sum(np.clip(inside, 0, None) / (ends - starts)))


def finished(cell: Cell) -> int:
    """The number of requests that ended inside the common windows of all rounds."""
    return sum(_ended_between(ticks, *turn.window) for turn in cell.rounds for ticks in turn.instances)


def _ended_between(ticks: Ticks, low: int, high: int) -> int:
    return sum(low < end <= high for end in ticks.ends)


def throughput(cell: Cell) -> float:
    """Items per second: what all instances served inside the common windows, over the windows' length."""
    done, seconds = _work_and_time(cell)
    return float(cell.batch * done.sum() / seconds.sum())


def latencies(cell: Cell) -> np.ndarray:
    """The duration of every request of all rounds and instances, in ms."""
    return np.concatenate([_durations(ticks) for turn in cell.rounds for ticks in turn.instances])


def mean_latency(cell: Cell) -> float:
    """The mean over instances of each one's mean duration of a request, in ms."""
    total, count = _time_and_count(cell)
    return float((total.sum(0) / count.sum(0)).mean())


def ratio(cell: Cell, baseline: Cell, metric: Metric, paired: bool = True) -> Ratio:
    """The speed of ``cell`` relative to ``baseline``, with a 95 % interval over rounds.

    Rounds, not requests, are the samples: requests of one round share the state of the machine. If the cells were
    measured in turns, rounds with the same number are paired, so that the state cancels, unless ``paired`` is false.

    The interval is a bootstrap's, its levels widened by Student's t, after Hesterberg, "What Teachers Should Know
    About the Bootstrap" (2015), section 5.2, "expanded percentile interval". No resample lies outside the
    observations, so with few rounds no levels make it wide enough: then it is Student's t interval of the
    logarithm, or Welch's if the rounds are not paired. With one round it is unbounded.
    """
    better, value = (_speed(cell, metric), _speed(baseline, metric))
    rounds, others = len(cell.rounds), len(baseline.rounds)
    paired = paired and rounds == others and _in_turns(cell, baseline)
    estimate = float(better(np.arange(rounds)[None])[0] / value(np.arange(others)[None])[0])
    if min(rounds, others) < 2:
        return Ratio(estimate, 0.0, float("inf"))
    if min(rounds, others) < _ENOUGH_TO_DRAW_FROM:
        one, other = np.log(better(np.arange(rounds)[:, None])), np.log(value(np.arange(others)[:, None]))
        return _around(estimate, [one - other] if paired else [one, other])
    random = np.random.default_rng(0)
    drawn = random.integers(rounds, size=(_RESAMPLES, rounds))
    drawn_other = drawn if paired else random.integers(others, size=(_RESAMPLES, others))
    low, high = np.quantile(better(drawn) / value(drawn_other), _levels(min(rounds, others)))
    return Ratio(estimate, float(low), float(high))


def paired_ratio(speeds: Sequence[float], others: Sequence[float]) -> Ratio:
    """The ratio of two speeds that were measured in the same rounds: a geometric mean, and Student's t interval.

    With one round it is unbounded.
    """
    logarithms = np.log(speeds) - np.log(others)
    estimate = float(np.exp(logarithms.mean()))
    return Ratio(estimate, 0.0, float("inf")) if logarithms.size < 2 else _around(estimate, [logarithms])


def geometric_mean(ratios: Sequence[Ratio]) -> Ratio:
    """The geometric mean of at least one ratio, measured independently.

    After Fleming and Wallace, "How Not to Lie with Statistics: The Correct Way to Summarize Benchmark Results" (1986).
    The margins of the logarithms are independent, so their squares add up. Unbounded if one ratio is.
    """
    value, low, high = np.log([[each.value, max(each.low, 0.0) or np.nan, each.high] for each in ratios]).T
    mean = float(np.exp(value.mean()))
    if not np.isfinite([low, high]).all():
        return Ratio(mean, 0.0, float("inf"))
    below, above = (float(np.linalg.norm(margin)) / len(ratios) for margin in (value - low, high - value))
    return Ratio(mean, mean * float(np.exp(-below)), mean * float(np.exp(above)))


def _in_turns(cell: Cell, other: Cell) -> bool:
    """Whether the rounds of each cell began before those of the other had ended."""
    times = [[turn.at for turn in each.rounds] for each in (cell, other)]
    return max(map(min, times)) <= min(map(max, times))


def _around(estimate: float, logarithms: Sequence[np.ndarray]) -> Ratio:
    factor = np.exp(_half_width(logarithms))
    return Ratio(estimate, float(estimate / factor), float(estimate * factor))


def _half_width(samples: Sequence[np.ndarray]) -> float:
    """Half the width of the interval of a mean (Student 1908), or of a difference of two means (Welch 1947)."""
    with using("benchmark", "intervals of speeds"):
        from scipy.stats import t

    variances = np.array([np.var(each, ddof=1) / each.size for each in samples])
    if not variances.any():
        return 0.0
    freedom = variances.sum() ** 2 / sum(variances**2 / [each.size - 1 for each in samples])
    return float(t.ppf((1 + _CONFIDENCE) / 2, freedom) * np.sqrt(variances.sum()))


def _levels(count: int) -> tuple[float, float]:
    with using("benchmark", "intervals of speeds"):
        from scipy.stats import norm, t

    tail = (1 - _CONFIDENCE) / 2
    expanded = float(norm.cdf(-np.sqrt(count / (count - 1)) * t.ppf(1 - tail, count - 1)))
    return expanded, 1 - expanded


def _speed(cell: Cell, metric: Metric) -> Callable[[np.ndarray], np.ndarray]:
    """A function from draws of round numbers, one draw per row, to speeds."""
    if metric == "throughput":
        done, seconds = _work_and_time(cell)
        return lambda drawn: cell.batch * done[drawn].sum(1) / seconds[drawn].sum(1)
    total, count = _time_and_count(cell)
    return lambda drawn: 1 / (total[drawn].sum(1) / count[drawn].sum(1)).mean(-1)


def _work_and_time(cell: Cell) -> tuple[np.ndarray, np.ndarray]:
    """For each round the requests served in its window, and the window's length in seconds."""
    windows = [turn.window for turn in cell.rounds]
    done = [sum(work(ticks, *edges) for ticks in turn.instances) for turn, edges in zip(cell.rounds, windows)]
    return np.array(done), np.array([(high - low) / 1e9 for low, high in windows])


def _time_and_count(cell: Cell) -> tuple[np.ndarray, np.ndarray]:
    """The summed duration (ms) and the number of requests, by round and instance."""
    durations = [[_durations(ticks) for ticks in turn.instances] for turn in cell.rounds]
    total = [[float(each.sum()) for each in turn] for turn in durations]
    return np.array(total), np.array([[each.size for each in turn] for turn in durations])


def _durations(ticks: Ticks) -> np.ndarray:
    durations: np.ndarray = (np.array(ticks.ends) - np.array(ticks.starts)) / 1e6
    return durations
