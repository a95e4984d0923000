from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from quantkit.benchmark.accuracy.suite import accuracy_suites
from quantkit.benchmark.results.result_files import read_results
from quantkit.benchmark.suites.suite import shipped_suites
from tests.cli.conftest import SHAPE, Run, start
from tests.requirements import requires

pytestmark = pytest.mark.timing

SUITE = """
title = "A toy"
scenario = "throughput"
batches = [1, 2]
baseline = "FP32"
[[network]]
model = "{model}"
[[contestant]]
name = "FP32"
build = "here"
variant = "fp32"
policy = "node"
[[contestant]]
name = "fused"
build = "here"
variant = "fused"
policy = "node"
[[contestant]]
name = "impossible"
build = "here"
variant = "fp32"
policy = "4096x1"
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty home for builds and workloads."""
    monkeypatch.setenv("QUANTKIT_HOME", str(tmp_path / "home"))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few and short rounds."""
    from quantkit.benchmark.measuring import schedule

    monkeypatch.setattr(schedule, "ROUNDS", 3)
    monkeypatch.setattr(schedule, "_SLICE", 0.1)
    monkeypatch.setattr(schedule, "_WARM_UP", 0.1)


def instances(folder: Path) -> list[int]:
    """The workers that run for a command started in a folder."""
    numbers = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if b"/worker.py\0serve" in (process / "cmdline").read_bytes() and os.readlink(process / "cwd") == str(
                folder
            ):
                numbers.append(int(process.name))
        except OSError:
            continue
    return numbers


def test_a_suite_from_start_to_report(run: Run, quick: None, checkpoint: Path, samples: Path, tmp_path: Path) -> None:
    (tmp_path / "toy.toml").write_text(SUITE.format(model=checkpoint))
    options = ["--input-shape", SHAPE, "--data", samples, "--json"]
    first = run("benchmark", "toy.toml", *options)
    assert first.exit_code == 0, first.stderr
    document = json.loads(first.stdout)
    assert {(row["batch"], row["contestant"]) for row in document["figures"]} == {
        (batch, name) for batch in (1, 2) for name in ("FP32", "fused")
    }
    assert all(row["throughput"] > 0 and row["p50"] <= row["p90"] <= row["p99"] for row in document["figures"])
    assert document["failed"] == [] and document["results"] == "toy-benchmark"
    assert "impossible is left out: there is no room for 4096 instances" in first.stderr

    again = run("benchmark", "toy.toml", *options)
    assert json.loads(again.stdout)["figures"] == document["figures"]

    other = run("benchmark", "toy.toml", *options, "--scenario", "latency")
    assert other.exit_code == 2 and "holds another run (scenario" in other.stderr

    report = run("report", "toy-benchmark", "--out", "page")
    assert report.exit_code == 0, report.stderr
    assert "A toy" in (tmp_path / "page" / "index.html").read_text()
    assert instances(tmp_path) == []


def test_variants_and_placements_of_a_network(run: Run, quick: None, int8_engine: None) -> None:
    options = ["--builds", "here,here", "--batch", "1", "--data", "digits:test", "--variants", "fp32,int8,nncf"]
    result = run("benchmark", "digits_resnet20_v1", *options, "--instances", "node,core", "--json")
    assert result.exit_code == 0, result.stderr
    rows = {row["contestant"]: row for row in json.loads(result.stdout)["figures"]}
    assert set(rows) == {f"here {variant} {policy}" for variant in ("FP32", "INT8") for policy in ("node", "core")}
    assert "variant nncf is left out" in result.stderr


@pytest.mark.requires("vnni")
def test_another_engine_runs_the_same_networks_as_onnx_files(run: Run, quick: None, int8_engine: None) -> None:
    requires("onnxruntime")
    options = ["--batch", "1", "--data", "digits:test", "--variants", "fp32,int8", "--out", "results", "--json"]
    engines = ["--builds", "here,onnxruntime", "--build", f"onnxruntime={sys.executable}"]
    result = run("benchmark", "digits_resnet20_v1", *engines, *options)
    assert result.exit_code == 0, result.stderr
    cells = {each.contestant.name: each for each in read_results(Path("results")).cells}
    assert set(cells) == {f"{build} {variant}" for build in ("here", "onnxruntime") for variant in ("FP32", "INT8")}
    for name, cell in cells.items():
        assert (cell.kernels is not None, "onnx" in cell.checkpoint) == (name.startswith("onnx"),) * 2
        assert cell.agreement is not None and cell.agreement.allowed is not None


def test_stock_fusion_that_computes_something_else_fails(run: Run, quick: None) -> None:
    options = ["--builds", "here", "--batch", "1", "--data", "digits:test", "--variants", "fp32,stock"]
    result = run("benchmark", "digits_resnet20_v2", *options, "--json")
    assert result.exit_code == 1
    (failed,) = json.loads(result.stdout)["failed"]
    assert failed["contestant"] == "here stock" and failed["kind"] == "output"
    assert "FAILED digits_resnet20_v2, batch 1, here stock, instance 0" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing-like-it"], "unknown network 'nothing-like-it'"),
        (["smok"], f"suites that ship: {', '.join(sorted({*shipped_suites(), *accuracy_suites()}))}"),
        (["digits_resnet20_v1", "--builds", "here,other"], "there is no build other"),
        (["digits_resnet20_v1", "--build", "mine"], "is not NAME=PYTHON"),
        (["digits_resnet20_v1", "--build", "mine=/no/python", "--builds", "mine"], "no program '/no/python'"),
        (["digits_resnet20_v1", "--builds", "here", "--variants", "fp16"], "no variant 'fp16'"),
        (["digits_resnet20_v1", "--builds", "here", "--instances", "7x"], "no placement '7x'"),
        (["digits_resnet20_v1", "--builds", "here", "--instances", "4096"], "no room for 4096 instances"),
        (["digits_resnet20_v1", "--cores", "2"], "give --instances N as well"),
        (["digits_resnet20_v1", "--batch", "0"], "is not a list of batch sizes"),
        (["digits_resnet20_v1", "--batch", "²"], "is not a list of batch sizes"),
        (["digits_resnet20_v1", "--batch", ","], "is not a list of batch sizes"),
        (["digits_resnet20_v1", "--budget", "nan"], "is not a number of minutes"),
        (["digits_resnet20_v1", "--budget", "inf"], "is not a number of minutes"),
        (["digits_resnet20_v1", "--budget", "0"], "is not a number of minutes"),
        (["digits_resnet20_v1", "--latency-bound", "soon"], "is not a time"),
        (["digits_resnet20_v1", "--latency-bound", "1ms", "--scenario", "latency"], "belongs to --scenario server"),
        (["digits_resnet20_v1", "--builds", "here", "--scenario", "server"], "needs a latency bound"),
        ([""], "give the name of a network"),
        (["digits_resnet20_v1", "--networks", "a"], "is a model; leave out --networks"),
        (["digits_resnet20_v1", "--reference", "a"], "is a model; leave out --reference"),
        (["smoke", "--reference", "a"], "is a suite; leave out --reference"),
        (["smoke", "--build", "mine=/no/python"], "--build mine is not among the builds to measure: native, onednn"),
        (["digits_resnet20_v1", "--builds", "here", "--build", "mine=/no/python"], "--build mine is not among"),
        (["smoke", "--networks", "other"], "suite smoke has no network 'other'"),
        (["smoke", "--builds", "here"], "suite smoke has no build 'here'"),
    ],
)
def test_mistakes(run: Run, engine: None, arguments: list[str], words: str, tmp_path: Path) -> None:
    result = run("benchmark", *arguments)
    assert result.exit_code == 2, result.stderr
    assert words in result.stderr and "Traceback" not in result.stderr
    assert {path.name for path in tmp_path.iterdir()} <= {"home"}


def test_help_names_every_suite_that_ships(run: Run) -> None:
    text = "".join(run("benchmark", "--help").stdout.split())
    assert f"thatships:{','.join(shipped_suites())}." in text


def test_a_folder_of_somebody_elses_is_left_alone(run: Run, engine: None, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    result = run("benchmark", "digits_resnet20_v1", "--builds", "here", "--out", "mine", "--force")
    assert result.exit_code == 2 and "holds no benchmark results" in result.stderr
    assert (tmp_path / "mine" / "letter.txt").read_text() == "dear"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_ending_it_ends_all_instances_and_keeps_what_was_measured(
    number: signal.Signals, checkpoint: Path, samples: Path, tmp_path: Path
) -> None:
    (tmp_path / "toy.toml").write_text(SUITE.format(model=checkpoint).replace("[1, 2]", "[1, 64]"))
    options = ["--input-shape", SHAPE, "--data", samples, "--budget", "0.5"]
    process = start(tmp_path, "benchmark", "toy.toml", *options, QUANTKIT_HOME=str(tmp_path / "home"))
    cells = tmp_path / "toy-benchmark" / "cells"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not list(cells.glob("*.json")) and process.poll() is None:
        time.sleep(0.05)
    time.sleep(0.3)
    assert process.poll() is None and len(instances(tmp_path)) == 2, process.communicate()
    begun = time.monotonic()
    process.send_signal(number)
    _, stderr = process.communicate(timeout=10)
    assert time.monotonic() - begun < 2
    deadline = time.monotonic() + 5
    while instances(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert instances(tmp_path) == []
    assert len(list(cells.glob("*.json"))) == 2
    if number == signal.SIGINT:
        assert process.returncode == 130
        assert "interrupted; cells that were finished are in toy-benchmark" in stderr
        assert json.loads((tmp_path / "toy-benchmark" / "run.json").read_text())["state"] == "interrupted"
