"""What other quantizers make, with one that only copies."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from quantkit.backends.registry import ONNXRUNTIME, OPENVINO, Engine
from quantkit.benchmark.build import Build
from quantkit.benchmark.builds.recipes import PEERS, PEERS_SCRIPT, RECIPES
from quantkit.benchmark.variants import form_of
from quantkit.benchmark.workloads import exported
from quantkit.benchmark.workloads.exported import MODES, int8_file, quantized_by_peer
from quantkit.benchmark.workloads.network import Checkpoint
from quantkit.errors import QuantkitError
from quantkit.files import files

COPIES = """
import json, shutil, sys
_, quantize, mode, network, calibration, folder = sys.argv
assert quantize == "quantize" and calibration.endswith(".npy")
print("progress", mode)
shutil.copy(network, folder + "/quantized.onnx")
print(json.dumps({"onnx": "quantized.onnx"}))
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The quantizers' script, in this interpreter."""
    monkeypatch.setenv("QUANTKIT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(exported, "PEERS_SCRIPT", tmp_path / "peers.py")
    build = Build("peers", sys.executable, "", "", "", "", (), True, "onnxruntime")
    monkeypatch.setattr(exported, "open_build", lambda name, tell: build)
    path = tmp_path / "peers.py"
    path.write_text(COPIES)
    return path


@pytest.fixture
def fp32(tmp_path: Path) -> Checkpoint:
    path = tmp_path / "fp32.onnx"
    path.write_text("network")
    return Checkpoint({"onnx": path}, {"onnx": files.sha256_of(path)})


def images(count: int) -> np.ndarray:
    return np.zeros((count, 3, 4, 4), np.float32)


def test_what_is_not_images_is_called_samples(script: Path, fp32: Checkpoint) -> None:
    told: list[str] = []
    quantized_by_peer("nncf", "net", fp32, np.zeros((2, 5, 4), np.float32), told.append)
    assert told == [f"net: quantizing with {MODES['nncf']}, 2 samples"]


def test_a_network_is_quantized_once_for_the_same_images(script: Path, fp32: Checkpoint) -> None:
    told: list[str] = []
    first = quantized_by_peer("nncf", "net", fp32, images(2), told.append)
    assert first.files["onnx"].read_text() == "network"
    assert told == [f"net: quantizing with {MODES['nncf']}, 2 images"]
    assert quantized_by_peer("nncf", "net", fp32, images(2), told.append) == first
    assert len(told) == 1
    for form, count in (("nncf", 3), ("onnxruntime-ptq", 2)):
        assert quantized_by_peer(form, "net", fp32, images(count), told.append).files != first.files
    script.write_text(COPIES + "\n")
    assert quantized_by_peer("nncf", "net", fp32, images(2), told.append).files != first.files


def test_another_network_or_other_packages_are_quantized_anew(
    script: Path, fp32: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made(network: Checkpoint) -> Path:
        return quantized_by_peer("nncf", "net", network, images(2), lambda message: None).files["onnx"]

    first = made(fp32)
    fp32.files["onnx"].write_text("another")
    second = made(Checkpoint(fp32.files, {"onnx": files.sha256_of(fp32.files["onnx"])}))
    assert (first.read_text(), second.read_text()) == ("network", "another")
    monkeypatch.setattr(exported, "RECIPES", {PEERS: replace(RECIPES[PEERS], wheels=("nncf==4",))})
    assert made(fp32) != first


def test_onnx_files_are_written_anew_by_other_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUANTKIT_HOME", str(tmp_path))
    monkeypatch.setattr(exported, "export_int8_onnx", lambda directory, path, lstm: path.write_text(directory.name))

    def made(bundle: str) -> str:
        stored = int8_file("onnx-int8", "net", "key", lambda folder: tmp_path / bundle, lambda message: None)
        return stored.files["onnx"].read_text()

    assert (made("first"), made("second")) == ("first", "first")
    monkeypatch.setattr(exported, "code_hash", lambda *parts: "other")
    assert made("second") == "second"


@pytest.mark.parametrize(("engine", "lstm"), [(ONNXRUNTIME, "dynamic"), (OPENVINO, "qdq")])
def test_lstm_layers_are_written_as_their_engine_runs_them_in_int8(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: Engine[bytes], lstm: str
) -> None:
    monkeypatch.setenv("QUANTKIT_HOME", str(tmp_path))
    monkeypatch.setattr(exported, "export_int8_onnx", lambda directory, path, lstm: path.write_text(lstm))
    form = form_of(engine.name, "int8")
    stored = int8_file(form, "net", "key", lambda folder: folder, lambda message: None)
    assert stored.files["onnx"].read_text() == lstm


def test_a_quantizer_that_fails_is_quoted(script: Path, fp32: Checkpoint) -> None:
    script.write_text("import sys; sys.exit('the last words')")
    with pytest.raises(
        QuantkitError, match=r"NNCF performance \(default\) ended with exit code 1 on net:\n    the last"
    ):
        quantized_by_peer("nncf", "net", fp32, images(2), lambda message: None)


@pytest.mark.parametrize(
    "said", ["", "null", "[]", "7", "{", '{"onnx": 7}', '{"onnx": "../fp32.onnx"}', '{"onnx": "/etc/passwd"}',
             '{"onnx": "missing.onnx"}'],
)  # fmt: skip
def test_a_quantizer_that_answers_anything_else_is_an_error(script: Path, fp32: Checkpoint, said: str) -> None:
    script.write_text(f"print({said!r})")
    with pytest.raises(QuantkitError, match="made of net what is no network"):
        quantized_by_peer("nncf", "net", fp32, images(2), lambda message: None)


def test_every_form_has_a_mode_of_the_script_that_ships() -> None:
    source = PEERS_SCRIPT.read_text()
    assert all(f'"{mode}": (' in source for mode in MODES.values())
