"""JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from dataclasses import replace

from quantkit.benchmark.results.results import Results
from quantkit.report.export import csv_text, json_text
from quantkit.report.page.html import page
from quantkit.report.study.headline import machine, speeds
from tests.report.reports import report
from tests.report.showcase import HOSTILE, complete, hostile
from tests.report.synthetic import INT8, NATIVE, results


def test_json_holds_the_rows() -> None:
    given, studies = report(complete(), price=2.0)
    found = json.loads(json_text(given, studies))
    (run,) = found["runs"]
    assert run["host"] == complete().run.host
    assert tuple(run["verdicts"]) == given.parts[0].verdicts
    speed = speeds(studies[0])[0]
    assert run["headline"]["speeds"][0]["ratio"]["value"] == speed.ratio.value
    assert run["headline"]["machine"] == machine(run["host"])
    assert len(run["cells"]) == len(studies[0].rows)
    for cell, row in zip(run["cells"], studies[0].rows):
        assert (cell["network"], cell["batch"], cell["contestant"]) == row.key
        assert cell["throughput"] == row.throughput
        assert cell["p99_ms"] == row.percentiles[2]
        assert {name: each["value"] for name, each in cell["speedups"].items()} == {
            name: each.value for name, each in row.speedups.items()
        }
    assert run["failed"][0]["stderr"] == ["first line", "<b>last</b> line"]
    assert run["left_out"][0]["reason"] == "needs 6.4 minutes"
    assert run["served"][0]["server"]["rate"] == 90.0


def test_unbounded_intervals_are_null_in_json() -> None:
    whole = results(batches=(1,), contestants=(NATIVE, INT8))
    cells = tuple(replace(each, rounds=each.rounds[:1]) for each in whole.cells)
    given, studies = report(Results(whole.run, cells))
    speedup = json.loads(json_text(given, studies))["runs"][0]["cells"][1]["speedups"]["throughput"]
    assert (speedup["low"], speedup["high"], speedup["verdict"]) == (None, None, "not distinguishable")
    assert "(no interval)" in page(given)


def test_csv_has_every_cell_once() -> None:
    _, studies = report(complete())
    lines = list(csv.DictReader(io.StringIO(csv_text(studies))))
    keys = [(line["network"], line["batch"], line["contestant"]) for line in lines]
    assert len(keys) == len(set(keys))
    assert Counter(line["status"] for line in lines) == {"measured": 19, "failed": 1, "left out": 1, "served": 1}
    by_key = dict(zip(keys, lines))
    for row in studies[0].rows:
        line = by_key[row.network, str(row.batch), row.contestant]
        assert float(line["throughput"]) == row.throughput
        if row.speedups:
            assert float(line["speedup_latency_low"]) == row.speedups["latency"].low
    assert by_key["drawn", "8", "INT8"]["reason"] == "instance 1 was killed by signal 9"
    assert by_key["good", "8", "INT8"]["speedup_throughput_published"] == "28.25"
    assert by_key["drawn", "1", "INT8"]["weights"] == "random"


def test_csv_holds_no_formulas() -> None:
    lines = list(csv.DictReader(io.StringIO(csv_text(report(hostile())[1]))))
    assert "'=1+1" in {line["network"] for line in lines}
    assert HOSTILE in {line["network"] for line in lines}
