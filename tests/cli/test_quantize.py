"""``quantize`` from the outside: what it writes, and whether what it says is true."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from quantkit.calibration.recipes import recipes
from quantkit.calibration.table import read_table
from quantkit.cli.quantize import quantize
from quantkit.quantization.ptq_config import PRESETS
from tests.cli.conftest import SHAPE, Run, start
from tests.requirements import REAL_DATA, requires


@pytest.fixture
def options(checkpoint: Path, samples: Path) -> list[object]:
    return [checkpoint, "--input-shape", SHAPE, "--calib-data", samples]


def test_writes_a_bundle_named_after_the_network(
    run: Run, options: list[object], int8_engine: None, tmp_path: Path
) -> None:
    result = run("quantize", *options, "--calib", 5, "--no-latency")
    assert result.exit_code == 0, result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["tiny-int8"]
    manifest = json.loads((tmp_path / "tiny-int8" / "manifest.json").read_text())
    assert (manifest["kind"], manifest["settings"]["samples"]) == ("int8", 5)


@pytest.mark.parametrize("verb", ["quantize", "fuse"])
def test_the_users_sample_is_kept_if_asked_for(
    run: Run, options: list[object], int8_engine: None, samples: Path, tmp_path: Path, verb: str
) -> None:
    for index, keep in enumerate(([], ["--keep-sample"])):
        out = ["--out", f"b{index}", *(["--calib", 5, "--preset", "none"] if verb == "quantize" else [])]
        result = run(verb, *options, *out, *keep, "--no-latency")
        assert result.exit_code == 0, result.stderr
        stored = np.load(tmp_path / f"b{index}" / "sample.npz")["input"]
        assert any(np.array_equal(stored[0], each) for each in np.load(samples)["x"]) == bool(keep)


@pytest.mark.long
def test_two_that_write_the_same_bundle_at_once(
    options: list[object], int8_engine: None, run: Run, tmp_path: Path
) -> None:
    common = ["quantize", *options, "--no-latency", "--preset", "none", "--force", "--out", "out"]
    processes = [start(tmp_path, *common, "--calib", count) for count in (4, 8)]
    said = [process.communicate(timeout=120)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said
    result = run("verify", "out", "--json")
    assert result.exit_code == 0, result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["settings"]["samples"] in (4, 8)


def test_json_agrees_with_what_was_written(run: Run, options: list[object], int8_engine: None, tmp_path: Path) -> None:
    result = json.loads(run("quantize", *options, "--json", "--out", "b", "--method", "minmax").stdout)
    symbol = json.loads((tmp_path / "b" / "model-symbol.json").read_text())
    layers = [node for node in symbol["nodes"] if node["op"] in ("_sg_mkldnn_conv", "_sg_mkldnn_fully_connected")]
    assert result["kernels"]["of"] == result["kernels"]["int8"] == sum(result["int8"].values()) == len(layers) == 3
    assert result["size"]["int8"] == (tmp_path / "b" / "model-0000.params").stat().st_size
    assert result["operators"] == {"original": 9, "fused": 5}
    assert {entry["operator"] for entry in result["fp32"]} == {"Pooling", "Flatten"}
    assert result["calibration"]["samples"] == 23
    assert set(result["latency_ms"]) == {"fp32", "fp32_fused", "int8"}


@pytest.mark.long
def test_a_preset_is_used_shown_and_kept(run: Run, options: list[object], int8_engine: None, tmp_path: Path) -> None:
    def algorithms(*more: object) -> dict[str, object]:
        shown = json.loads(run("quantize", *options, "--calib", 5, "--no-latency", "--json", "--force", *more).stdout)
        manifest = json.loads((tmp_path / "tiny-int8" / "manifest.json").read_text())
        assert shown["algorithms"] == manifest["settings"]["algorithms"]
        return dict(shown["algorithms"])

    def of(name: str, images: int) -> dict[str, object]:
        return asdict(replace(PRESETS[name], num_samples=images))

    # Five images, and the mirror images of four, where the preset takes these.
    assert algorithms() == algorithms("--preset", "balanced") == of("balanced", 9)
    assert algorithms("--preset", "fast") == of("fast", 5)
    assert algorithms("--preset", "none") == of("none", 0)


def test_every_preset_can_be_asked_for() -> None:
    (option,) = (parameter for parameter in quantize.params if parameter.name == "preset")
    assert list(option.type.choices) == list(PRESETS)  # type: ignore[attr-defined]


def test_random_weights_are_adjusted_on_demand_only(run: Run, int8_engine: None) -> None:
    network = ["cifar_resnet20_v1", "--weights", "random", "--calib", 2, "--no-latency"]
    plain = json.loads(run("quantize", *network, "--json", "--out", "plain").stdout)
    asked = json.loads(run("quantize", *network, "--json", "--out", "asked", "--preset", "fast").stdout)
    assert (plain["algorithms"]["num_samples"], asked["algorithms"]["num_samples"]) == (0, 2)


def test_the_table_says_what_was_gained(run: Run, options: list[object], int8_engine: None) -> None:
    printed = run("quantize", *options, "--calib", 5).stdout
    for word in ("operators", "INT8", "FP32", "kernels", "parameters", "vs. FP32", "latency", "weights", "Next:"):
        assert word in printed
    assert "with 9 images, mirrored ones included" in " ".join(printed.split())
    assert all(len(line) <= 100 for line in printed.splitlines() if not line.startswith("  quantkit "))
    assert not any(line != line.rstrip() for line in printed.splitlines())


def test_the_onnx_file_is_told_of_with_what_to_do_next(run: Run, options: list[object], int8_engine: None) -> None:
    requires("onnx")
    common = (*options, "--calib", 5, "--preset", "none", "--no-latency", "--force")
    printed = run("quantize", *common, "--format", "mxnet,onnx", "--out", "b").stdout
    assert "ONNX b/model.onnx, " in " ".join(printed.split())
    assert "quantkit verify b --engine onnxruntime --engine openvino" in printed
    assert "quantkit.load('b', engine='onnxruntime')" in printed
    result = json.loads(run("quantize", *common, "--format", "mxnet,onnx", "--out", "b", "--json").stdout)
    assert result["onnx"] == {"file": "b/model.onnx", "size": Path("b/model.onnx").stat().st_size}
    plain = run("quantize", *common, "--out", "b").stdout
    assert "onnx" not in plain.lower()
    assert "quantkit.load('b').predict" in plain


def test_quiet_says_nothing(run: Run, options: list[object], int8_engine: None) -> None:
    result = run("quantize", *options, "--calib", 5, "--quiet", "--no-latency")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")


def test_a_table_replaces_calibration(run: Run, options: list[object], int8_engine: None, tmp_path: Path) -> None:
    assert run("calibrate", *options, "--calib", 5, "--out", "table.json").exit_code == 0
    assert run("quantize", *options, "--calib", 5, "--out", "one", "--no-latency").exit_code == 0
    other = run("quantize", *options, "--calib-table", "table.json", "--out", "two", "--no-latency")
    assert other.exit_code == 0, other.stderr
    assert "calibrating" not in other.stderr
    for file in ("model-symbol.json", "model-0000.params"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_force_replaces_a_bundle(run: Run, options: list[object], int8_engine: None) -> None:
    command = ["quantize", *options, "--calib", 5, "--no-latency"]
    assert run(*command).exit_code == 0
    assert run(*command).exit_code == 2
    assert run(*command, "--force").exit_code == 0


def test_exclusions_stay_fp32_and_say_so(run: Run, options: list[object], int8_engine: None) -> None:
    result = json.loads(run("quantize", *options, "--exclude", "bra*", "--json", "--no-latency").stdout)
    reasons = {entry["operator"]: entry["reason"] for entry in result["fp32"]}
    assert reasons["Convolution+sum+relu"] == "excluded by 'bra*'"
    assert result["kernels"]["int8"] == result["kernels"]["of"] - 1


def test_random_weights_are_unmissable(run: Run, options: list[object], int8_engine: None) -> None:
    result = run("quantize", *options, "--weights", "random", "--no-latency")
    assert "RANDOM WEIGHTS" in result.stderr
    assert "--weights pretrained or --weights FILE" in " ".join(result.stderr.split())
    assert "RANDOM: predictions mean nothing" in result.stdout
    assert "nothing (random weights)" in result.stdout


def test_of_a_bundle_no_weights_can_be_given(run: Run, options: list[object], engine: None) -> None:
    requires("onnx")
    assert run("fuse", *options, "--weights", "random", "--no-latency", "--out", "f").exit_code == 0
    for command in (["evaluate", "f", "--data", options[-1], "--json"], ["export", "f", "--out", "f.onnx"]):
        said = " ".join(run(*command).stderr.split())
        assert "RANDOM WEIGHTS" in said
        assert "make it again from the trained network" in said and "--weights" not in said


def test_where_no_weights_can_be_had_the_remedy_is_told_once(
    run: Run, engine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from quantkit.errors import WeightsUnavailable
    from quantkit.models import weights

    def unreachable(*_: object, **__: object) -> None:
        raise WeightsUnavailable("nobody answers")

    monkeypatch.setattr(weights, "obtain", unreachable)
    result = run("fuse", "cifar_resnet20_v1", "--out", "f", "--calib-data", "digits:test", "--no-latency")
    assert result.exit_code == 0, result.stderr
    said = " ".join(result.stderr.split())
    assert "nobody answers" in said and "RANDOM WEIGHTS" in said
    assert said.count("--weights") == 1


def test_what_was_not_adjusted_has_a_reason(run: Run, options: list[object], int8_engine: None) -> None:
    result = run("quantize", *options, "--calib", 5, "--preset", "none", "--no-latency")
    assert "nothing (preset none)" in result.stdout


def test_a_bundle_may_hold_its_onnx_file(run: Run, options: list[object], int8_engine: None, tmp_path: Path) -> None:
    requires("onnx")
    result = run("quantize", *options, "--calib", 5, "--no-latency", "--format", "mxnet, onnx")
    assert result.exit_code == 0, result.stderr
    assert (tmp_path / "tiny-int8" / "model.onnx").is_file()
    assert run("verify", "tiny-int8").exit_code == 0


@pytest.mark.parametrize("formats", ["onnx", "mxnet,tflite", ""])
def test_formats_are_checked_before_the_work(run: Run, options: list[object], formats: str) -> None:
    result = run("quantize", *options, "--format", formats)
    assert result.exit_code == 2
    assert "loading" not in result.stderr


@pytest.mark.long
def test_a_table_that_ships_is_used_and_told_of(run: Run, int8_engine: None, tmp_path: Path) -> None:
    recipe = next(recipe for recipe in recipes() if recipe.network == "digits_resnet20_v1")
    network = ["digits_resnet20_v1", "--no-latency", "--preset", "none", "--force"]
    result = run("quantize", *network, "--calib", 3)
    assert result.exit_code == 0, result.stderr
    said = "table shipped for these weights, from 200 digits of scikit-learn's training split"
    assert f"calibration: {said}; --calib 3 has no effect without --calib-data" in result.stderr
    assert "calibrating" not in result.stderr
    assert f"calibrated mse, {said}" in " ".join(result.stdout.split())
    (tmp_path / "config.toml").write_text("num_samples = 16")
    result = run("quantize", *network, "--config", tmp_path / "config.toml")
    assert f"calibration: {said}; --calib 16 has no effect without --calib-data" in result.stderr
    result = run("quantize", *network, "--config", "digits_resnet20_v1-int8/config.toml")
    assert f"calibration: {said}\n" in result.stderr
    assert "of scikit-learn digits, split train)" in " ".join(result.stdout.split())
    assert read_table(tmp_path / "digits_resnet20_v1-int8" / "calibration.json") == recipe.table
    for origin, more in (
        ("shipped", []),
        ("measured", ["--calib-data", "digits:train"]),
        ("measured", ["--method", "minmax"]),
        ("given", ["--calib-table", "digits_resnet20_v1-int8/calibration.json"]),
    ):
        assert json.loads(run("quantize", *network, *more, "--json").stdout)["calibration"]["origin"] == origin, more


@pytest.mark.long
def test_the_default_samples_come_with_what_they_cannot_stand_for(run: Run, int8_engine: None) -> None:
    common = ["digits_resnet20_v1", "--calib", 2, "--force"]
    for verb in (["quantize", "--preset", "none", "--no-latency"], ["calibrate", "--out", "table.json"]):
        said = run(*verb, *common, "--calib-data", "builtin").stderr
        assert "not documents, drawings, medical or satellite images" in said
        assert "Warning: the network reads images of 32x32 pixels" in said
        other = run(*verb, *common, "--calib-data", "digits:train").stderr
        assert "satellite" not in other and "Warning" not in other


@pytest.mark.long
def test_trained_weights_of_gluoncv_have_a_table(run: Run, int8_engine: None) -> None:
    requires("real-data")
    weights = REAL_DATA / "weights" / "cifar_resnet20_v1-0000.params"
    common = ["quantize", "cifar_resnet20_v1", "--no-latency", "--preset", "fast", "--force"]
    result = run(*common, "--weights", weights)
    assert "calibration: table shipped for these weights, from 500 CIFAR-10 training images" in result.stderr
    assert "Warning" not in result.stderr
    assert "biases, with 500 images of built-in photographs" in " ".join(result.stdout.split())
    assert "table shipped" not in run(*common, "--weights", "random", "--calib", 2).stderr
