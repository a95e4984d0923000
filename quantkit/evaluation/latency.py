"""The latency of several networks, measured in turns so that disturbances affect all of them alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Optional

import numpy as np

from quantkit.backends.mxnet.execute import MxnetSession
from quantkit.host.timing import durations, interleaved
from quantkit.ir.graph import Graph
from quantkit.quantization.speed import FloatForm, MedianInterval

_SECONDS = 3.0
_WARM_UP = 2
# A median of fewer has no 95 % interval.
_LEAST_ROUNDS = 6
_SEED = 0

# Of two that are equally fast, the first is the reference.
_FLOAT_FORMS: tuple[FloatForm, ...] = ("fp32_fused", "fp32")


def median_latencies(networks: Mapping[str, Graph], image: np.ndarray) -> dict[str, float]:
    """The median time of one run of each network, in milliseconds; see ``latencies_in_turns``."""
    return {name: float(np.median(times)) for name, times in latencies_in_turns(networks, image).items()}


def latencies_in_turns(
    networks: Mapping[str, Graph], image: np.ndarray, seconds: Optional[float] = None, lead: int = 0
) -> dict[str, np.ndarray]:
    """The time of every run of each network, in milliseconds; the networks' nth runs follow each other.

    Each round has an order of its own, so that no network always runs after the same other one.

    Args:
        networks: the networks by name, each with one input.
        image: the input, float32 with a batch axis.
        seconds: the time to measure in all, 3 s if None; each network runs at least six times.
        lead: runs before each timed one, so that caches hold what the network needs and not what the others left.
    """
    executors = {name: MxnetSession(graph, {graph.inputs[0]: image.shape}) for name, graph in networks.items()}
    runs = {name: partial(executors[name].run, {graph.inputs[0]: image}) for name, graph in networks.items()}
    for run in runs.values():
        for _ in range(_WARM_UP):
            run()
    turns = {name: partial(_turn, run, lead) for name, run in runs.items()}
    seconds = _SECONDS if seconds is None else seconds
    rounds = interleaved(turns, _LEAST_ROUNDS, seconds, np.random.default_rng(_SEED))
    return {name: np.concatenate(times) * 1e3 for name, times in rounds.items()}


def _turn(run: Callable[[], object], lead: int) -> list[float]:
    for _ in range(lead):
        run()
    return durations(run, 0.0)


def median_difference(first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """The median of the paired differences ``second - first``, and half the width of its 95 % interval."""
    interval = median_interval(second - first)
    return interval.median, (interval.high - interval.low) / 2


def paired_speed(slow: np.ndarray, fast: np.ndarray) -> MedianInterval:
    """How many times as fast ``fast`` is as ``slow``, by the durations of paired runs."""
    return median_interval(slow / fast)


def speed_against_fp32(times: Mapping[str, np.ndarray], fast: np.ndarray) -> tuple[FloatForm, MedianInterval]:
    """The form of the FP32 network over which another one gains less, and how many times as fast that one is.

    Args:
        times: the durations of ``fp32`` and ``fp32_fused``, runs in turns with the other network's.
        fast: the durations of that network.
    """
    ratios = {form: paired_speed(times[form], fast) for form in _FLOAT_FORMS}
    reference = min(_FLOAT_FORMS, key=lambda form: ratios[form].low)
    return reference, ratios[reference]


def median_interval(values: np.ndarray) -> MedianInterval:
    """The median with its 95 % interval; of fewer than six values their range, which covers the median less often.

    The interval is that of the sign test: it lies between order statistics, with exact binomial ranks (Conover,
    "Practical Nonparametric Statistics", section 3.2).
    """
    ordered = np.sort(values)
    rank = _lower_rank(len(ordered))
    return MedianInterval(float(np.median(ordered)), float(ordered[rank]), float(ordered[-1 - rank]))


@cache
def _lower_rank(count: int) -> int:
    """The rank of the interval's lower end, from 0: the highest at which both tails together have at most 5 %."""
    most = 2**count // 40
    # Of the 2 ** count ways to lie above or below the median, ``ways`` have ``rank`` values below, ``tail`` at most.
    rank, ways, tail = 0, 1, 1
    while tail <= most:
        ways = ways * (count - rank) // (rank + 1)
        rank, tail = rank + 1, tail + ways
    return max(rank - 1, 0)
