from __future__ import annotations

import json
from collections.abc import Sequence

from quantkit.backends.mxnet.own_profiler import CALL, OPERATOR, Span, spans_of

Event = tuple[str, str, str, int, int]


def trace(events: Sequence[Event]) -> str:
    """As MXNet writes it: with counters between, and a comma missing."""
    texts = [
        json.dumps({"name": name, "cat": category, "ph": phase, "ts": at, "pid": 7, "tid": thread}, indent=4)
        for name, category, phase, at, thread in events
    ]
    counter = '{"name": "ignored", "cat": "operator", "ph": "C", "ts": 5, "args": { "ignored": 1 }, "pid": 7, "tid": 1}'
    return '{"traceEvents": [' + f"{texts[0]}\n{counter},\n" + ",\n".join(texts[1:]) + '], "displayTimeUnit": "ms"}'


def test_events_are_paired_by_thread_and_phase_within_the_window() -> None:
    events: list[Event] = [
        ("before", OPERATOR, "B", 90, 1), ("before", OPERATOR, "E", 120, 1),
        ("outer", OPERATOR, "B", 200, 1), ("outer", OPERATOR, "B", 300, 1), ("outer", OPERATOR, "E", 400, 1),
        ("outer", OPERATOR, "E", 500, 1),
        ("outer", OPERATOR, "B", 250, 2), ("outer", OPERATOR, "E", 260, 2),
        ("outer", OPERATOR, "b", 250, 2), ("outer", OPERATOR, "e", 260, 2),
        ("call", CALL, "b", 150, 3), ("call", CALL, "e", 160, 3),
        ("other", "memory", "B", 150, 3), ("other", "memory", "E", 160, 3),
        ("after", OPERATOR, "B", 900, 1), ("after", OPERATOR, "E", 1001, 1),
        ("endless", OPERATOR, "B", 300, 1),
    ]  # fmt: skip
    assert list(spans_of(trace(events), 100, 1000)) == [
        Span(CALL, "call", 0.05, 0.06),
        Span(OPERATOR, "outer", 0.1, 0.4),
        Span(OPERATOR, "outer", 0.15, 0.16),
        Span(OPERATOR, "outer", 0.2, 0.3),
    ]
