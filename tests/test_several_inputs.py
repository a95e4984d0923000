"""Networks with several inputs, from loading to prediction; ONNX Runtime says what they compute."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import quantkit
from quantkit.backends.mxnet.checkpoint import read_checkpoint
from quantkit.backends.mxnet.execute import run
from quantkit.backends.registry import ONNX_ENGINES, ONNXRUNTIME
from quantkit.bundle import write_float_bundle
from quantkit.bundle.file_names import ONNX, PARAMS, SYMBOL
from quantkit.bundle.read import read_bundle
from quantkit.data.joined_inputs import JoinedInput
from quantkit.data.vocabulary import Vocabulary
from quantkit.diagnosis.parity.check import engine_parity
from quantkit.errors import BundleError, DataError, ModelError, UserError
from quantkit.evaluation.agreement import cosines
from quantkit.files.bundles import MANIFEST
from quantkit.fusion.numeric_check import relative_difference
from tests.several_inputs import CLASSES, SHAPES, VOCABULARY, samples, write_network

pytestmark = [pytest.mark.requires("onednn", "onnx", "onnxruntime", "openvino"), pytest.mark.usefixtures("int8_engine")]

FEW = quantkit.QuantizationConfig(num_samples=2)
ENGINES = ("mxnet", "onnxruntime", "openvino")


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("several") / "net.onnx"
    write_network(path)
    return path


@pytest.fixture(scope="module")
def model(network: Path) -> quantkit.Model:
    return quantkit.load_model(network)


@pytest.fixture(scope="module")
def bundle(model: quantkit.Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    quantized = quantkit.quantize(model, samples(64))
    return quantized.save(tmp_path_factory.mktemp("several") / "int8", formats=("mxnet", "onnx"))


def expected(network: Path, given: dict[str, np.ndarray]) -> np.ndarray:
    """What the file computes."""
    floats = {name: values.astype(np.float32) for name, values in given.items()}
    return ONNX_ENGINES[ONNXRUNTIME.name].backend().open_session(network.read_bytes()).run(floats)[0]


def test_a_file_is_read_as_one_vector(network: Path, model: quantkit.Model) -> None:
    assert model.joined is not None
    *others, words = model.joined.inputs
    assert others == [JoinedInput(name, SHAPES[name]) for name in ("picture", "numbers")]
    assert words.vocabulary is not None
    assert (words.name, words.vocabulary.size) == ("words", VOCABULARY)
    given = samples(5)
    vectors = np.concatenate([values.reshape(5, -1).astype(np.float32) for values in given.values()], axis=1)
    assert model.input_shape == vectors.shape[1:]
    (name,) = model.graph.inputs
    assert relative_difference(expected(network, given), run(model.graph, {name: vectors})[0]) < 1e-5


_LAYERS = ("Convolution", "FullyConnected")


def test_each_input_has_a_scale_of_its_own(bundle: Path) -> None:
    layers = {row.node: row.precision for row in read_bundle(bundle).operators if row.operator in _LAYERS}
    assert set(layers.values()) == {"int8"}
    table = json.loads((bundle / "calibration.json").read_text())
    assert table["ranges"]["numbers"][1] > 10 * table["ranges"]["picture"][1]


@pytest.mark.requires("vnni")
@pytest.mark.parametrize("runs", ENGINES)
def test_predictions_are_those_of_the_file(runs: str, network: Path, bundle: Path) -> None:
    given = samples(50, seed=1)
    assert cosines(expected(network, given), quantkit.load(bundle, engine=runs).predict(given)).mean() > 0.999


@pytest.mark.parametrize("runs", ENGINES)
def test_one_sample_or_several_are_predicted_alike(runs: str, bundle: Path) -> None:
    predictor = quantkit.load(bundle, engine=runs)
    given = samples(50, seed=1)
    scores = predictor.predict(given)
    assert scores.shape == (50, CLASSES)
    one = {name: values[7] for name, values in given.items()}
    np.testing.assert_allclose(predictor.predict(one), scores[7:8], rtol=1e-5, atol=1e-5)
    each = [{name: values[index] for name, values in given.items()} for index in range(3)]
    np.testing.assert_allclose(predictor.predict(each), scores[:3], rtol=1e-5, atol=1e-5)


def test_files_have_the_network_s_own_inputs(bundle: Path) -> None:
    graph = read_checkpoint(bundle / SYMBOL, bundle / PARAMS)
    assert graph.inputs == tuple(SHAPES)
    own = {each.name: each.type.tensor_type for each in onnx.load(bundle / ONNX).graph.input}
    assert list(own) == list(SHAPES)
    assert own["words"].elem_type == onnx.TensorProto.INT64
    assert {name: tuple(axis.dim_value for axis in kind.shape.dim[1:]) for name, kind in own.items()} == SHAPES


def test_the_bundle_is_sound_and_knows_its_inputs(bundle: Path) -> None:
    verification = quantkit.verify(bundle)
    assert verification.ok
    (signature,) = [check.why for check in verification.checks if check.name == "signature"]
    assert signature.startswith("input 'picture' float32 (N, 3, 16, 16), input 'numbers' float32 (N, 6)")
    stored = read_bundle(bundle).sample.input
    words = stored[0, -SHAPES["words"][0] :]
    np.testing.assert_array_equal(words, np.floor(words))
    assert 0 <= words.min() <= words.max() < VOCABULARY


def test_a_bundle_is_evaluated_against_its_file(network: Path, bundle: Path) -> None:
    given = samples(40, seed=2)
    best = expected(network, given).argmax(axis=1)
    evaluation = quantkit.evaluate(bundle, (given, best), reference=network)
    assert evaluation.accuracy["reference"].top1 == 1
    right = quantkit.load(bundle).predict(given).argmax(axis=1) == best
    assert evaluation.accuracy["network"].top1 == pytest.approx(right.mean())


@pytest.mark.parametrize(
    "change",
    [
        lambda joined: joined.pop(),
        lambda joined: joined[1].update(name="picture"),
        lambda joined: joined[1].update(name="inputs"),
        lambda joined: joined[1].update(shape=[5]),
    ],
    ids=["missing", "twice", "the vector's", "shape"],
)
def test_a_manifest_with_other_inputs_is_refused(
    change: Callable[[list[dict[str, Any]]], Any], bundle: Path, tmp_path: Path
) -> None:
    edited = shutil.copytree(bundle, tmp_path / "edited")
    manifest = json.loads((edited / MANIFEST).read_text())
    change(manifest["input"]["joined"])
    (edited / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(BundleError, match=r"the inputs in manifest.json cannot be used: .*; write the bundle again"):
        read_bundle(edited)


def test_a_fixed_batch_becomes_open(model: quantkit.Model, tmp_path: Path) -> None:
    write_network(tmp_path / "fixed.onnx", batch=1)
    fixed = quantkit.load_model(tmp_path / "fixed.onnx")
    assert fixed.joined == model.joined
    vectors = np.ones((3, *model.input_shape), np.float32)
    (name,) = model.graph.inputs
    np.testing.assert_array_equal(run(fixed.graph, {name: vectors})[0], run(model.graph, {name: vectors})[0])


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"words": None}, "sample 0 of arrays has no array 'words', and the network reads 'picture' 3x16x16 and"),
        ({"numbers": np.zeros((4, 5), np.float32)}, r"input 'numbers' of sample 0 .* shape \(5,\)"),
        ({"words": np.full((4, 7), VOCABULARY)}, "token id 23 at step 0"),
        ({"numbers": np.full((4, 6), np.nan, np.float32)}, "input 'numbers' of sample 0 .* NaN"),
        ({"numbers": np.zeros((3, 6), np.float32)}, "4 samples in 'picture', but 3 in 'numbers'"),
    ],
    ids=["missing", "shape", "vocabulary", "nan", "number"],
)
def test_samples_that_do_not_fit(changed: dict[str, np.ndarray | None], told: str, model: quantkit.Model) -> None:
    given = {name: values for name, values in {**samples(4), **changed}.items() if values is not None}
    with pytest.raises(DataError, match=told):
        quantkit.quantize(model, given, FEW)


def test_explain_counts_the_network_s_own_operators(network: Path, bundle: Path) -> None:
    rows = read_bundle(bundle).operators
    assert {row.node for row in rows}.isdisjoint(SHAPES)
    assert "slice_axis" not in {row.operator for row in rows}


@pytest.mark.requires("vnni")
@pytest.mark.parametrize("runs", ENGINES[1:])
def test_each_layer_of_the_onnx_file_is_that_of_mxnet(runs: str, bundle: Path) -> None:
    parity = engine_parity(read_bundle(bundle), (bundle / ONNX).read_bytes(), runs, None, 1, layers=True)
    assert parity.ok


@pytest.mark.parametrize("runs", ENGINES[1:])
def test_layers_are_compared(runs: str, bundle: Path) -> None:
    """Whatever they compute: without VNNI they differ."""
    parity = engine_parity(read_bundle(bundle), (bundle / ONNX).read_bytes(), runs, None, 1, layers=True)
    assert parity.layers


def test_inputs_in_another_order_are_not_compared(network: Path, bundle: Path, tmp_path: Path) -> None:
    model = onnx.load(network)
    first, *others = list(model.graph.input)
    del model.graph.input[:]
    model.graph.input.extend([*others, first])
    onnx.save(model, tmp_path / "other.onnx")
    with pytest.raises(
        UserError, match=r"has inputs of shape 'picture' 3x16x16 and .* 'numbers' 6 and 'words' 7 and 'p"
    ):
        quantkit.evaluate(bundle, samples(4), reference=tmp_path / "other.onnx")


def test_scalars_are_no_samples(bundle: Path) -> None:
    with pytest.raises(DataError, match="input 'picture' of the samples is no array; give a dictionary with an array"):
        quantkit.load(bundle).predict({name: np.float32(1) for name in SHAPES})
    with pytest.raises(DataError, match=r"the samples are one array of shape \(2, 3, 16, 16\); give a dictionary"):
        quantkit.load(bundle).predict(np.zeros((2, 3, 16, 16), np.float32))


@pytest.mark.parametrize("kind", ["fused", "exported"])
def test_fp32_is_written_with_its_inputs(kind: str, network: Path, model: quantkit.Model, tmp_path: Path) -> None:
    given = samples(3)
    if kind == "fused":
        write_float_bundle(quantkit.fuse(model, given), tmp_path / "net")
        found = quantkit.load(tmp_path / "net").predict(given)
    else:
        quantkit.export_onnx(model, tmp_path / "net.onnx")
        found = expected(tmp_path / "net.onnx", given)
    assert relative_difference(expected(network, given), found) < 1e-5


def test_a_prediction_of_different_numbers_of_samples_is_refused(bundle: Path) -> None:
    given = {**samples(4), "words": samples(3)["words"]}
    with pytest.raises(DataError, match="4 in 'picture', 4 in 'numbers', 3 in 'words'"):
        quantkit.load(bundle).predict(given)


def test_one_array_is_refused_with_what_to_give(bundle: Path, model: quantkit.Model) -> None:
    for refused in (lambda: quantkit.quantize(model, np.zeros((4, 6), np.float32), FEW),):
        with pytest.raises(
            DataError, match=r"the network reads 3 inputs, 'picture' 3x16x16 and 'numbers' 6 and 'words'"
        ):
            refused()
    with pytest.raises(DataError, match=r"no images such as .*; give samples of its own kind"):
        quantkit.quantize(model)


def test_arrays_by_name_are_refused_for_one_input() -> None:
    network = quantkit.load_model("digits_resnet20_v2")
    with pytest.raises(DataError, match="has the arrays 'left', 'right', but the network reads one input"):
        quantkit.quantize(network, {name: np.zeros((3, 1, 8, 8), np.float32) for name in ("left", "right")}, FEW)


@pytest.mark.parametrize(
    ("shapes", "told"),
    [
        ((3, 16, 16), "has 3 inputs; give shapes with their names, such as --input-shape picture=3,224,224"),
        ({"image": (3, 16, 16)}, "has no input 'image'; it has 'picture', 'numbers', 'words'"),
        ({"numbers": (6, 1)}, "does not fix the shape of its input 'numbers'|has 6 places"),
        ({}, "are not by the inputs' names"),
    ],
)
def test_shapes_that_do_not_fit(shapes: object, told: str, network: Path) -> None:
    with pytest.raises(ModelError, match=told):
        quantkit.load_model(network, input_shape=shapes)  # type: ignore[arg-type]


def test_a_layout_or_preprocessing_is_refused(network: Path) -> None:
    with pytest.raises(ModelError, match="has several inputs, which all begin with the batch; leave the layout out"):
        quantkit.load_model(network, layout="TNC")
    with pytest.raises(ModelError, match=r"'picture' 3x16x16 .*; leave out the preprocessing, and give preprocessed"):
        quantkit.load_model(network, preprocess=quantkit.PreprocessChange(crop=16))


def test_benchmarks_of_the_onnx_file_say_that_they_feed_one_input(network: Path, bundle: Path) -> None:
    from quantkit.benchmark.suites.suite import Subject
    from quantkit.benchmark.workloads.workload import prepare

    with pytest.raises(UserError, match="benchmarks feed one; measure it with --builds onednn"):
        prepare(Subject("several", model=str(network)), ("int8", "onnx"), samples(4))
    with pytest.raises(
        UserError, match="ONNX files of net have several inputs, and benchmarks feed one; measure it with --builds"
    ):
        prepare(Subject("several", model=str(bundle)), ("int8", "onnx-int8"), samples(4))


def test_a_vocabulary_belongs_to_its_input(model: quantkit.Model) -> None:
    assert model.joined is not None
    assert [each.vocabulary is not None for each in model.joined.inputs] == [False, False, True]
    assert model.vocabulary is None
    assert isinstance(model.joined.inputs[2].vocabulary, Vocabulary)
