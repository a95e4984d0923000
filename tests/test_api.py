from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import quantkit
from quantkit.host.cpu import read_cpu
from tests.processes import environment

ENGINE = {"mxnet", "onnx", "gluoncv", "PIL", "skimage", "sklearn"}
HEAVY = ENGINE | {"scipy", "pydantic", "requests", "numpy", "click", "rich"}


def in_a_new_process(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_quantkit_is_lean() -> None:
    loaded = json.loads(in_a_new_process("import json, sys, quantkit; print(json.dumps(list(sys.modules)))"))
    assert {name.split(".")[0] for name in loaded} & HEAVY == set()
    lean = {"quantkit.errors", "quantkit.host", "quantkit.host.telemetry", "quantkit.version"}
    assert {name for name in loaded if name.startswith("quantkit.")} == lean


def test_importing_quantkit_is_fast() -> None:
    # Processor time, so that a busy machine does not count.
    program = "from time import process_time as now; t = now(); import quantkit; print(now() - t)"
    assert min(float(in_a_new_process(program)) for _ in range(3)) < 0.06


def test_the_public_names_load_no_engine() -> None:
    use = "[getattr(quantkit, name) for name in quantkit.__all__]"
    loaded = json.loads(in_a_new_process(f"import json, sys, quantkit; {use}; print(json.dumps(list(sys.modules)))"))
    assert {name.split(".")[0] for name in loaded} & ENGINE == set()


def test_every_public_name_is_there_and_listed() -> None:
    assert quantkit.__all__ == sorted(quantkit.__all__)
    for name in quantkit.__all__:
        assert getattr(quantkit, name) is not None
        assert name in dir(quantkit)


def test_type_checkers_see_every_public_name_where_it_is_loaded_from() -> None:
    tree = ast.parse(Path(quantkit.__file__).read_text())
    (checked,) = (each for each in tree.body if isinstance(each, ast.If))
    assert {
        alias.asname or alias.name: (each.module, alias.name)
        for each in checked.body
        if isinstance(each, ast.ImportFrom)
        for alias in each.names
    } == quantkit._HOMES
    assert {"__version__", "errors", *quantkit._HOMES} == set(quantkit.__all__)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'quantise'"):
        quantkit.quantise  # noqa: B018


def test_no_subpackage_hides_a_public_name() -> None:
    packages = {path.name for path in Path(quantkit.__file__).parent.iterdir() if path.is_dir()}
    assert not packages & set(quantkit.__all__)


def test_the_version_is_the_package_s() -> None:
    project = Path(__file__).parents[1] / "pyproject.toml"
    assert f'\nversion = "{quantkit.__version__}"\n' in project.read_text()


def test_the_stages_of_the_api_make_a_bundle_that_predicts(int8_engine: None, tmp_path: Path) -> None:
    model = quantkit.load_model("digits_resnet20_v1")
    fused = quantkit.fuse(model, "digits:train")
    table = quantkit.calibrate(fused, "digits:train", 4)
    int8 = quantkit.lower(
        fused, table, quantkit.apply_algorithms(fused, table, quantkit.plan(fused, table), "digits:train")
    )
    assert isinstance(int8, quantkit.QuantizedModel)
    assert isinstance(fused, quantkit.FusedModel)
    assert isinstance(model, quantkit.Model)
    predictor = quantkit.load(int8.save(tmp_path / "digits"))
    assert isinstance(predictor, quantkit.Predictor)
    for sample in list(quantkit.load_data("digits:test"))[:5]:
        ((best,),) = predictor.classify(sample.image, top=1)
        assert best[0] == str(sample.label)


def test_a_directory_without_manifest_is_no_bundle(engine: None, tmp_path: Path) -> None:
    with pytest.raises(quantkit.errors.UserError, match=r"is no bundle: it has no manifest.json.*load_model"):
        quantkit.load(tmp_path)


def test_a_network_is_evaluated_in_every_form(digits_onnx: Path, digits_int8: quantkit.QuantizedModel) -> None:
    model = digits_int8.source.model
    of_bundle = quantkit.evaluate(str(digits_onnx), "digits:test", model, num_samples=50)
    of_value = quantkit.evaluate(digits_int8, "digits:test", "digits_resnet20_v1", num_samples=50)
    assert (of_bundle.accuracy, of_bundle.agreement) == (of_value.accuracy, of_value.agreement)
    assert of_bundle.images == 50 and of_bundle.accuracy["network"].top1 > 0.9
    assert quantkit.evaluate(model, "digits:test", num_samples=50).accuracy["network"] == of_value.accuracy["reference"]


def test_a_dataset_is_evaluated_as_its_source_is(digits_onnx: Path, digits_int8: quantkit.QuantizedModel) -> None:
    model = digits_int8.source.model
    dataset = quantkit.CalibrationDataset("digits:test", model.preprocess, model.input_shape)
    for network in (digits_onnx, digits_int8):
        of_source = quantkit.evaluate(network, "digits:test", model, num_samples=50)
        assert quantkit.evaluate(network, dataset, model, num_samples=50).document == of_source.document
    part = quantkit.evaluate(model, dataset.subset(20))
    assert part.images == 20 and part.accuracy["network"].top1 > 0.9


def test_a_dataset_of_another_preprocessing_is_not_evaluated(digits_onnx: Path) -> None:
    other = quantkit.CalibrationDataset("digits:test", quantkit.Preprocess(), (3, 32, 32))
    with pytest.raises(quantkit.errors.UserError, match="digits, split test' was preprocessed for another network"):
        quantkit.evaluate(digits_onnx, other)


@pytest.mark.parametrize("name", ["num_samples", "batch_size"])
def test_an_evaluation_is_of_whole_numbers_of_images(digits_fused: quantkit.FusedModel, name: str) -> None:
    for number in (0, -1, 2.0, "3", True):
        with pytest.raises(quantkit.errors.UserError, match=f"{name} is .*; give a whole number from 1 up"):
            quantkit.evaluate(digits_fused.model, "digits:test", **{name: number})


def test_every_form_of_a_network_is_exported(
    digits_onnx: Path, digits_int8: quantkit.QuantizedModel, tmp_path: Path
) -> None:
    quantkit.export_onnx(digits_onnx, tmp_path / "bundle.onnx")
    quantkit.export_onnx(digits_int8, tmp_path / "value.onnx")
    digits_int8.to_onnx(tmp_path / "method.onnx")
    stored = (digits_onnx / "model.onnx").read_bytes()
    assert {path.read_bytes() for path in tmp_path.iterdir()} == {stored}
    quantkit.export_onnx("digits_resnet20_v1", tmp_path / "fp32.onnx")
    quantkit.export_onnx(digits_int8.source.model, tmp_path / "model.onnx")
    assert (tmp_path / "fp32.onnx").read_bytes() == (tmp_path / "model.onnx").read_bytes() != stored
    quantkit.export_onnx(digits_onnx, tmp_path / "reduced.onnx", reduce_range="all")
    assert (tmp_path / "reduced.onnx").read_bytes() != stored


def test_values_tell_themselves_in_a_line(digits_int8: quantkit.QuantizedModel) -> None:
    assert digits_int8.agreement is not None
    assert digits_int8.agreement.cosine > (0.99995 if read_cpu().has_vnni else 0.999)
    cosine = f"{digits_int8.agreement.cosine:.4f}"
    told = f"QuantizedModel('digits_resnet20_v1', 22 operators in INT8, cosine {cosine} with FP32)"
    assert repr(digits_int8) == told


def test_each_stage_asks_for_what_the_one_before_returns(digits_int8: quantkit.QuantizedModel) -> None:
    fused, table = digits_int8.source, digits_int8.table
    plan = digits_int8.network.plan
    wrong: Any = "digits_resnet20_v1"
    calls: list[tuple[str, Callable[[], object]]] = [
        ("model .* a Model, which load_model", lambda: quantkit.fuse(wrong)),
        ("preprocess is of type str; give a Prepro", lambda: quantkit.load_model("resnet50", preprocess=wrong)),
        ("class_scores is 'digits_resnet20_v1'", lambda: quantkit.load_model("resnet50", class_scores=wrong)),
        ("params is of type str; give arrays by name", lambda: quantkit.load_model("resnet50", params=wrong)),
        ("input shape 5 is not", lambda: quantkit.load_model("resnet50", input_shape=5)),  # type: ignore[arg-type]
        ("source .* a FusedModel, which fuse", lambda: quantkit.calibrate(wrong)),
        ("method is 3; give a name", lambda: quantkit.calibrate(fused, "digits:train", 2, method=3)),  # type: ignore[arg-type]
        ("source .* a FusedModel", lambda: quantkit.plan(wrong, table)),
        ("table .* a CalibrationTable, which calibrate", lambda: quantkit.plan(fused, wrong)),
        ("source .* a FusedModel", lambda: quantkit.apply_algorithms(wrong, table, plan)),
        ("table .* a CalibrationTable", lambda: quantkit.apply_algorithms(fused, wrong, plan)),
        ("plan .* a QuantizationPlan, which plan", lambda: quantkit.apply_algorithms(fused, table, wrong)),
        ("unknown preset 3", lambda: quantkit.apply_algorithms(fused, table, plan, "digits:train", 3)),  # type: ignore[arg-type]
        ("source .* a FusedModel", lambda: quantkit.lower(wrong, table, wrong)),
        ("table .* a CalibrationTable", lambda: quantkit.lower(fused, wrong, wrong)),
        ("adjusted .* an AdjustedNetwork, which apply_algorithms", lambda: quantkit.lower(fused, table, wrong)),
        ("quantized .* a QuantizedModel, which quantize", lambda: quantkit.measure_agreement(wrong)),
        ("source .* a FusedModel", lambda: quantkit.search_mixed_precision(wrong, table, plan, wrong)),
        ("goal .* a Goal, such as", lambda: quantkit.search_mixed_precision(fused, table, plan, wrong)),
        ("config .* a QuantizationConfig, such as", lambda: quantkit.quantize(fused.model, config=wrong)),
        ("table .* a CalibrationTable", lambda: quantkit.quantize(fused.model, table=wrong)),
        ("ONNX opset 17.0 cannot be written; choose one from 13 to 21", lambda: digits_int8.to_onnx("never", 17.0)),  # type: ignore[arg-type]
        ("formats is 'mxnet'; give a tuple", lambda: digits_int8.save("never", formats="mxnet")),
    ]
    for message, call in calls:
        with pytest.raises(quantkit.errors.UserError, match=message):
            call()


def test_evaluation_data_are_for_a_goal(digits_fused: quantkit.FusedModel) -> None:
    with pytest.raises(quantkit.errors.UserError, match="evaluation_data are for a goal"):
        quantkit.quantize(digits_fused.model, evaluation_data="digits:test")


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b"])
def test_names_that_no_file_can_have_are_unknown(engine: None, name: str) -> None:
    with pytest.raises(quantkit.errors.UserError):
        quantkit.load(name)
    with pytest.raises(quantkit.errors.UserError):
        quantkit.load_model(name)
    with pytest.raises(quantkit.errors.UserError):
        quantkit.load_data(name)
    assert not quantkit.verify(name).ok
    with pytest.raises(quantkit.errors.UserError):
        quantkit.QuantizationConfig.read(name)


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b"])
def test_nothing_is_written_to_names_that_no_file_can_have(digits_int8: quantkit.QuantizedModel, name: str) -> None:
    writers: list[Callable[[str], object]] = [
        digits_int8.save,
        digits_int8.to_onnx,
        quantkit.QuantizationConfig().write,
        lambda path: quantkit.write_table(digits_int8.table, path),
    ]
    for write in writers:
        with pytest.raises(quantkit.errors.QuantkitError, match=r"cannot write .*name"):
            write(name)
