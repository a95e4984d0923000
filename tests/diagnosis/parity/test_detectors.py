"""Detectors as ONNX files: the boxes in each engine against those of MXNet, in FP32 and in INT8."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from quantkit.api import quantize
from quantkit.backends.mxnet.execute import run
from quantkit.backends.mxnet.shapes import infer_shapes
from quantkit.backends.registry import ONNX_ENGINES
from quantkit.diagnosis.parity.outputs import OutputParity
from quantkit.diagnosis.parity.verify import verify_in_engines
from quantkit.files.files import sha256_of
from quantkit.formats.onnx.writing.model import onnx_model
from quantkit.models.dataset import dataset
from quantkit.models.load import load_model
from quantkit.models.model import Model
from quantkit.quantization.config import QuantizationConfig
from quantkit.tasks.agreement import agreement_of
from quantkit.tasks.box_agreement import box_agreement, found_again
from tests.requirements import package, requires

onnx = package("onnx")

IMAGES = 24
DETECTORS = {"digits_ssd": "scenes:test", "yolo3_mobilenet0.25_custom": "builtin"}
ENGINES = ("onnxruntime", "openvino")


@dataclass(frozen=True)
class Detector:
    """A detector, its INT8 bundle, and its input for some images of ``data``."""

    model: Model
    bundle: Path
    images: np.ndarray
    data: str


@pytest.fixture(scope="module", params=DETECTORS)
def detector(int8_engine: None, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Detector:
    """The small SSD that ships, and a YOLOv3 with random weights."""
    name, data = request.param, DETECTORS[request.param]
    if name == "digits_ssd":
        model = load_model(name)
    else:
        model = load_model(name, weights="random", input_shape=(3, 96, 96), quiet=True)
    images = np.concatenate([batch.data for batch in dataset(model, data).subset(IMAGES).batches(8)])
    network = quantize(model, data, QuantizationConfig(num_samples=8, preset="none"))
    folder = tmp_path_factory.mktemp("detectors") / name
    return Detector(model, network.save(folder, formats=("mxnet", "onnx")), images, data)


@pytest.mark.parametrize("name", ENGINES)
def test_fp32_files_have_the_boxes_of_mxnet(detector: Detector, name: str) -> None:
    """All of them, those of low scores too."""
    requires(name)
    graph = detector.model.graph
    (data,) = graph.inputs
    content = onnx_model(graph, infer_shapes(graph, {data: (1, *detector.images.shape[1:])})).SerializeToString()
    agreement = agreement_of(detector.model)
    assert agreement is not None
    expected = agreement.task.decode(run(graph, {data: detector.images}))
    found = agreement.task.decode(ONNX_ENGINES[name].backend().open_session(content).run({data: detector.images}))
    boxes = box_agreement([found_again(*pair) for pair in zip(expected, found, strict=True)])
    assert boxes is not None and boxes.detections > 4 * IMAGES and boxes.found == boxes.detections
    assert boxes.overlap is not None and boxes.edges is not None and boxes.scores is not None
    assert boxes.overlap > 0.9999 and boxes.edges < 0.01 and boxes.scores < 1e-4


def outputs_in(name: str, bundle: Path, data: str) -> OutputParity:
    (engine,) = verify_in_engines(bundle, [name], data, IMAGES).engines
    assert engine.images is not None and engine.precision is not None and engine.precision.left == ()
    assert engine.ok is engine.images.ok
    return engine.images


@pytest.mark.requires("vnni")
@pytest.mark.parametrize("name", ENGINES)
def test_int8_files_have_the_boxes_of_mxnet(detector: Detector, name: str) -> None:
    requires(name)
    outputs = outputs_in(name, detector.bundle, detector.data)
    assert outputs.ok
    boxes = outputs.boxes
    assert boxes is not None and boxes.overlap is not None and outputs.judged_by_score
    assert boxes.detections > IMAGES and boxes.found >= 0.97 * boxes.detections and boxes.overlap > 0.96


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("detector", ["digits_ssd"], indirect=True)
def test_a_file_that_decodes_boxes_otherwise_fails(detector: Detector, name: str, tmp_path: Path) -> None:
    """Half of a box's sides becomes a little more; most boxes still overlap by more than one half."""
    requires(name)
    bundle = Path(shutil.copytree(detector.bundle, tmp_path / "wide"))
    path = bundle / "model.onnx"
    model = onnx.load(path)
    (half,) = (each for each in model.graph.initializer if each.name.endswith("box_decode0_half"))
    half.CopyFrom(onnx.numpy_helper.from_array(np.array(0.56, np.float32), half.name))
    onnx.save(model, path)
    manifest = json.loads((bundle / "manifest.json").read_text())
    manifest["files"]["model.onnx"] = {"sha256": sha256_of(path), "size": path.stat().st_size}
    (bundle / "manifest.json").write_text(json.dumps(manifest))
    outputs = outputs_in(name, bundle, detector.data)
    assert outputs.score is not None and outputs.score.value is not None and outputs.score.value > 0.95
    assert outputs.boxes is not None and outputs.boxes.overlap is not None and outputs.boxes.overlap < 0.85
    assert not outputs.ok
