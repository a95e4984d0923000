"""Detectors of two stages as ONNX files, against MXNet: small networks with random weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quantkit.api import quantize
from quantkit.backends.mxnet.execute import run
from quantkit.backends.mxnet.shapes import infer_shapes
from quantkit.backends.registry import ONNX_ENGINES
from quantkit.bundle.export import int8_onnx
from quantkit.formats.onnx.writing.conversion import WRITTEN_OPERATORS
from quantkit.formats.onnx.writing.model import onnx_model
from quantkit.formats.onnx.written_form import written_problem
from quantkit.quantization.config import QuantizationConfig
from quantkit.tasks.agreement import agreement_for
from tests.region_networks import loaded, network, photographs
from tests.region_networks import masked_regions as masked_regions
from tests.requirements import package, requires

onnx = package("onnx")
pytestmark = pytest.mark.usefixtures("masked_regions")

ENGINES = ("onnxruntime", "openvino")


def in_engine(name: str, content: bytes, data: np.ndarray) -> list[np.ndarray]:
    requires(name)
    assert written_problem(content, WRITTEN_OPERATORS) is None
    return ONNX_ENGINES[name].backend().open_session(content).run({"data": data})


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("levels", [False, True], ids=["one level", "pyramid"])
@pytest.mark.parametrize("kind", ["faster", "double", "mask"])
def test_fp32_files_compute_the_same_of_every_image(engine: None, kind: str, levels: bool, name: str) -> None:
    """Boxes and masks in the same rows."""
    model, data = loaded(network(kind, levels)), photographs(2)
    expected = run(model.graph, {"data": data})
    assert (expected[0] >= 0).sum() > 6
    content = onnx_model(model.graph, infer_shapes(model.graph, {"data": (1, *model.input_shape)})).SerializeToString()
    for found, wanted in zip(in_engine(name, content, data), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("options", [{"force_nms": True}, {"clip": None}], ids=["across classes", "not clipped"])
def test_options(engine: None, options: dict[str, Any]) -> None:
    model, data = loaded(network("faster", levels=False, **options)), photographs(2)
    content = onnx_model(model.graph, infer_shapes(model.graph, {"data": (1, *model.input_shape)})).SerializeToString()
    found = in_engine("onnxruntime", content, data)
    for values, wanted in zip(found, run(model.graph, {"data": data}), strict=True):
        np.testing.assert_allclose(values, wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.long
@pytest.mark.requires("vnni")
@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("levels", [False, True], ids=["one level", "pyramid"])
@pytest.mark.parametrize("kind", ["faster", "mask"])
def test_int8_files_have_the_boxes_of_mxnet(int8_engine: None, kind: str, levels: bool, name: str) -> None:
    model, data = loaded(network(kind, levels)), photographs(8)
    quantized = quantize(model, data, QuantizationConfig(num_samples=8, preset="none"))
    content = int8_onnx(quantized.source.model, quantized.network, quantized.settings)
    expected, found = run(quantized.graph, {"data": data}), in_engine(name, content, data)
    agreement = agreement_for("detection", [each.shape[1:] for each in expected], model.input_shape, model.name)
    assert agreement is not None
    agreement.add(expected, found)
    boxes = agreement.boxes
    assert boxes is not None and boxes.detections > 2 and boxes.found == boxes.detections
    assert boxes.overlap is not None and boxes.overlap > 0.99
