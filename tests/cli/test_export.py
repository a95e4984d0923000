"""``quantkit export``."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import click
import numpy as np
import pytest

from quantkit.cli.export import _LSTM, export
from quantkit.lowering.onnx_lstm import LstmForm
from tests.cli.conftest import SHAPE, Run
from tests.requirements import package

onnxruntime = package("onnxruntime")


@pytest.fixture
def bundle(run: Run, checkpoint: Path, samples: Path, int8_engine: None) -> str:
    """An INT8 bundle without algorithms."""
    common = ["--input-shape", SHAPE, "--calib-data", samples, "--preset", "none", "--no-latency"]
    assert run("quantize", checkpoint, *common, "--out", "net-int8").exit_code == 0
    return "net-int8"


def outputs(path: str, samples: Path) -> Any:
    return onnxruntime.InferenceSession(path).run(None, {"data": np.load(samples)["x"]})[0]


@pytest.mark.requires("vnni")
def test_a_bundle_becomes_an_int8_file(run: Run, bundle: str, checkpoint: Path, samples: Path) -> None:
    import onnx

    done = run("export", bundle, "--opset", "17", "--json")
    assert done.exit_code == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["file"] == "net-int8.onnx"
    assert result["int8"] == {"Convolution+relu": 1, "Convolution+sum+relu": 1, "FullyConnected": 1}
    assert result["fp32_layers"] == []
    written = onnx.load(result["file"])
    told = {entry.key: entry.value for entry in written.metadata_props}
    assert json.loads(told["quantization"])["samples"] == 23
    assert told["weights_sha256"]
    assert written.opset_import[0].version == 17
    assert result["size"] == Path(result["file"]).stat().st_size
    assert run("export", checkpoint, "--input-shape", SHAPE, "--out", "fp32.onnx").exit_code == 0
    actual, expected = outputs("net-int8.onnx", samples), outputs("fp32.onnx", samples)
    assert np.sum(actual * expected) / np.linalg.norm(actual) / np.linalg.norm(expected) > 0.999


def test_the_version_of_the_operators_is_told_without_reading_the_file(
    run: Run, bundle: str, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import onnx

    monkeypatch.delattr(onnx, "load")
    sources = ([checkpoint, "--input-shape", SHAPE], [bundle], [bundle, "--precision", "fp32"])
    for case, source in enumerate(sources):
        oldest = run("export", *source, "--out", f"{case}.onnx", "--json")
        asked = run("export", *source, "--out", f"{case}-17.onnx", "--opset", "17", "--json")
        assert [json.loads(done.stdout)["opset"] for done in (oldest, asked)] == [13, 17]


def test_a_bundle_in_fp32_computes_what_the_network_does(
    run: Run, bundle: str, checkpoint: Path, samples: Path
) -> None:
    assert run("export", bundle, "--precision", "fp32", "--out", "bundle.onnx").exit_code == 0
    assert run("export", checkpoint, "--input-shape", SHAPE, "--out", "network.onnx").exit_code == 0
    actual, expected = outputs("bundle.onnx", samples), outputs("network.onnx", samples)
    # The bundle has its dense weights as integers only.
    assert np.abs(actual - expected).max() < 0.02 * np.abs(expected).max()
    assert np.abs(actual - expected).max() > 0


def test_a_fused_network_is_written_in_fp32(run: Run, checkpoint: Path, samples: Path) -> None:
    common = ["--input-shape", SHAPE]
    assert run("fuse", checkpoint, *common, "--calib-data", samples, "--out", "f", "--no-latency").exit_code == 0
    result = json.loads(run("export", "f", "--json").stdout)
    assert (result["precision"], result["int8"]) == ("fp32", {})
    assert run("export", checkpoint, *common, "--out", "network.onnx").exit_code == 0
    actual, expected = outputs("f.onnx", samples), outputs("network.onnx", samples)
    assert np.abs(actual - expected).max() <= 1e-5 * np.abs(expected).max()


def test_layers_left_in_fp32_are_named(run: Run, checkpoint: Path, samples: Path, int8_engine: None) -> None:
    common = ["--input-shape", SHAPE, "--calib-data", samples, "--preset", "none", "--no-latency"]
    assert run("quantize", checkpoint, *common, "--exclude", "branch", "--out", "b").exit_code == 0
    assert json.loads(run("export", "b", "--json").stdout)["fp32_layers"] == ["joined"]


def test_adjusted_weights_in_fp32_are_warned_of(run: Run, checkpoint: Path, samples: Path, int8_engine: None) -> None:
    common = ["--input-shape", SHAPE, "--calib-data", samples, "--preset", "fast", "--no-latency"]
    assert run("quantize", checkpoint, *common, "--out", "b").exit_code == 0
    done = run("export", "b", "--precision", "fp32")
    assert done.exit_code == 0
    assert "adapted to INT8" in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["BUNDLE", "--opset", "12"], "opset 12"),
        (["BUNDLE", "--weights", "random"], "leave --weights out"),
        (["BUNDLE", "--input-shape", SHAPE], "leave --input-shape out"),
        (["BUNDLE", "--precision", "fp32", "--reduce-range", "all"], "leave it out"),
        (["NETWORK", "--precision", "int8"], "quantize it first"),
        (["NETWORK", "--reduce-range", "auto"], "leave it out"),
        (["BUNDLE", "--precision", "fp32", "--lstm", "dynamic"], "--lstm is for integers"),
        (["BUNDLE", "--out", "no/net.onnx"], "there is no folder no"),
        (["nothing"], "unknown network 'nothing'"),
    ],
)
def test_mistakes_are_named(arguments: Sequence[str], told: str, run: Run, bundle: str, checkpoint: Path) -> None:
    places = {"BUNDLE": bundle, "NETWORK": str(checkpoint)}
    done = run("export", *(places.get(each, each) for each in arguments))
    assert done.exit_code == 2
    assert told in " ".join(done.stderr.split())
    assert not list(Path().glob("**/*.onnx"))


def test_an_earlier_file_is_replaced_on_demand_only(run: Run, bundle: str) -> None:
    Path("net-int8.onnx").write_text("mine")
    assert run("export", bundle).exit_code == 2
    assert Path("net-int8.onnx").read_text() == "mine"
    assert run("export", bundle, "--force").exit_code == 0
    assert Path("net-int8.onnx").stat().st_size > 1000


def test_a_smaller_range_is_written(run: Run, bundle: str) -> None:
    import onnx
    from onnx import numpy_helper

    assert run("export", bundle, "--reduce-range", "all").exit_code == 0
    weights = [numpy_helper.to_array(each) for each in onnx.load("net-int8.onnx").graph.initializer]
    assert max(np.abs(each.astype(int)).max() for each in weights if each.dtype == np.int8) == 64


@pytest.mark.parametrize("inside", ["model.onnx", "other.onnx"])
def test_a_bundle_is_not_written_into(run: Run, bundle: str, inside: str) -> None:
    done = run("export", bundle, "--out", f"{bundle}/{inside}", "--force")
    assert (done.exit_code, "lies in a bundle" in " ".join(done.stderr.split())) == (2, True)
    assert not (Path(bundle) / inside).exists()


def test_what_is_no_ordinary_file_is_not_replaced(run: Run, bundle: str) -> None:
    os.mkfifo("pipe")
    assert run("export", bundle, "--out", "pipe", "--force").exit_code == 2
    assert Path("pipe").is_fifo()


def test_the_forms_of_lstm_layers_are_the_library_s() -> None:
    (option,) = (each for each in export.params if each.name == "lstm")
    assert isinstance(option.type, click.Choice)
    assert tuple(option.type.choices) == tuple(_LSTM) == get_args(LstmForm)
