"""Bundles that hold their network as an ONNX file too."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from quantkit import load
from quantkit.bundle import read_bundle, verify_bundle
from quantkit.bundle.export import export_int8_onnx
from quantkit.bundle.quantized_model import QuantizedModel, check_formats
from quantkit.errors import BundleError, ExtraMissing, UserError
from tests.requirements import package


def test_the_file_is_the_one_that_export_writes(digits_onnx: Path, digits_int8: QuantizedModel, tmp_path: Path) -> None:
    bundle = read_bundle(digits_onnx)
    export_int8_onnx(bundle, tmp_path / "exported.onnx")
    digits_int8.to_onnx(tmp_path / "network.onnx")
    assert bundle.onnx() == (tmp_path / "exported.onnx").read_bytes() == (tmp_path / "network.onnx").read_bytes()


def test_opsets_can_be_chosen(digits_int8: QuantizedModel, tmp_path: Path) -> None:
    onnx = package("onnx")
    digits_int8.to_onnx(tmp_path / "network.onnx", opset=17)
    assert onnx.load(tmp_path / "network.onnx").opset_import[0].version == 17


def test_it_is_part_of_the_bundle(digits_onnx: Path, tmp_path: Path) -> None:
    assert verify_bundle(digits_onnx).ok
    altered = Path(shutil.copytree(digits_onnx, tmp_path / "bundle"))
    content = bytearray((altered / "model.onnx").read_bytes())
    content[-1] ^= 1
    (altered / "model.onnx").write_bytes(content)
    failed = [check.name for check in verify_bundle(altered).checks if not check.ok]
    assert failed == ["file model.onnx", "network"]
    with pytest.raises(BundleError, match=r"model\.onnx was changed"):
        read_bundle(altered)


def test_one_of_countless_parts_reaches_no_engine(
    digits_onnx: Path, resign: Callable[[Path], None], tmp_path: Path
) -> None:
    altered = Path(shutil.copytree(digits_onnx, tmp_path / "bundle"))
    with (altered / "model.onnx").open("ab") as file:
        file.write(b"\x72\0" * 2**20)
    resign(altered)
    with pytest.raises(BundleError, match=r"model\.onnx has more than 524288 operators"):
        load(altered, engine="onnxruntime")


@pytest.mark.parametrize("engine_name", ["onnxruntime", "openvino"])
def test_one_with_weights_in_other_files_reaches_no_engine(
    engine_name: str, digits_onnx: Path, resign: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenVINO opens any file of the current folder by that name."""
    onnx = package("onnx")
    altered = Path(shutil.copytree(digits_onnx, tmp_path / "bundle"))
    model = onnx.load(altered / "model.onnx")
    weight = next(each for each in model.graph.initializer if len(each.raw_data) > 1000)
    monkeypatch.chdir(tmp_path)
    Path("secret").write_bytes(weight.raw_data)
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="secret")
    weight.ClearField("raw_data")
    (altered / "model.onnx").write_bytes(model.SerializeToString())
    resign(altered)
    with pytest.raises(BundleError, match=r"model\.onnx is not as .*: a tensor has a field 13; write the bundle again"):
        load(altered, engine=engine_name)


def test_a_bundle_with_it_is_replaced_like_any_other(
    digits_onnx: Path, digits_int8: QuantizedModel, tmp_path: Path
) -> None:
    place = Path(shutil.copytree(digits_onnx, tmp_path / "bundle"))
    digits_int8.save(place, force=True)
    assert not (place / "model.onnx").exists()
    assert read_bundle(place).onnx() is None
    assert "model.onnx" not in json.loads((place / "manifest.json").read_text())["files"]


@pytest.mark.parametrize(
    ("formats", "message"),
    [(("mxnet", "tflite"), "'tflite' is not a bundle format"), (("onnx",), "every bundle holds .* give mxnet as well")],
)
def test_formats_that_cannot_be_written_are_refused(
    digits_int8: QuantizedModel, tmp_path: Path, formats: tuple[str, ...], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        digits_int8.save(tmp_path / "bundle", formats=formats)
    assert list(tmp_path.iterdir()) == []


def test_what_to_install_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quantkit.extras.find_spec", lambda _: None)
    check_formats(("mxnet",))
    with pytest.raises(ExtraMissing, match=r"pip install 'quantkit\[onnx\]'"):
        check_formats(("mxnet", "onnx"))
