"""``quantkit verify --engine``: the ONNX file against MXNet, in words, in JSON and as an exit code."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantkit.api import quantize
from quantkit.bundle import Bundle, open_bundle
from quantkit.errors import EngineMissing
from quantkit.files.files import sha256_of
from quantkit.host.cpu import read_cpu
from quantkit.quantization.config import QuantizationConfig
from tests.cli.conftest import Run
from tests.requirements import package, requires

onnx = package("onnx")

NAMES = ["outputs", "in INT8", "layers"]


def document_of(result: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(result.stdout)
    return document


@pytest.fixture
def altered(digits_onnx: Path, tmp_path: Path) -> Path:
    """A bundle whose ONNX file has another layer in the middle, and a manifest that says it is so."""
    bundle = Path(shutil.copytree(digits_onnx, tmp_path / "altered"))
    model = onnx.load(bundle / "model.onnx")
    weights = [each for each in model.graph.initializer if each.name.endswith("weight_integers")]
    middle = weights[len(weights) // 2]
    middle.CopyFrom(onnx.numpy_helper.from_array(-onnx.numpy_helper.to_array(middle), middle.name))
    onnx.save(model, bundle / "model.onnx")
    manifest = json.loads((bundle / "manifest.json").read_text())
    path = bundle / "model.onnx"
    manifest["files"]["model.onnx"] = {"sha256": sha256_of(path), "size": path.stat().st_size}
    (bundle / "manifest.json").write_text(json.dumps(manifest))
    return bundle


@pytest.mark.long
@pytest.mark.requires("vnni")
@pytest.mark.parametrize("name", ["onnxruntime", "openvino"])
def test_a_good_file_passes_every_check(run: Run, digits_onnx: Path, name: str) -> None:
    requires(name)
    result = run(
        "verify", digits_onnx, "--engine", name, "--data", "digits:test", "--num-samples", 20, "--layers", "--json"
    )
    assert result.exit_code == 0, result.stderr
    document = document_of(result)
    assert document["ok"]
    assert [check["name"] for check in document["checks"]][-3:] == [f"{name} {what}" for what in NAMES]
    (engine,) = document["engines"]
    assert (engine["images"]["images"], engine["sample"]["images"]) == (20, 1)
    assert engine["precision"]["left"] == []
    assert len(engine["layers"]) > 20


def test_two_engines_and_a_table(run: Run, digits_onnx: Path) -> None:
    requires("onnxruntime")
    options = ("--engine", "onnxruntime", "--engine", "reference", "--data", "digits:test", "--num-samples", 3)
    result = run("verify", digits_onnx, *options)
    assert result.exit_code == 0, result.stderr
    text = " ".join(result.stdout.split())
    assert text.count("for 3 of 3 images") == 2
    assert "QLinearConv" in text
    assert "is sound." in text


@pytest.mark.requires("vnni")
def test_a_file_with_another_layer_fails_and_the_layer_is_named(run: Run, altered: Path) -> None:
    requires("onnxruntime")
    options = ("--engine", "onnxruntime", "--data", "digits:test", "--num-samples", 20, "--layers", "--json")
    result = run("verify", altered, *options)
    assert result.exit_code == 1
    document = document_of(result)
    failed = {check["name"]: check["why"] for check in document["checks"] if not check["ok"]}
    assert {"onnxruntime outputs", "onnxruntime layers"} <= set(failed)
    (engine,) = document["engines"]
    wrong = [layer for layer in engine["layers"] if layer["alone"] > 0.01]
    assert len(wrong) == 1
    assert wrong[0]["tensor"] in failed["onnxruntime layers"]
    human = run("verify", altered, *options[:-1])
    assert "its ONNX file is NOT" in human.stdout
    assert "onnxruntime against MXNet, layer by layer" in human.stdout.splitlines()
    assert "alone" in human.stdout.split("its ONNX file is NOT")[0].splitlines()[-3]


@pytest.mark.parametrize("isa", [("AVX2",), ("AVX512", "AVX512-VNNI")])
def test_saturation_is_told_of_where_it_may_be_the_cause(
    run: Run, altered: Path, monkeypatch: pytest.MonkeyPatch, isa: tuple[str, ...]
) -> None:
    requires("onnxruntime")
    processor = replace(read_cpu(), isa=isa)
    monkeypatch.setattr("quantkit.cli.verify.read_cpu", lambda: processor)
    told = run("verify", altered, "--engine", "onnxruntime", "--data", "digits:test", "--num-samples", 4).stdout
    assert ("has no VNNI" in told and "--reduce-range auto" in told) == (isa == ("AVX2",))


@pytest.fixture(scope="module")
def detector(int8_engine: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of the small SSD that ships."""
    network = quantize("digits_ssd", "scenes:train", QuantizationConfig(num_samples=4, preset="none"))
    return network.save(tmp_path_factory.mktemp("detector") / "digits_ssd")


def test_detectors_are_compared_box_by_box(run: Run, detector: Path) -> None:
    requires("onnxruntime")
    options = ("verify", detector, "--engine", "onnxruntime", "--data", "scenes:test", "--num-samples", 12)
    result = run(*options)
    assert result.exit_code == 0, result.stderr
    assert re.search(
        r"outputs mAP of agreement [\d.]+ % \[.* \(95 % is needed\) on 12 images, \d+ of \d+ detections found, mean "
        r"overlap 0\.9\d\d \(0\.9 is needed\), edges at most [\d.]+ pixels and scores at most [\d.]+ away ok",
        " ".join(result.stdout.split()),
    ), result.stdout
    (engine,) = document_of(run(*options, "--json"))["engines"]
    boxes = engine["images"]["boxes"]
    assert 12 < boxes["found"] <= boxes["detections"]
    assert boxes["overlap"] > 0.95 and 0 < boxes["edges"] < 5 and 0 < boxes["scores"] < 0.2


def test_a_file_that_an_engine_refuses_fails(run: Run, digits_onnx: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    requires("onnxruntime")
    from quantkit.diagnosis.parity import check
    from quantkit.errors import EngineError

    def refused(*_: Any) -> None:
        raise EngineError("ONNX Runtime cannot load the network")

    monkeypatch.setattr(check, "output_parity", refused)
    result = run("verify", digits_onnx, "--engine", "onnxruntime", "--json")
    assert result.exit_code == 1
    last = document_of(result)["checks"][-1]
    assert (last["name"], last["ok"], last["why"]) == ("onnxruntime", False, "ONNX Runtime cannot load the network")


@pytest.mark.requires("vnni")
def test_a_bundle_without_an_onnx_file_is_exported_for_the_purpose(
    run: Run, digits_onnx: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requires("onnxruntime")
    monkeypatch.setattr(Bundle, "onnx", lambda bundle, lstm="qdq": None)
    before = sorted(path.name for path in digits_onnx.iterdir())
    result = run("verify", digits_onnx, "--engine", "onnxruntime", "--data", "digits:test", "--num-samples", 2)
    assert result.exit_code == 0, result.stderr
    assert "writing the network as ONNX, which the bundle does not hold" in result.stderr
    assert sorted(path.name for path in digits_onnx.iterdir()) == before


def test_the_help_says_how_many_images_are_compared(run: Run) -> None:
    from quantkit.diagnosis.parity.verify import IMAGES, REFERENCE_IMAGES

    shown = " ".join(run("verify", "--help").stdout.split())
    assert f"[default: {IMAGES}; {REFERENCE_IMAGES} for reference]" in shown


def test_the_help_says_what_an_engine_must_keep(run: Run) -> None:
    from quantkit.diagnosis.parity.outputs import LEAST_COSINE, LEAST_SCORE, MEAN_OVERLAP

    shown, lower = " ".join(run("verify", "--help").stdout.split()), "or that of INT8 with FP32 if it is lower"
    assert f"must be at least {LEAST_COSINE}, {lower}" in shown
    assert f"mAP or mIoU against MXNet's of at least {100 * LEAST_SCORE:.0f} %, {lower}; detections then" in shown
    assert f"need no cosine, but boxes that overlap MXNet's by {MEAN_OVERLAP} on average" in shown


@pytest.mark.parametrize("option", [("--data", "builtin"), ("--num-samples", "3"), ("--layers",)])
def test_options_of_engines_need_one(run: Run, digits_onnx: Path, option: tuple[str, ...]) -> None:
    result = run("verify", digits_onnx, *option)
    assert result.exit_code == 2
    assert f"{option[0]} is for comparing engines; give --engine as well" in result.stderr


def test_without_a_known_preprocessing_the_sample_is_compared(
    run: Run, digits_onnx: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requires("onnxruntime")
    opened = "quantkit.diagnosis.parity.verify.open_bundle"
    monkeypatch.setattr(opened, lambda *given: replace(open_bundle(*given), preprocess=None))
    result = run("verify", digits_onnx, "--engine", "onnxruntime", "--json")
    assert result.exit_code == 0, result.stderr
    assert document_of(result)["engines"][0]["images"] is None


def test_arrays_are_compared_as_they_are(run: Run, digits_onnx: Path, tmp_path: Path) -> None:
    requires("onnxruntime")
    path = tmp_path / "arrays.npz"
    np.savez(path, x=np.random.default_rng(0).normal(size=(5, 3, 32, 32)).astype(np.float32))
    result = run("verify", digits_onnx, "--engine", "onnxruntime", "--data", path, "--json")
    assert document_of(result)["engines"][0]["images"]["images"] == 5


def test_without_mxnet_the_stored_sample_is_compared(
    run: Run, digits_onnx: Path, altered: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requires("onnxruntime")

    def missing(*_: Any) -> None:
        raise EngineMissing("no mxnet here")

    monkeypatch.setattr("quantkit.diagnosis.parity.verify.verify_bundle", missing)
    monkeypatch.setattr("quantkit.backends.mxnet.execute.load_mxnet", missing)
    result = run("verify", digits_onnx, "--engine", "onnxruntime", "--layers", "--json")
    assert result.exit_code == 0, result.stderr
    assert "there is no MXNet in this environment" in result.stderr
    names = [check["name"] for check in document_of(result)["checks"]]
    assert names[-3:] == ["no other files", "onnxruntime sample", "onnxruntime in INT8"]
    assert run("verify", altered, "--engine", "onnxruntime").exit_code == 1
    monkeypatch.setattr("quantkit.bundle.verify_bundle", missing)
    assert run("verify", digits_onnx).exit_code == 2
