"""From the events of runs to the time of each operator, so that the parts add up to the whole."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from quantkit.backends.mxnet.profiler import Recording, Run
from quantkit.ir.graph import Graph


@dataclass(frozen=True)
class Times:
    """The times of one run, in ms: the mean of the settled runs, so ``total`` is the sum of all parts.

    Attributes:
        total: from the call to the finished result, the profiler watching.
        nodes: of each node that ran, by name, in order.
        others: of operators that cannot be told to be a certain node's, by type.
        between: outside of all operators.
        spread: how much longer the slowest settled run took than the fastest, as a share of that.
        doubt: why operators were not attributed to nodes; empty where all were.
    """

    total: float
    nodes: Mapping[str, float]
    others: Mapping[str, float]
    between: float
    spread: float
    doubt: str = ""


def settled(runs: Sequence[Run]) -> tuple[Run, ...]:
    """The middle half of the runs by their time: free of first runs and of what else the machine did."""
    ranked = sorted(runs, key=lambda run: run.milliseconds)
    cut = len(ranked) // 4
    return tuple(ranked[cut : len(ranked) - cut])


def attribute(recording: Recording, graph: Graph) -> Times:
    """The time of each node: events count as nodes' only if types and order agree with them in every settled run.

    MXNet's events tell the type of an operator, not its node. Where they do not follow the nodes
    exactly, the times are by type alone, and ``doubt`` says what did not fit.
    """
    runs = settled(recording.runs)
    total = sum(run.milliseconds for run in runs) / len(runs)
    stranger = next((name for name in recording.executed if name not in graph.by_name), None)
    expected = [graph.by_name[name].op for name in recording.executed if name in graph.by_name]
    known = set(expected)
    if stranger is not None:
        doubt = f"the engine ran an operator for {stranger!r}, which the network does not have"
    else:
        doubt = next(filter(None, (_misfit(run, expected, known) for run in runs)), "")
    nodes: defaultdict[str, float] = defaultdict(float)
    others: defaultdict[str, float] = defaultdict(float)
    for run in runs:
        names = iter(recording.executed)
        for event in run.events:
            if doubt or event.operator not in known:
                others[event.operator] += event.milliseconds / len(runs)
            else:
                nodes[next(names)] += event.milliseconds / len(runs)
    between = total - sum(nodes.values()) - sum(others.values())
    spread = runs[-1].milliseconds / runs[0].milliseconds - 1
    return Times(total, dict(nodes), dict(others), between, spread, doubt)


def _misfit(run: Run, expected: Sequence[str], known: set[str]) -> str:
    """What keeps the events of a run from being those of the nodes; MXNet's own operators among them are no matter."""
    seen = [event.operator for event in run.events if event.operator in known]
    if len(seen) != len(expected):
        return f"the engine ran {len(seen)} operators where the network has {len(expected)}"
    wrong = next((position for position, pair in enumerate(zip(seen, expected)) if pair[0] != pair[1]), None)
    if wrong is None:
        return ""
    return f"the engine's operator {wrong + 1} is {seen[wrong]} where the network has {expected[wrong]}"
