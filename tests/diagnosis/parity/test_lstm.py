"""Networks with LSTM layers in INT8 in engines, in a process of its own: MXNet runs them without VNNI only."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.diagnosis.parity import lstm_run

ROOT = Path(__file__).resolve().parents[3]
ENGINES = ("onnxruntime", "openvino", "reference")


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Any:
    env = {name: value for name, value in os.environ.items() if name != "DNNL_MAX_CPU_ISA"}
    command = [sys.executable, "-m", lstm_run.__name__, str(tmp_path_factory.mktemp("lstm") / "int8"), *ENGINES]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


pytestmark = pytest.mark.requires("onednn", "onnx", "onnxruntime", "openvino")


def test_every_check_succeeds(result: Any) -> None:
    failed = [(name, detail) for name, ok, detail in result["checks"] if not ok]
    assert failed == []
    names = {name for name, _, _ in result["checks"]}
    assert names >= {f"{engine} {what}" for engine in ENGINES for what in ("outputs", "layers")}


def test_both_engines_run_the_layers_in_integers(result: Any) -> None:
    details = {name: detail for name, _, detail in result["checks"]}
    assert "2 DynamicQuantizeLSTM" in details["onnxruntime in INT8"]
    assert "2 RNNSeq" in details["openvino in INT8"]


def test_the_bundle_holds_the_form_of_each_engine(result: Any) -> None:
    assert result["told"] == []
    assert result["deployed"] == {"onnxruntime": True, "openvino": True}


@pytest.mark.parametrize("engine", ["onnxruntime", "openvino"])
def test_a_layer_with_other_weights_is_named_alone(engine: str, result: Any) -> None:
    assert result["wrong"][engine] == ["digits_lstm_lstm0_rnn0_fused_0"]
