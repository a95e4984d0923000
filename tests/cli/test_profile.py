"""``profile``: that its numbers add up, what it prints and writes, and what it refuses."""

from __future__ import annotations

import json
import signal
import time
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from quantkit.backends.mxnet.peak import Peak
from quantkit.backends.mxnet.profiler import Recording, record
from quantkit.backends.mxnet.profiler import Run as ProfiledRun
from quantkit.cli.terminal import Terminal
from quantkit.cli.work import Work
from quantkit.diagnosis.profile.layers import Layer
from quantkit.diagnosis.profile.profile import profile as profiled
from quantkit.ir.graph import Graph, Node, Tensor
from tests.cli.conftest import PROMPTLY, SHAPE, Run, start
from tests.diagnosis.profile.recordings import kernel, recording
from tests.diagnosis.profile.recordings import run as run_of
from tests.requirements import OBSTACLES

pytestmark = pytest.mark.timing


@pytest.fixture(autouse=True)
def known_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measuring takes seconds, and is tested elsewhere."""
    monkeypatch.setattr("quantkit.diagnosis.profile.measure.measured_peak", lambda: Peak(400.0, 100.0))


@pytest.fixture(scope="module")
def recorded(checkpoint: Path) -> Recording:
    """A recording of the checkpoint, 2 images in a run."""
    from quantkit.models.load import load_model

    return record(load_model(str(checkpoint), input_shape=(3, 16, 16)).graph, (2, 3, 16, 16), runs=3)


@pytest.fixture
def replayed(recorded: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quantkit.diagnosis.profile.measure.record", lambda *_: recorded)


def added_up(result: dict[str, Any]) -> float:
    parts = [layer["ms"] for layer in result["layers"]] + list(result["others_ms"].values())
    return float(sum(parts) + result["between_ms"])


def test_a_model_by_its_own_names(run: Run, checkpoint: Path, replayed: None) -> None:
    result = run("profile", checkpoint, "--input-shape", SHAPE, "--batch", 2, "--json")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert [layer["layer"] for layer in document["layers"]] == [
        "first", "normal", "stem", "branch", "sum", "joined", "pooled", "flat", "dense",
    ]  # fmt: skip
    assert document["doubt"] == ""
    assert added_up(document) == pytest.approx(document["profiled_ms"])
    assert sum(document["spent_ms"].values()) == pytest.approx(document["profiled_ms"])
    assert sum(each["ms"] for each in document["operators"]) + document["between_ms"] == pytest.approx(
        document["profiled_ms"]
    )
    by_name = {layer["layer"]: layer for layer in document["layers"]}
    # Two images, 8 filters over 16x16 values, 3 and 8 channels, 3x3 windows; a dense layer from 8 to 7.
    assert by_name["first"]["macs"] == 2 * 8 * 256 * 27
    assert document["macs"] == 2 * (8 * 256 * 27 + 8 * 256 * 72 + 56)
    assert document["gmacs_per_s"] == pytest.approx(document["macs"] / document["latency_ms"] / 1e6)


def test_an_int8_bundle_by_its_original_names(run: Run, checkpoint: Path, samples: Path, int8_engine: None) -> None:
    common = ["--input-shape", SHAPE, "--calib-data", samples]
    assert run("quantize", checkpoint, *common, "--out", "b", "--no-latency").exit_code == 0
    result = run("profile", "b", "--runs", 3, "--out", "p", "--json")
    document = json.loads(result.stdout)
    assert document["kind"] == "int8"
    assert added_up(document) == pytest.approx(document["profiled_ms"])
    multiplied = {layer["layer"]: layer for layer in document["layers"] if layer["macs"]}
    assert set(multiplied) == {"first", "branch", "dense"}
    assert multiplied["branch"]["stands_for"] == ["branch", "sum", "joined"]
    assert all(layer["int8"] for layer in multiplied.values())
    assert document["spent_ms"]["int8"] > 0
    # The names of MKL-DNN's INT8 kernels for AVX2 tell no instruction set.
    assert document["int8_isa"] or OBSTACLES["vnni"]()
    trace = json.loads(Path("p/trace.json").read_text())
    assert {"first", "branch", "dense", "run 1"} <= {event["name"] for event in trace["traceEvents"]}


def test_what_is_printed_names_layers_operators_and_the_sum(run: Run, checkpoint: Path, replayed: None) -> None:
    shown = run("profile", checkpoint, "--input-shape", SHAPE).stdout
    for text in (
        "branch",
        "FullyConnected",
        "of peak",
        "outside of operators",
        "one run, profiled",
        "FP32 100 GMAC/s",
    ):
        assert text in shown
    assert run("profile", checkpoint, "--input-shape", SHAPE, "--quiet").stdout == ""


@pytest.mark.parametrize("columns", [80, 140])
def test_every_column_is_shown_on_narrow_terminals(
    run: Run, checkpoint: Path, replayed: None, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = run("profile", checkpoint, "--input-shape", SHAPE).stdout.splitlines()
    assert any(line.rstrip().endswith("of peak") for line in lines)
    assert max(map(len, lines)) <= columns


@pytest.mark.parametrize(("columns", "beside"), [(80, False), (94, False), (96, True), (140, True)])
def test_no_name_of_a_layer_is_broken(columns: int, beside: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where names leave no room for operators and kernels beside them, these stand below."""
    from quantkit.cli.profile import _layers_table

    monkeypatch.setenv("COLUMNS", str(columns))
    name, operator = "resnetv10_stage1_activation0", "Convolution+relu"
    nodes = (Node(name, operator, (Tensor("data"),)),)
    graph = Graph(nodes, ("data",), (Tensor(name),))
    seen = recording(run_of(2.0, [1.0], [operator]), executed=[name], kernels={name: (kernel(1.0, "u8"),)})
    measured = profiled(graph, seen, {name: Layer(name, operator, (name,))}, {name: 10**6}, Peak(400.0, 100.0), 1)
    told = StringIO()
    with redirect_stdout(told):
        Terminal(Work()).show({}, _layers_table(measured, True))
    lines = told.getvalue().splitlines()
    (named,) = (line for line in lines if name in line)
    assert max(map(len, lines)) <= columns
    assert (operator in named, "brgconv" in named) == (beside, beside)
    assert operator in told.getvalue() and "avx512_core_vnni" in told.getvalue()


def test_few_layers_are_shown_unless_all_are_asked_for(
    run: Run, checkpoint: Path, replayed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quantkit.cli.profile._TOP", 2)
    command = ["profile", checkpoint, "--input-shape", SHAPE]
    assert "7 other layers" in run(*command).stdout
    assert "other layers" not in run(*command, "--all").stdout


def test_a_trace_is_replaced_only_by_force(run: Run, checkpoint: Path, replayed: None, tmp_path: Path) -> None:
    command = ["profile", checkpoint, "--input-shape", SHAPE, "--out", tmp_path / "deep" / "down"]
    assert run(*command).exit_code == 0
    written = tmp_path / "deep" / "down" / "trace.json"
    assert "joined" in written.read_text()
    written.write_text("mine")
    assert run(*command).exit_code == 2
    assert written.read_text() == "mine"
    assert run(*command, "--force").exit_code == 0
    assert "joined" in written.read_text()


def test_what_cannot_be_trusted_is_said(
    run: Run, checkpoint: Path, recorded: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = recorded.runs[0].events
    uneven = (ProfiledRun(100.0, events), ProfiledRun(140.0, events[:-1]))
    monkeypatch.setattr("quantkit.diagnosis.profile.measure.record", lambda *_: replace(recorded, runs=uneven))
    result = run("profile", checkpoint, "--input-shape", SHAPE, "--json")
    assert "differ by 40.0 %" in result.stderr
    assert "by operator, not by layer" in result.stderr
    document = json.loads(result.stdout)
    assert document["layers"] == []
    assert added_up(document) == pytest.approx(120.0)
    assert "Convolution" in run("profile", checkpoint, "--input-shape", SHAPE).stdout


def test_damaged_bundles_and_impossible_requests_are_refused(
    run: Run, checkpoint: Path, samples: Path, tmp_path: Path
) -> None:
    run("fuse", checkpoint, "--input-shape", SHAPE, "--calib-data", samples, "--out", "f", "--no-latency")
    params = tmp_path / "f" / "model-0000.params"
    content = bytearray(params.read_bytes())
    content[-200] ^= 1
    params.write_bytes(content)
    altered = run("profile", "f")
    assert (altered.exit_code, "model-0000.params" in altered.stderr) == (1, True)
    assert run("profile", "nothing").exit_code == 2
    assert run("profile", checkpoint, "--input-shape", "5,16,16").exit_code != 0
    (tmp_path / "file").write_text("")
    in_a_file = run("profile", checkpoint, "--out", "file")
    assert (in_a_file.exit_code, "file cannot be written" in in_a_file.stderr) == (2, True)
    in_a_bundle = run("profile", checkpoint, "--out", "f")
    assert (in_a_bundle.exit_code, "lies in a bundle" in in_a_bundle.stderr) == (2, True)
    assert run("profile", checkpoint, "--batch", 0).exit_code == 2


def test_ctrl_c_ends_at_once_and_leaves_nothing(checkpoint: Path, tmp_path: Path) -> None:
    process = start(
        tmp_path, "profile", checkpoint, "--input-shape", SHAPE, "--runs", 1_000_000, "--out", "p",
        TMPDIR=str(tmp_path),
    )  # fmt: skip
    assert process.stderr is not None
    while "without the profiler" not in process.stderr.readline():
        assert process.poll() is None
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    pressed = time.monotonic()
    _, err = process.communicate(timeout=30)
    assert time.monotonic() - pressed < PROMPTLY
    assert process.returncode == 130
    assert err.splitlines() == ["interrupted; nothing was written"]
    assert list(tmp_path.iterdir()) == []
