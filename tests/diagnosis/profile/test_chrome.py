from __future__ import annotations

import json
from typing import Any

import pytest

from quantkit.backends.mxnet.peak import Peak
from quantkit.backends.mxnet.profiler import Recording
from quantkit.diagnosis.profile.chrome import chrome_trace
from quantkit.diagnosis.profile.layers import layers_of
from quantkit.diagnosis.profile.profile import profile
from tests.diagnosis.profile.recordings import GRAPH, OPERATORS, kernel, recording, run


def traced(seen: Recording) -> list[dict[str, Any]]:
    originals = {"conv": [("first_layer", "Convolution"), ("norm", "BatchNorm")]}
    measured = profile(GRAPH, seen, layers_of(GRAPH, originals), {"conv": 7}, Peak(None, 1.0), 1)
    trace = json.loads(json.dumps(chrome_trace("net", GRAPH, seen, measured)))
    return [event for event in trace["traceEvents"] if event["ph"] == "X"]


def test_operators_bear_the_names_of_layers_and_say_what_they_are() -> None:
    events = traced(recording(run(20.0, (4, 1, 10)), kernels={"conv": (kernel(2.0, "u8"),)}))
    assert [event["name"] for event in events] == ["run 1", "first_layer", "relu", "more"]
    first = events[1]
    assert (first["ts"], first["dur"], first["cat"]) == (1000.0, 4000.0, "Convolution")
    assert first["args"] == {
        "operator": "Convolution", "node": "conv", "stands for": ["first_layer", "norm"],
        "kernel": "brgconv:avx512_core_vnni", "types": "u8 x s8", "macs": 7,
    }  # fmt: skip


def test_runs_follow_each_other_and_hold_their_operators() -> None:
    times = [(20.1234567, (4.1111111, 1.2222222, 10.3333333)), (17.7654321, (4.5, 1.25, 9.7777777))]
    events = traced(recording(*(run(total, each) for total, each in times)))
    runs = [event for event in events if event["cat"] == "run"]
    assert runs[0]["ts"] == 0 and runs[1]["ts"] == pytest.approx(runs[0]["dur"], abs=1e-6)
    for outer in runs:
        inside = [e for e in events if e["cat"] != "run" and outer["ts"] <= e["ts"] < outer["ts"] + outer["dur"]]
        assert len(inside) == 3
        ends = [round(1000 * (event["ts"] + event["dur"])) for event in inside]
        begins = [round(1000 * event["ts"]) for event in inside]
        assert all(end <= begin for end, begin in zip(ends, begins[1:]))
        assert ends[-1] <= round(1000 * (outer["ts"] + outer["dur"]))


def test_what_is_no_layer_keeps_the_engines_name() -> None:
    events = traced(recording(run(20.0, (2, 4, 1, 10), ["CopyCPU2CPU", *OPERATORS])))
    assert [event["name"] for event in events] == ["run 1", "CopyCPU2CPU", "first_layer", "relu", "more"]
    assert events[1]["cat"] == "engine"
    doubtful = traced(recording(run(20.0, (2, 4), OPERATORS[:2])))
    assert [event["name"] for event in doubtful] == ["run 1", "Convolution", "Activation"]
