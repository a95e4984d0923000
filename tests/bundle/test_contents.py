"""What a bundle says: every value in its files is the one that it was given."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.bundle import read_bundle, read_manifest, verify_bundle, write_bundle, write_float_bundle
from quantkit.bundle.engine import present_engine
from quantkit.bundle.manifest import (
    AgreementResult,
    FileEntry,
    FusionResult,
    Input,
    Origin,
    Output,
    OutputResult,
    ScoreResult,
    Settings,
)
from quantkit.bundle.quantized_model import QuantizedModel
from quantkit.bundle.sample import stored_sample
from quantkit.bundle.write import Quantization
from quantkit.calibration.ranges import Range
from quantkit.errors import ModelError, UserError
from quantkit.evaluation.measure import Score
from quantkit.formats.mxnet.params import read_params
from quantkit.fusion.fused_model import FusedModel
from quantkit.ir.graph import Tensor
from quantkit.quantization.explain import Explanation, explain
from quantkit.quantization.plan import float_plan
from quantkit.quantization.ptq_config import PRESETS
from quantkit.version import __version__
from tests.bundle.conftest import PREPROCESS, SOURCE, as_if_quantized, fused, network
from tests.networks import images, residual_v1
from tests.quantized import SPEED

pytestmark = pytest.mark.usefixtures("engine")


def entries(directory: Path) -> dict[str, FileEntry]:
    contents = {path.name: path.read_bytes() for path in directory.iterdir() if path.name != "manifest.json"}
    return {name: FileEntry(hashlib.sha256(data).hexdigest(), len(data)) for name, data in contents.items()}


def test_the_manifest_of_an_fp32_network(source: FusedModel, tmp_path: Path) -> None:
    assert write_float_bundle(source, tmp_path / "bundle") == tmp_path / "bundle"
    manifest = read_manifest(tmp_path / "bundle")
    assert (manifest.kind, manifest.name, manifest.quantkit) == ("fp32", "hand-made", __version__)
    assert manifest.engine == present_engine()
    assert manifest.input == Input("data", (3, 16, 16))
    assert manifest.outputs == (Output("dense", (10,)),)
    assert manifest.source == Origin(**asdict(SOURCE))
    assert manifest.fusion == FusionResult(**asdict(source.check))
    assert (manifest.settings, manifest.agreement, manifest.sample) == (None, None, "built-in")
    assert manifest.files == entries(tmp_path / "bundle")
    assert manifest.files.keys() == {
        "model-symbol.json", "model-0000.params", "card.toml", "labels.txt", "sample.npz", "operators.json",
    }  # fmt: skip


def test_the_manifest_of_an_int8_network(quantized: QuantizedModel, tmp_path: Path) -> None:
    onnx = b"\x08\x0a"  # a model that tells its IR version and holds nothing
    parts = Quantization(quantized.network, quantized.table, quantized.config, quantized.settings, quantized.agreement)
    assert write_bundle(quantized.source, parts, tmp_path / "bundle", onnx={"qdq": onnx}) == tmp_path / "bundle"
    bundle = read_bundle(tmp_path / "bundle")
    assert (bundle.manifest.kind, bundle.manifest.sample) == ("int8", "built-in")
    assert bundle.manifest.agreement == AgreementResult(6, 0.75, (OutputResult("dense", 0.5, 12.5, 0.25, 2.0),))
    assert "scores" not in json.loads((tmp_path / "bundle" / "manifest.json").read_text())["agreement"]
    assert bundle.manifest.files == entries(tmp_path / "bundle")
    assert bundle.manifest.files.keys() >= {"calibration.json", "model.onnx"}
    assert bundle.manifest.settings == quantized.settings
    assert bundle.table == quantized.table
    assert bundle.onnx() == bundle.onnx("dynamic") == onnx
    assert bundle.operators == explain(quantized.source.fused, quantized.plan)


def test_the_manifest_holds_the_scores_of_the_task(quantized: QuantizedModel, tmp_path: Path) -> None:
    assert quantized.agreement is not None
    scores = (Score("mIoU", 0.5, 0.25, 0.75), Score("none", None, None, None))
    judged = replace(quantized, agreement=replace(quantized.agreement, scores=scores))
    agreement = read_bundle(judged.save(tmp_path / "bundle")).manifest.agreement
    assert agreement is not None
    assert agreement.scores == (ScoreResult("mIoU", 0.5, 0.25, 0.75), ScoreResult("none", None, None, None))


def test_settings_are_those_of_calibration_and_plan(quantized: QuantizedModel) -> None:
    table, plan = quantized.table, quantized.plan
    assert (table.method, table.samples, plan.exclude, plan.dtype) == ("minmax", 3, ("*",), "int8")
    assert quantized.settings == Settings(
        "minmax", 3, table.data_name, ("*",), "int8", PRESETS["fast"], quantized.mixed, SPEED
    )


def test_the_network_comes_back(source: FusedModel, tmp_path: Path) -> None:
    bundle = read_bundle(write_float_bundle(source, tmp_path / "bundle"))
    assert bundle.graph.outputs == source.graph.outputs
    assert [(node.name, node.op, node.attrs) for node in bundle.graph.nodes] == [
        (node.name, node.op, node.attrs) for node in source.graph.nodes
    ]
    for name, value in source.graph.params.items():
        np.testing.assert_array_equal(bundle.graph.params[name], value)
    model = bundle.model
    assert (model.name, model.input_shape, model.preprocess) == ("hand-made", (3, 16, 16), PREPROCESS)
    assert (model.source, model.labels) == (SOURCE, tuple("abcdefghij"))
    assert bundle.operators == explain(source.fused, float_plan(source.fused.graph))
    assert {row.precision for row in bundle.operators} <= {"fp32", "gone"}


def test_moving_statistics_are_auxiliary_states(source: FusedModel, tmp_path: Path) -> None:
    """As MXNet's own checkpoints name them, for its own loaders."""
    params = read_params(write_float_bundle(source, tmp_path / "bundle") / "model-0000.params")
    kinds = {name.partition(":")[2]: name.partition(":")[0] for name in params}
    assert kinds == {name: "aux" if "moving" in name else "arg" for name in source.graph.params}
    assert set(kinds.values()) == {"arg", "aux"}


@pytest.fixture(scope="module")
def two_outputs(own: np.ndarray) -> FusedModel:
    """The second is of three axes."""
    graph = network()
    return fused(own, graph=replace(graph, outputs=(*graph.outputs, Tensor("pool"))))


def test_every_output_has_its_shape_and_its_check(two_outputs: FusedModel, tmp_path: Path) -> None:
    bundle = write_float_bundle(two_outputs, tmp_path / "bundle")
    assert read_manifest(bundle).outputs == (Output("dense", (10,)), Output("pool", (4, 2, 2)))
    assert [check.name for check in verify_bundle(bundle).checks[-2:]] == ["sample dense", "sample pool"]


def test_the_sample_holds_every_output(two_outputs: FusedModel, tmp_path: Path) -> None:
    source, bundle = two_outputs, read_bundle(write_float_bundle(two_outputs, tmp_path / "bundle"))
    stored = bundle.sample
    expected = run(source.graph, {"data": stored.input})
    assert len(stored.outputs) == len(expected) == 2
    for output, value in zip(stored.outputs, expected):
        np.testing.assert_array_equal(output, value)


def test_without_labels_there_is_no_file_of_them(tmp_path: Path) -> None:
    bundle = write_float_bundle(fused(images(), labels=(), preprocess=None), tmp_path / "bundle")
    assert not (bundle / "labels.txt").exists()
    assert (read_bundle(bundle).labels, read_bundle(bundle).preprocess) == ((), None)
    assert "labels" not in (bundle / "card.toml").read_text()


def test_labels_are_counted_against_the_first_output(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="'hand-made' has 6 labels for 10 outputs; correct the labels"):
        write_float_bundle(fused(images(), labels=tuple("abcdef"), preprocess=None), tmp_path / "bundle")


def test_letters_of_every_language_stay_readable(own: np.ndarray, tmp_path: Path) -> None:
    labels = ("Käse", "チーズ", *"cdefghij")
    bundle = write_float_bundle(fused(own, name="モデル", labels=labels), tmp_path / "bundle")
    assert (bundle / "labels.txt").read_text(encoding="utf-8").splitlines() == list(labels)
    assert '"モデル"' in (bundle / "manifest.json").read_text(encoding="utf-8")
    assert read_bundle(bundle).labels == labels


def test_files_of_text_are_made_for_people(source: FusedModel, tmp_path: Path) -> None:
    """One value a line, keys of the manifest in order, so that two bundles can be compared."""
    bundle = write_float_bundle(source, tmp_path / "bundle")
    for name in ("manifest.json", "operators.json"):
        text = (bundle / name).read_text()
        document = json.loads(text)
        assert text == json.dumps(document, indent=1, sort_keys=name == "manifest.json") + "\n"


@pytest.mark.parametrize("keep", [False, True])
def test_what_verify_says(quantized: QuantizedModel, tmp_path: Path, keep: bool) -> None:
    bundle = quantized.save(tmp_path / "bundle", keep_sample=keep)
    checks = {check.name: check.why for check in verify_bundle(bundle).checks}
    entry = read_manifest(bundle).files["card.toml"]
    engine = present_engine()
    assert checks["manifest"] == f"int8 bundle of 'hand-made', quantkit {__version__}"
    assert checks["file card.toml"] == f"{entry.size} bytes, SHA-256 {entry.sha256[:12]}..."
    assert checks["no other files"] == "none found"
    count = len(quantized.graph.params)
    assert checks["signature"] == f"input 'data' float32 (N, 3, 16, 16), {count} parameters"
    shown = "one of the samples it was made with" if keep else "a built-in image"
    here = f"mxnet {engine.mxnet} ({engine.isa})"
    allowed = f"{max(1e-4, quantized.source.check.allowed):.2g}"
    assert checks["sample dense"] == (
        f"{shown}, stored by {here}, computed by {here}: deviates by 0 of the largest value, {allowed} is allowed"
    )


def test_operators_are_explained_by_their_fields(source: FusedModel, tmp_path: Path) -> None:
    rows = json.loads((write_float_bundle(source, tmp_path / "bundle") / "operators.json").read_text())
    assert [row["node"] for row in rows] == [node.name for node in source.model.graph.nodes]
    assert all(row.keys() == Explanation.__dataclass_fields__.keys() for row in rows)


@pytest.mark.parametrize("kind", ["fp32", "int8"])
def test_a_bundle_is_only_replaced_if_asked_for(
    source: FusedModel, quantized: QuantizedModel, tmp_path: Path, kind: str
) -> None:
    def write(**options: Any) -> None:
        if kind == "fp32":
            write_float_bundle(source, tmp_path / "bundle", **options)
        else:
            quantized.save(tmp_path / "bundle", **options)

    write()
    with pytest.raises(UserError, match="holds a bundle already"):
        write()
    write(force=True, keep_sample=True)
    assert read_manifest(tmp_path / "bundle").sample == "own"


def test_of_images_of_the_calibration_that_ship_the_manifest_says_nothing(
    source: FusedModel, quantized: QuantizedModel, tmp_path: Path
) -> None:
    shipped = replace(quantized, source=replace(source, builtin=quantized.table.data_name))
    document = json.loads((shipped.save(tmp_path / "bundle") / "manifest.json").read_text())
    assert "sample" not in document


def test_noise_of_an_int8_bundle_fills_the_calibrated_range(tmp_path: Path) -> None:
    arrays = 4 * images()
    source = fused(arrays, graph=residual_v1(), preprocess=None)
    bundle = as_if_quantized(source, arrays).save(tmp_path / "bundle")
    assert read_manifest(bundle).sample == "generated"
    assert np.abs(read_bundle(bundle).sample.input).max() == pytest.approx(np.abs(arrays[:3]).max(), rel=0.1)


def test_an_image_that_ships_is_stored_whoever_asks(source: FusedModel, quantized: QuantizedModel) -> None:
    """The manifest says so, but where the network was calibrated with the images that it is of."""
    shipped = replace(source, builtin=quantized.table.data_name)
    other = replace(quantized.table, data_name="digits:test")
    for keep in (False, True):
        for table, origin in ((None, "built-in"), (other, "built-in"), (quantized.table, None)):
            chosen = stored_sample(shipped, table, keep)
            assert chosen.origin == origin
            np.testing.assert_array_equal(chosen.input, source.sample)


@pytest.mark.parametrize(
    ("bounds", "low", "high"),
    [(None, -1, 1), ({}, -1, 1), ({"data": Range(2, 5)}, 2, 5), ({"conv": Range(2, 5)}, -1, 1)],
)
@pytest.mark.parametrize("channels", [1, 3])
def test_noise_fills_the_range_of_what_no_photograph_can_be_read_by(
    source: FusedModel, quantized: QuantizedModel, bounds: Any, low: float, high: float, channels: int
) -> None:
    model = replace(source.model, input_shape=(channels, 30, 3), preprocess=PREPROCESS if channels == 1 else None)
    table = None if bounds is None else replace(quantized.table, ranges=bounds)
    sample = stored_sample(replace(source, model=model), table, keep=False)
    np.testing.assert_array_equal(stored_sample(replace(source, model=model), table, keep=False).input, sample.input)
    assert (sample.input.dtype, sample.input.shape, sample.origin) == (np.float32, (1, channels, 30, 3), "generated")
    assert low <= sample.input.min() < low + 0.1 * (high - low) < high - 0.1 * (high - low) < sample.input.max() <= high
