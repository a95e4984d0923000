"""A trace for chrome://tracing and Perfetto, in which operators have the names of the user's layers.

The format is Chrome's "Trace Event Format": complete events (``ph`` X) with times in microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from quantkit.backends.mxnet.profiler import Recording
from quantkit.diagnosis.profile.attribution import settled
from quantkit.diagnosis.profile.profile import Profile, Row
from quantkit.ir.graph import Graph

_PROCESS = {"pid": 1, "tid": 1}


def chrome_trace(name: str, graph: Graph, recording: Recording, profile: Profile) -> dict[str, Any]:
    """The settled runs one after the other, with the operators inside; the ``args`` of an event describe its layer.

    Args:
        name: the network's name.
        graph: the network that was recorded.
        recording: the recording.
        profile: the profile of the recording.
    """
    events = [
        {"name": "process_name", "ph": "M", **_PROCESS, "args": {"name": name}},
        {"name": "thread_name", "ph": "M", **_PROCESS, "args": {"name": "operators, one by one"}},
        *_events(graph, recording, profile),
    ]
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"network": name, "batch": profile.batch}}


def _events(graph: Graph, recording: Recording, profile: Profile) -> Iterator[dict[str, Any]]:
    rows = {node: row for row in profile.rows for node in row.nodes}
    known = {graph.by_name[node].op for node in profile.times.nodes}
    at = 0.0
    for number, run in enumerate(settled(recording.runs)):
        yield _complete(f"run {number + 1}", "run", at, run.milliseconds, {})
        nodes = iter(profile.times.nodes)
        for event in run.events:
            begun = at + event.begun * 1e3
            if event.operator not in known:
                yield _complete(event.operator, "engine", begun, event.milliseconds, {"operator": event.operator})
                continue
            node = next(nodes)
            arguments = {"operator": event.operator, "node": node, **_facts(rows[node])}
            yield _complete(rows[node].layer.name, rows[node].layer.operator, begun, event.milliseconds, arguments)
        at += run.milliseconds * 1e3


def _complete(
    name: str, category: str, begun: float, milliseconds: float, arguments: Mapping[str, Any]
) -> dict[str, Any]:
    # Viewers count in nanoseconds and show neighbours that overlap by one as nested.
    first, last = round(begun, 3), round(begun + milliseconds * 1e3, 3)
    times = {"ts": first, "dur": round(last - first, 3)}
    return {"name": name, "cat": category, "ph": "X", **_PROCESS, **times, "args": arguments}


def _facts(row: Row) -> dict[str, Any]:
    facts: dict[str, Any] = {"stands for": list(row.layer.originals)}
    if row.kernel is not None:
        facts["kernel"] = row.kernel.implementation
        facts["types"] = " x ".join(filter(None, (row.kernel.source, row.kernel.weights)))
    if row.macs:
        facts["macs"] = row.macs
    return facts
