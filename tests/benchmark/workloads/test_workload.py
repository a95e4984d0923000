from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from quantkit.backends.mxnet.checkpoint import read_checkpoint
from quantkit.backends.mxnet.execute import run
from quantkit.backends.mxnet.symbols import symbol_of
from quantkit.backends.registry import MXNET
from quantkit.benchmark.measuring.outputs import INT8_ALLOWED
from quantkit.benchmark.suites.suite import Recurrent, Subject
from quantkit.benchmark.workers import worker
from quantkit.benchmark.workloads import forms
from quantkit.benchmark.workloads.forms import Forms, known_accuracy
from quantkit.benchmark.workloads.images import image_batch
from quantkit.benchmark.workloads.store import Stored
from quantkit.benchmark.workloads.workload import Workload, prepare
from quantkit.bundle.quantized_model import QuantizedModel
from quantkit.bundle.write import write_float_bundle
from quantkit.errors import EngineError, PeerError, QuantkitError, UserError
from quantkit.evaluation.agreement import Agreement, OutputAgreement
from quantkit.evaluation.measure import Score
from quantkit.formats.mxnet import nnvm
from quantkit.fusion.fused_model import FusedModel
from quantkit.ir.graph import Graph
from quantkit.models.load import load_model
from tests.networks import DATA, Builder
from tests.requirements import requires

DIGITS = Subject("digits", model="digits_resnet20_v1")
IMAGES = "digits:test"


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QUANTKIT_HOME", str(folder))
        yield folder


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory, digits_int8: QuantizedModel) -> Path:
    return digits_int8.save(tmp_path_factory.mktemp("bundles") / "digits-int8")


def worker_outputs(
    workload: Workload, variant: str, batch: int, folder: Path, engine: str = MXNET.name
) -> list[np.ndarray]:
    """What the worker computes from a workload's files."""
    checkpoint = workload.checkpoint(variant)
    instance = worker.Instance(io.StringIO(), engine, 1)
    instance.do_load({role: str(path) for role, path in checkpoint.files.items()})
    instance.do_bind(workload.input_name, str(workload.inputs(batch)))
    instance.do_run()
    instance.do_outputs(str(folder / "outputs.npz"))
    with np.load(folder / "outputs.npz") as archive:
        return [archive[name] for name in archive.files]


def relative(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(found - expected).max() / np.abs(expected).max())


@pytest.mark.parametrize("variant", ["fp32", "stock", "fused"])
def test_float_forms_compute_what_the_network_does(
    engine: None, variant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MXNET_SUBGRAPH_BACKEND", "default")
    workload = prepare(DIGITS, ["fp32", "stock", "fused"], IMAGES)
    graph = load_model("digits_resnet20_v1").graph
    (expected,) = run(graph, {"data": np.load(workload.inputs(4))})
    (found,) = worker_outputs(workload, variant, 4, tmp_path)
    assert relative(found, expected) < 1e-5
    operators = {node.op for node in read_checkpoint(**workload.checkpoint(variant).files).nodes}
    assert ("_sg_mkldnn_conv" in operators) == (variant == "fused")
    assert workload.reference(variant, 4) is None


def test_int8_has_a_reference_and_its_accuracy(int8_engine: None, tmp_path: Path) -> None:
    workload = prepare(DIGITS, ["int8"], IMAGES)
    assert workload.weights == "trained"
    assert workload.item == "image"
    assert workload.accuracy["agreement on 10 calibration images"] == 1
    assert 0.999 < workload.accuracy["cosine"] < 1
    reference = workload.reference("int8", 4)
    assert reference is not None
    assert reference == workload.reference("int8", 4)
    assert reference != workload.reference("int8", 5)
    with np.load(reference) as archive:
        (expected,) = (archive[name] for name in archive.files)
    (found,) = worker_outputs(workload, "int8", 4, tmp_path)
    assert found.shape == (4, 10)
    assert relative(found, expected) < 1 / 127


def test_a_second_run_makes_nothing(int8_engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    first = prepare(DIGITS, ["fp32", "fused", "int8"], IMAGES)
    monkeypatch.delattr(forms, "fuse_model")
    second = prepare(DIGITS, ["fp32", "fused", "int8"], IMAGES, tell=told.append)
    assert second.checkpoints == first.checkpoints
    assert second.accuracy == first.accuracy
    assert told == ["digits: loading"]


def test_other_images_or_other_code_make_int8_anew(int8_engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def paths(data: str) -> list[Path]:
        return [
            prepare(DIGITS, ["fp32", "int8"], data).checkpoint(variant).files["symbol"] for variant in ("fp32", "int8")
        ]

    before, with_others = paths(IMAGES), paths("digits:train")
    assert before[0] == with_others[0]
    assert before[1] != with_others[1]
    monkeypatch.setattr(forms, "_makers_hash", lambda: "other code")
    after = paths(IMAGES)
    assert before[0] == after[0]
    assert before[1] != after[1]


def test_what_takes_long_is_told(int8_engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms, "_makers_hash", lambda: "code of its own")
    told: list[str] = []
    prepare(DIGITS, ["fused", "int8"], IMAGES, tell=told.append)
    name = "digits_resnet20_v1"
    assert told == ["digits: loading", f"{name}: fusing", f"{name}: quantizing with 10 images"]


def test_what_is_not_images_is_told_as_samples(int8_engine: None) -> None:
    b, told = Builder(), list[str]()
    scores = b.dense("dense", DATA, 24, 6)
    graph = Graph(tuple(b.nodes), ("data",), (scores,), b.params)
    model = load_model(symbol_of(graph), params=graph.params, input_shape=(24,))
    forms.Forms(model, b.random.normal(size=(12, 24)).astype(np.float32), told.append).stored("int8")
    assert told[-1].endswith("quantizing with 10 samples")


def test_images_repeat_where_there_are_too_few(tmp_path: Path) -> None:
    few = np.random.default_rng(0).normal(size=(3, 3, 8, 8)).astype(np.float32)
    np.savez(tmp_path / "few.npz", x=few)
    found = image_batch(str(tmp_path / "few.npz"), None, (3, 8, 8), 7)
    np.testing.assert_array_equal(found, few[[0, 1, 2, 0, 1, 2, 0]])


def test_builtin_images_of_a_batch_differ() -> None:
    preprocess = load_model("digits_resnet20_v1").preprocess
    images = image_batch("builtin", preprocess, (3, 32, 32), 16)
    assert images.shape == (16, 3, 32, 32)
    assert images.dtype == np.float32
    assert len({image.tobytes() for image in images}) == 16
    np.testing.assert_array_equal(image_batch("builtin", preprocess, (3, 32, 32), 4), images[:4])


def test_a_bundle_is_measured_as_it_is(bundle: Path, digits_int8: QuantizedModel) -> None:
    workload = prepare(Subject("mine", model=str(bundle)), ["int8"], IMAGES)
    checkpoint = workload.checkpoint("int8")
    assert nnvm.sha256_of(read_checkpoint(**checkpoint.files)) == nnvm.sha256_of(digits_int8.graph)
    found = digits_int8.agreement
    measured = f"agreement on {found.images} calibration images"
    assert workload.accuracy == {measured: found.top1, "cosine": found.cosine}
    assert (workload.name, workload.weights, workload.input_name) == ("mine", "trained", "data")


def test_a_bundles_other_forms_come_from_its_reference(
    bundle: Path, digits_fused: FusedModel, digits_int8: QuantizedModel
) -> None:
    subject = Subject("mine", model=str(bundle))
    workload = prepare(subject, ["fp32", "fused", "int8"], IMAGES, reference="digits")
    made = {"int8": digits_int8.graph, "fused": digits_fused.graph, "fp32": digits_fused.model.graph}
    for form, graph in made.items():
        assert nnvm.sha256_of(read_checkpoint(**workload.checkpoint(form).files)) == nnvm.sha256_of(graph)


@pytest.mark.parametrize(
    ("variants", "reference", "words"),
    [
        (["fp32", "int8"], None, "digits_resnet20_v1"),
        (["fused"], "digits_resnet20_v2", "was made from"),
        (["fused"], "cifar_resnet20_v1", "was made from"),
        (["fused"], "squeezenet1.0", "does not read"),
    ],
)
def test_a_bundle_without_its_reference(bundle: Path, variants: Sequence[str], reference: str, words: str) -> None:
    loading = {} if reference in (None, "digits_resnet20_v2") else {"weights": "random"}
    with pytest.raises(UserError, match=words):
        prepare(Subject("mine", model=str(bundle)), variants, IMAGES, reference, loading)


def test_the_same_network_with_other_weights_is_no_reference(bundle: Path) -> None:
    with pytest.raises(UserError, match="random ones"):
        prepare(Subject("mine", model=str(bundle)), ["fp32"], IMAGES, "digits", {"weights": "random"})


def test_a_float_bundle_is_the_fused_form(digits_fused: FusedModel, tmp_path: Path) -> None:
    directory = write_float_bundle(digits_fused, tmp_path / "digits-fp32")
    workload = prepare(Subject("mine", model=str(directory)), ["fused"], IMAGES)
    assert nnvm.sha256_of(read_checkpoint(**workload.checkpoint("fused").files)) == nnvm.sha256_of(digits_fused.graph)
    assert workload.accuracy == {}


def test_random_weights_have_no_accuracy(int8_engine: None) -> None:
    workload = prepare(DIGITS, ["int8"], IMAGES, loading={"weights": "random"})
    assert (workload.weights, workload.accuracy) == ("random", {})


def test_the_onnx_form_computes_what_the_network_does(engine: None, tmp_path: Path) -> None:
    requires("onnxruntime")
    workload = prepare(DIGITS, ["fp32", "onnx"], IMAGES)
    (expected,) = worker_outputs(workload, "fp32", 4, tmp_path)
    (found,) = worker_outputs(workload, "onnx", 4, tmp_path, "onnxruntime")
    assert relative(found, expected) < 1e-5
    assert prepare(DIGITS, ["onnx"], IMAGES).checkpoint("onnx") == workload.checkpoint("onnx")


@pytest.mark.requires("vnni")
def test_the_int8_onnx_form_comes_with_what_it_is_compared_with(int8_engine: None, tmp_path: Path) -> None:
    requires("onnxruntime")
    workload = prepare(DIGITS, ["onnx", "onnx-int8"], IMAGES)
    reference = workload.reference("int8", 4)
    assert reference is not None
    with np.load(reference) as archive:
        (expected,) = (archive[name] for name in archive.files)
    (float32,) = worker_outputs(workload, "onnx", 4, tmp_path, "onnxruntime")
    (found,) = worker_outputs(workload, "onnx-int8", 4, tmp_path, "onnxruntime")
    assert relative(found, float32) < relative(expected, float32) + INT8_ALLOWED


def test_a_bundles_int8_onnx_form_needs_no_reference(bundle: Path, tmp_path: Path) -> None:
    subject = Subject("mine", model=str(bundle))
    workload = prepare(subject, ["onnx-int8"], IMAGES)
    assert set(workload.checkpoints) == {"int8", "onnx-int8"}
    assert prepare(subject, ["onnx-int8"], IMAGES).checkpoints == workload.checkpoints


def test_recurrent_layers_are_a_network_of_sequences(engine: None) -> None:
    subject = Subject("lstm", rnn=Recurrent(layers=2, steps=3, inputs=4, hidden=5))
    workload = prepare(subject, ["fp32", "stock", "fused"])
    assert workload.checkpoint("fp32") == workload.checkpoint("stock") != workload.checkpoint("fused")
    assert workload.item == "sequence"
    assert np.load(workload.inputs(40)).shape == (40, 3, 4)
    assert workload.reference("fp32", 6) is None


def test_what_networks_of_sequences_read_are_no_images(engine: None) -> None:
    rows = np.zeros((1, 8, 8), np.float32)
    assert prepare(Subject("rows", model="digits_lstm"), ["fp32"], rows).item == "sample"


@pytest.mark.parametrize(
    "error",
    [EngineError("stock says no\nStack trace:\n  0"), PeerError("stock says no"), PeerError("stock\n  in\n  says no")],
)
def test_a_form_that_another_quantizer_fails_to_make_is_an_obstacle(
    error: QuantkitError, engine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stored(each: Forms, form: str) -> Stored:
        if form != "fp32":
            raise error
        return original(each, form)

    original = Forms.stored
    monkeypatch.setattr(Forms, "stored", stored)
    told: list[str] = []
    workload = prepare(DIGITS, ["fp32", "stock-int8"], IMAGES, tell=told.append)
    assert workload.obstacles == {"stock-int8": "stock says no"}
    assert set(workload.checkpoints) == {"fp32"}
    assert "digits_resnet20_v1 has no form stock-int8: stock says no" in told
    with pytest.raises(type(error), match="stock"):
        prepare(DIGITS, ["fused"], IMAGES)


def test_lstm_layers_alone_have_an_int8_form(engine: None) -> None:
    subject = Subject("gru", rnn=Recurrent(mode="gru", layers=1, steps=3, inputs=4, hidden=5))
    with pytest.raises(UserError, match="gru has gru layers, and MXNet has an INT8 kernel for lstm alone"):
        prepare(subject, ["fp32", "int8"])


def test_outputs_that_are_no_class_scores_have_their_lowest_cosine_alone() -> None:
    outputs = tuple(OutputAgreement(name, cosine, 20.0, 0.1, 1.0) for name, cosine in (("a", 0.99), ("b", 0.9)))
    assert known_accuracy(Agreement(4, None, outputs)) == {"cosine": 0.9}
    assert known_accuracy(Agreement(4, 0.75, outputs)) == {"agreement on 4 calibration images": 0.75, "cosine": 0.99}
    scores = (Score("mIoU", 0.5, 0.25, 0.75), Score("pixel accuracy", 1.0, 1.0, 1.0))
    assert known_accuracy(Agreement(4, None, outputs, scores=scores)) == {"mIoU on 4 calibration images": 0.5}
    nothing = (Score("mAP", None, None, None),)
    assert known_accuracy(Agreement(4, None, outputs, scores=nothing)) == {"cosine": 0.9}
