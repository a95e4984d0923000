"""The latency of several networks, measured in turns so that disturbances affect all of them alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from statistics import NormalDist

import numpy as np

from quantkit.backends.mxnet.execute import MxnetSession
from quantkit.host.timing import durations, interleaved
from quantkit.ir.graph import Graph
from quantkit.quantization.speed import MedianInterval

_WARM_UP = 2
_LEAST_ROUNDS = 5
_NORMAL_975 = NormalDist().inv_cdf(0.975)


def median_latencies(networks: Mapping[str, Graph], image: np.ndarray) -> dict[str, float]:
    """The median time of one run of each network, in milliseconds; see ``latencies_in_turns``."""
    return {name: float(np.median(times)) for name, times in latencies_in_turns(networks, image).items()}


def latencies_in_turns(
    networks: Mapping[str, Graph], image: np.ndarray, seconds: float = 3.0, lead: int = 0
) -> dict[str, np.ndarray]:
    """The time of every run of each network, in milliseconds; the networks' nth runs follow each other.

    Args:
        networks: the networks by name, each with one input.
        image: the input, float32 with a batch axis.
        seconds: the time to measure in all; each network runs at least five times.
        lead: runs before each timed one, so that caches hold what the network needs and not what the others left.
    """
    executors = {name: MxnetSession(graph, {graph.inputs[0]: image.shape}) for name, graph in networks.items()}
    runs = {name: partial(executors[name].run, {graph.inputs[0]: image}) for name, graph in networks.items()}
    for run in runs.values():
        for _ in range(_WARM_UP):
            run()
    turns = {name: partial(_turn, run, lead) for name, run in runs.items()}
    rounds = interleaved(turns, _LEAST_ROUNDS, seconds)
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


def median_interval(values: np.ndarray) -> MedianInterval:
    """The median with its 95 % interval.

    The interval is that of the sign test, between order statistics, with the normal approximation of their ranks
    (Conover, "Practical Nonparametric Statistics", section 3.2).
    """
    ordered = np.sort(values)
    reach = _NORMAL_975 * np.sqrt(len(ordered)) / 2
    # The book counts ranks from 1.
    low = max(int(np.ceil(len(ordered) / 2 - reach)) - 1, 0)
    high = min(int(np.ceil(len(ordered) / 2 + reach)) - 1, len(ordered) - 1)
    return MedianInterval(float(np.median(ordered)), float(ordered[low]), float(ordered[high]))
