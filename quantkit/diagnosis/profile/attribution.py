"""Attributing the events of runs to operators, so that the parts add up to the whole."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from quantkit.backends.mxnet.profiler import Recording, Run
from quantkit.ir.graph import Graph


@dataclass(frozen=True)
class Times:
    """The times of one run, in ms: means over the settled runs, so ``total`` is the sum of all parts.

    Attributes:
        total: the time from the call to the finished result, under the profiler.
        nodes: the time of each node that ran, by name, in order.
        others: the time of operators that no node is known to own, by type.
        between: the time outside of all operators.
        spread: how much longer the slowest settled run took than the fastest, as a share of the fastest.
        doubt: why operators were not attributed to nodes; empty if all were.
    """

    total: float
    nodes: Mapping[str, float]
    others: Mapping[str, float]
    between: float
    spread: float
    doubt: str = ""


def settled(runs: Sequence[Run]) -> tuple[Run, ...]:
    """The middle half of the runs by time, without first runs and disturbed ones."""
    ranked = sorted(runs, key=lambda run: run.milliseconds)
    cut = len(ranked) // 4
    return tuple(ranked[cut : len(ranked) - cut])


def attribute(recording: Recording, graph: Graph) -> Times:
    """Attribute events to nodes, if their types and order match the nodes in every settled run.

    MXNet's events name the type of an operator, not its node. If they do not match the nodes exactly, times are by type
    alone and ``doubt`` says what did not match.
    """
    runs = settled(recording.runs)
    total = sum(run.milliseconds for run in runs) / len(runs)
    unknown = next((name for name in recording.executed if name not in graph.by_name), None)
    expected = [graph.by_name[name].op for name in recording.executed if name in graph.by_name]
    known = set(expected)
    if unknown is not None:
        doubt = f"the engine ran an operator for {unknown!r}, which the network does not have"
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
    """Why the events of a run do not match the nodes; empty if they do. Operators that MXNet adds do not count."""
    seen = [event.operator for event in run.events if event.operator in known]
    if len(seen) != len(expected):
        return f"the engine ran {len(seen)} operators where the network has {len(expected)}"
    wrong = next((position for position, pair in enumerate(zip(seen, expected)) if pair[0] != pair[1]), None)
    if wrong is None:
        return ""
    return f"the engine's operator {wrong + 1} is {seen[wrong]} where the network has {expected[wrong]}"
