"""Latency of several networks, measured in turns so that the machine's moods hit all alike."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from time import perf_counter

import numpy as np

from quantkit.engine.execute import Executor
from quantkit.graph.graph import Graph


def median_latencies(networks: Mapping[str, Graph], image: np.ndarray, seconds: float = 3.0) -> dict[str, float]:
    """The median time of one run of each network, in milliseconds.

    Args:
        networks: by name, each with one input.
        image: the input, float32 with its batch axis.
        seconds: how long to measure in all; each network runs at least five times.
    """
    executors = {name: Executor(graph, {graph.inputs[0]: image.shape}) for name, graph in networks.items()}
    ticks: dict[str, list[float]] = {name: [] for name in networks}
    for executor, graph in zip(executors.values(), networks.values()):
        for _ in range(2):
            executor.run({graph.inputs[0]: image})
    started = perf_counter()
    while perf_counter() - started < seconds or len(next(iter(ticks.values()))) < 5:
        for name, executor in executors.items():
            before = perf_counter()
            executor.run({networks[name].inputs[0]: image})
            ticks[name].append((perf_counter() - before) * 1e3)
    return {name: median(values) for name, values in ticks.items()}
