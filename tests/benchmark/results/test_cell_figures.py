"""The document of a run's results."""

from __future__ import annotations

import json
from dataclasses import replace

from quantkit.benchmark.results.cell_figures import figures, results_document
from quantkit.benchmark.results.results import Contestant, Failure, LeftOut, Results, Server, ServerTrial
from tests.benchmark.cells import cell, closed_loop
from tests.benchmark.fakes import run_of, suite


def test_the_document_tells_what_was_measured_what_failed_and_what_was_left_out() -> None:
    measured = cell([[closed_loop([10.0, 20.0])]])
    failed = cell(
        [], contestant=Contestant("two", "here", "int8", "node"), failure=Failure("killed", 1, "gone", ("x",))
    )
    left_out = (LeftOut("net", 16, "two", "no time was left"),)
    results = Results(replace(run_of(suite()), minutes=1.5, left_out=left_out), (measured, failed))
    document = json.loads(json.dumps(results_document(results), allow_nan=False))
    assert document == {
        "suite": suite().name,
        "figures": figures(results),
        "served": [],
        "failed": [
            {
                "network": "net", "batch": 1, "contestant": "two", "kind": "killed", "instance": 1, "message": "gone",
                "stderr": ["x"],
            }
        ],
        "left_out": [{"network": "net", "batch": 16, "contestant": "two", "reason": "no time was left"}],
        "minutes": 1.5,
    }  # fmt: skip
    assert [row["contestant"] for row in document["figures"]] == ["one"]


def test_a_reason_is_without_the_engines_stack_trace() -> None:
    failure = Failure("crashed", 0, "MXNetError: no such operator\nStack trace:\n  [bt] (0) libmxnet.so(+0x31caf83)\n")
    assert failure.reason == "MXNetError: no such operator"
    assert Failure("killed", 0, "killed by signal 9").reason == "killed by signal 9"


def test_a_rate_is_confirmed_by_its_last_run() -> None:
    short, long = ServerTrial(9.0, 40, 1, 2, 3.0, True, ()), ServerTrial(9.0, 120, 1, 2, 4.0, True, ())
    missed = ServerTrial(12.0, 160, 1, 2, 20.0, True, ())
    assert Server(15.0, 9.0, (short, missed, long)).confirmed is long
    assert Server(15.0, 9.0, (long, missed)).confirmed is long
    assert Server(15.0, 0.0, (missed,)).confirmed is None
