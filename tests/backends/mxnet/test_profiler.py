"""Recording: the events of a trace, whose kernels are whose, and live runs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantkit.backends.mxnet import profiler
from quantkit.backends.mxnet.profiled_run import EVENTS, WINDOWS
from quantkit.backends.mxnet.profiler import Event, kernels_by_node, record, runs_of
from quantkit.errors import EngineError, ModelError
from quantkit.ir.graph import Graph, Node, Tensor

CONVOLUTION = "dnnl_verbose,exec,cpu,convolution,jit:avx512_core,forward_inference,src_f32::a wei_f32::b,,alg,mb1,{}"
REORDER = "dnnl_verbose,exec,cpu,reorder,jit:uni,undef,src_f32::a dst_u8::b,,,1x8,{}"


def event(phase: str, name: str, at: int, **other: Any) -> dict[str, Any]:
    return {"ph": phase, "name": name, "cat": "operator", "ts": at, "pid": 0, "tid": 7, **other}


def tiny() -> Graph:
    """A convolution, a fused one whose name begins with the first's, ReLU, flatten."""
    weight = np.ones((8, 8, 3, 3), np.float32)
    attrs = {"kernel": "(3, 3)", "num_filter": "8", "pad": "(1, 1)", "no_bias": "True"}
    inner = Node("inner", "Convolution", (Tensor("data"), Tensor("weight")), attrs)
    nodes = (
        Node("conv", "Convolution", (Tensor("data"), Tensor("first")), attrs),
        Node(
            "conv_fused",
            "_sg_mkldnn_conv",
            (Tensor("conv"), Tensor("second")),
            {},
            body=Graph((inner,), ("data", "weight"), (inner.output,)),
        ),
        Node("relu", "Activation", (Tensor("conv_fused"),), {"act_type": "relu"}),
        Node("flat", "Flatten", (Tensor("relu"),)),
    )
    return Graph(nodes, ("data",), (Tensor("flat"),), {"first": weight, "second": weight})


def test_events_are_those_inside_the_window_of_their_run() -> None:
    trace = {
        "traceEvents": [
            event("M", "process_name", 0),
            event("B", "before", 10), event("E", "before", 90),
            event("B", "Convolution", 100), event("E", "Convolution", 130),
            event("b", "Convolution", 100), event("e", "Convolution", 130),
            event("B", "wait", 131, cat="other"), event("E", "wait", 140, cat="other"),
            event("B", "Pooling", 150), event("E", "Pooling", 155),
            event("B", "Convolution", 201), event("E", "Convolution", 207),
        ]
    }  # fmt: skip
    first, second = runs_of(trace, [(100_400, 180_000), (200_000, 210_000)])
    # The clock of the events is cut to microseconds: the first seems to begin before its run.
    assert first.events == (Event("Convolution", 0.0, 0.0296), Event("Pooling", 0.0496, 0.005))
    assert first.milliseconds == 0.0796
    assert second.events == (Event("Convolution", 0.001, 0.006),)


def test_an_event_that_begins_in_the_microsecond_of_a_runs_end_is_of_the_next_run() -> None:
    trace = {
        "traceEvents": [
            event("B", "Flatten", 150), event("E", "Flatten", 155),
            event("B", "Convolution", 155), event("E", "Convolution", 160),
        ]
    }  # fmt: skip
    first, second = runs_of(trace, [(150_000, 155_050), (155_100, 160_500)])
    assert [each.operator for each in first.events] == ["Flatten"]
    assert [each.operator for each in second.events] == ["Convolution"]


def test_nested_and_parallel_events_are_paired_by_thread() -> None:
    trace = {
        "traceEvents": [
            event("B", "outer", 1), event("B", "inner", 2), event("B", "other", 3, tid=8), event("E", "inner", 5),
            event("E", "other", 6, tid=8), event("E", "outer", 9),
        ]
    }  # fmt: skip
    (run,) = runs_of(trace, [(0, 10_000)])
    assert [(each.operator, each.milliseconds) for each in run.events] == [
        ("outer", 0.008),
        ("inner", 0.003),
        ("other", 0.003),
    ]


def test_kernels_belong_to_the_node_that_is_marked_next() -> None:
    run = "\n".join(
        ["quantkit: run", REORDER.format(0.5), CONVOLUTION.format("{0}"), "quantkit: done conv_output",
         REORDER.format(0.25), "quantkit: done conv_1_output", "quantkit: done conv_1_output_min",
         "quantkit: done plain_output", ""]
    )  # fmt: skip
    output = "dnnl_verbose,info\n" + "".join(run.replace("{0}", str(time)) for time in (9.0, 2.0, 1.0))
    executed, kernels = kernels_by_node(output, {"conv", "conv_1", "plain"})
    assert executed == ("conv", "conv_1", "plain")
    found = {name: [(each.primitive, each.milliseconds) for each in of] for name, of in kernels.items()}
    # Of the three runs that of the median time counts.
    assert found == {"conv": [("reorder", 0.5), ("convolution", 2.0)], "conv_1": [("reorder", 0.25)], "plain": []}


def test_output_without_a_run_is_an_error() -> None:
    with pytest.raises(EngineError, match="no run"):
        kernels_by_node("hello", {"conv"})


def test_a_live_network_tells_its_nodes_their_order_and_their_kernels(engine: None) -> None:
    graph = tiny()
    said: list[str] = []
    recording = record(graph, (2, 8, 6, 6), runs=4, tell=said.append)
    assert len(said) == 3
    assert len(recording.plain) == len(recording.runs) == 4
    assert recording.executed == ("conv", "conv_fused", "relu", "flat")
    for run in recording.runs:
        assert [each.operator for each in run.events] == [node.op for node in graph.nodes]
        assert sum(each.milliseconds for each in run.events) <= run.milliseconds
        begun = [each.begun for each in run.events]
        assert begun == sorted(begun) and begun[0] >= 0
    assert any(kernel.primitive == "convolution" for kernel in recording.kernels["conv"])
    assert any(kernel.primitive == "convolution" for kernel in recording.kernels["conv_fused"])
    assert recording.kernels["flat"] == () or all(each.primitive == "reorder" for each in recording.kernels["flat"])


def test_a_network_without_operators_is_not_blamed_on_the_engine() -> None:
    with pytest.raises(ModelError, match="no operators, so there is nothing to profile: it returns its input 'data'"):
        record(Graph((), ("data",), (Tensor("data"),)), (1, 3, 8, 8))


def test_a_network_that_does_not_fit_is_an_engine_error(engine: None) -> None:
    with pytest.raises(EngineError, match=r"cannot run the network.*doctor"):
        record(tiny(), (1, 5, 6, 6), runs=1)


def test_a_killed_process_is_named_by_its_signal(engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    run, killed = subprocess.run, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    monkeypatch.setattr(
        "quantkit.backends.mxnet.profiler.subprocess.run",
        lambda command, **options: run([command[0], "-c", killed], **options),
    )
    with pytest.raises(EngineError, match="SIGKILL"):
        record(tiny(), (1, 8, 6, 6), runs=1)


def test_an_engine_without_profiler_is_named_as_such(engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiler, "_run", writing("[[0, 10]]", '{"traceEvents": []}'))
    with pytest.raises(EngineError, match="built without it"):
        record(tiny(), (1, 8, 6, 6), runs=1)


def writing(windows: str, events: str) -> Callable[..., str]:
    """A run that leaves these files."""

    def run(arguments: Iterable[str], _: object) -> str:
        folder = Path(list(arguments)[-1])
        (folder / WINDOWS).write_text(windows)
        (folder / EVENTS).write_text(events)
        return ""

    return run


BEGINS = {"ph": "B", "name": "a", "cat": "operator", "ts": 0, "pid": 0}
ENDS = {**BEGINS, "ph": "E", "ts": 1}


@pytest.mark.parametrize(
    "windows", ["", "null", "[]", "{}", "[1]", "[[1]]", '[["a", 2]]', "[[1, null]]", "[[NaN, 2]]", "[[1, 1e999]]",
                "[[0, " + "9" * 400 + "]]", "[" * 100_000],
    ids=lambda value: repr(value)[:20],
)  # fmt: skip
def test_times_that_are_none_are_an_engine_error(windows: str, engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiler, "_run", writing(windows, '{"traceEvents": []}'))
    with pytest.raises(EngineError, match="no readable trace"):
        record(tiny(), (1, 8, 6, 6), runs=1)


@pytest.mark.parametrize(
    "events",
    [
        None, 1, [], {}, {"a": 1}, [None], ["a"], [{"cat": "operator"}],
        *([{**BEGINS, name: wrong}, ENDS] for name in ("ts", "pid", "tid") for wrong in ([], {}, "x")
          if (name, wrong) not in (("pid", "x"), ("tid", "x"))),
        [BEGINS, {**ENDS, "ts": None}], [BEGINS, {**ENDS, "ts": 10**400}],
    ],
)  # fmt: skip
def test_a_trace_that_is_none_is_an_engine_error(events: object, engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiler, "_run", writing("[[0, 1000000]]", json.dumps({"traceEvents": events})))
    with pytest.raises(EngineError):
        record(tiny(), (1, 8, 6, 6), runs=1)


def test_an_unreadable_trace_is_an_engine_error(engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiler, "_run", lambda *_: "")
    with pytest.raises(EngineError, match="no readable trace"):
        record(tiny(), (1, 8, 6, 6), runs=1)
