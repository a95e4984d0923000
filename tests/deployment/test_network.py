"""Bundles in every engine."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import quantkit
from quantkit.backends.registry import DEPLOYED, ONNX_ENGINES
from quantkit.bundle import Bundle, read_bundle
from quantkit.cli.main import cli
from quantkit.deployment.network import default_engine, open_network, usable_engines
from quantkit.deployment.predictor import Predictor
from quantkit.errors import BundleError, EngineError, EngineMissing, UserError
from tests.processes import environment
from tests.requirements import package, requires

OTHERS = [name for name in DEPLOYED if name != "mxnet"]

# With a blocked import there is no mxnet, as far as Python can tell.
WITHOUT_MXNET = """
import json, sys
sys.modules["mxnet"] = None
import numpy, quantkit
predictor = quantkit.load(sys.argv[1])
images = list(quantkit.load_data("digits:test"))[:3]
scores = predictor.predict([image.image for image in images])
loaded = sorted({name.split(".")[0] for name, module in sys.modules.items() if module is not None})
print(json.dumps([predictor.engine, scores.tolist(), loaded]))
"""


@pytest.fixture
def bundle(digits_onnx: Path) -> Bundle:
    return read_bundle(digits_onnx)


@pytest.mark.parametrize("name", OTHERS)
def test_photographs_of_any_number_have_nearly_the_scores_that_mxnet_gives(name: str, bundle: Bundle) -> None:
    # Without VNNI each engine saturates in sums of its own.
    requires(name, "vnni")
    images = [sample.image for sample in list(quantkit.load_data("digits:test"))[:19]]
    expected = Predictor(bundle).predict(images)
    found = Predictor(bundle, engine=name)
    assert found.engine == name
    for count in (1, 3, 19):
        scores = found.predict(images[:count])
        assert scores.dtype == np.float32
        np.testing.assert_allclose(scores, expected[:count], atol=3 / 127 * np.abs(expected).max())
    assert [top[0][0] for top in found.classify(images, 1)] == [str(best) for best in found.predict(images).argmax(1)]


@pytest.mark.parametrize("name", OTHERS)
def test_bad_input_is_refused_as_ever(name: str, bundle: Bundle) -> None:
    requires(name)
    predictor = quantkit.load(bundle.directory, engine=name)
    with pytest.raises(quantkit.errors.DataError, match="image 1 holds NaN"):
        predictor.predict(np.stack([np.zeros((3, 32, 32), np.float32), np.full((3, 32, 32), np.nan, np.float32)]))


def _second_input(model: Any, output: str) -> tuple[str, int, list[Any]]:
    helper = package("onnx").helper
    model.graph.input.append(helper.make_tensor_value_info("more", 1, ["N", 10]))
    model.graph.node.append(helper.make_node("Add", [output, "more"], ["other"]))
    return "other", 1, ["N", 10]


def _twice_as_wide(model: Any, output: str) -> tuple[str, int, list[Any]]:
    model.graph.node.append(package("onnx").helper.make_node("Concat", [output, output], ["other"], axis=1))
    return "other", 1, ["N", 20]


def _without_batch(model: Any, output: str) -> tuple[str, int, list[Any]]:
    model.graph.node.append(package("onnx").helper.make_node("ReduceSum", [output], ["other"], keepdims=0))
    return "other", 1, []


def _integers(model: Any, output: str) -> tuple[str, int, list[Any]]:
    model.graph.node.append(package("onnx").helper.make_node("Cast", [output], ["other"], to=7))
    return "other", 7, ["N", 10]


def _texts(model: Any, output: str) -> tuple[str, int, list[Any]]:
    model.graph.node.append(package("onnx").helper.make_node("Cast", [output], ["other"], to=8))
    return "other", 8, ["N", 10]


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (_second_input, "has 2 inputs instead of one"),
        (_twice_as_wide, r"computes float32 \(1, 20\) where the manifest says float32 \(1, 10\)"),
        (_without_batch, r"computes float32 \(\) where"),
        (_integers, r"computes int64 \(1, 10\) where"),
        (_texts, "computes object instead of numbers|cannot load the network"),
    ],
)
def test_a_file_that_contradicts_the_bundle_is_refused(
    name: str, change: Any, told: str, digits_onnx: Path, resign: Callable[[Path], None], tmp_path: Path
) -> None:
    requires(name)
    onnx = package("onnx")
    altered = Path(shutil.copytree(digits_onnx, tmp_path / "bundle"))
    model = onnx.load(altered / "model.onnx")
    description = change(model, model.graph.output[0].name)
    model.graph.output[0].CopyFrom(onnx.helper.make_tensor_value_info(*description))
    (altered / "model.onnx").write_bytes(model.SerializeToString())
    resign(altered)
    image = np.zeros((1, 3, 32, 32), np.float32)
    with pytest.raises((BundleError, EngineError), match=told):
        quantkit.load(altered, engine=name).predict(image)
    command = ["verify", str(altered), "--engine", name, "--data", "digits:test", "--num-samples", "2"]
    done = CliRunner().invoke(cli, command)
    assert done.exit_code == 1, done.output
    assert "unexpected" not in done.output


def test_a_checkpoint_that_contradicts_the_manifest_is_refused(
    digits_onnx: Path, edit: Callable[..., None], tmp_path: Path
) -> None:
    altered = Path(shutil.copytree(digits_onnx, tmp_path / "bundle"))
    edit(altered, lambda manifest: manifest["outputs"][0].update(shape=[11]))
    with pytest.raises(BundleError, match=r"computes float32 \(1, 10\) where the manifest says float32 \(1, 11\)"):
        quantkit.load(altered).predict(np.zeros((1, 3, 32, 32), np.float32))


def test_without_mxnet_an_installed_engine_runs_the_onnx_file(bundle: Bundle) -> None:
    requires("onnxruntime")
    command = [sys.executable, "-c", WITHOUT_MXNET, str(bundle.directory)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    engine, scores, loaded = json.loads(done.stdout)
    assert engine == "onnxruntime"
    assert {"onnxruntime"} == {*loaded} & {"mxnet", "gluoncv", "onnx", "onnxruntime", "openvino"}
    images = [sample.image for sample in list(quantkit.load_data("digits:test"))[:3]]
    np.testing.assert_allclose(scores, Predictor(bundle, engine="onnxruntime").predict(images), rtol=1e-4, atol=1e-4)


def without(monkeypatch: pytest.MonkeyPatch, *engines: str) -> None:
    if "mxnet" in engines:

        def missing() -> None:
            raise EngineMissing("no mxnet here")

        monkeypatch.setattr("quantkit.backends.mxnet.backend.load_mxnet", missing)
    for engine in engines:
        monkeypatch.setitem(sys.modules, engine, None)


def test_mxnet_comes_first(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    for engine in OTHERS:
        requires(engine)
    assert default_engine(bundle) == "mxnet"
    assert list(usable_engines(bundle)) == [*DEPLOYED]
    without(monkeypatch, "mxnet")
    assert default_engine(bundle) == "onnxruntime"
    without(monkeypatch, "mxnet", "onnxruntime")
    assert default_engine(bundle) == "openvino"


def test_what_is_missing_is_said(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = replace(bundle, manifest=replace(bundle.manifest, files={}))
    without(monkeypatch, "mxnet")
    with pytest.raises(EngineMissing, match="no mxnet here; the bundle holds no ONNX file"):
        default_engine(bare)
    without(monkeypatch, *DEPLOYED)
    with pytest.raises(EngineMissing, match=r"pip install 'quantkit\[onnxruntime\]'"):
        default_engine(bundle)


def test_an_engine_without_its_file_is_refused(bundle: Bundle) -> None:
    bare = replace(bundle, manifest=replace(bundle.manifest, files={}))
    assert list(usable_engines(bare)) == ["mxnet"]
    remedy = r"--format mxnet,onnx`, in Python with save\(\.\.\., formats=\(\"mxnet\", \"onnx\"\)\)"
    with pytest.raises(UserError, match=r"ONNX Runtime runs ONNX files, and .* holds none.*" + remedy):
        open_network(bare, "onnxruntime")


def test_unknown_engines_are_refused(bundle: Bundle) -> None:
    with pytest.raises(UserError, match="no engine 'tensorrt'; choose one of mxnet, onnxruntime, openvino or auto"):
        Predictor(bundle, engine="tensorrt")
    with pytest.raises(UserError, match="no engine ''"):
        Predictor(bundle, engine="")
    with pytest.raises(UserError, match=r"no engine \['mxnet'\]"):
        open_network(bundle, ["mxnet"])  # type: ignore[arg-type]


@pytest.mark.parametrize("name", OTHERS)
def test_sessions_take_the_threads_that_are_asked_for(
    name: str, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    requires(name)
    content = bundle.onnx()
    assert content is not None
    # OpenVINO takes no more than there are cores.
    asked = 3 if name == "onnxruntime" else 1
    monkeypatch.setenv("OMP_NUM_THREADS", str(asked))
    session: Any = ONNX_ENGINES[name].backend().open_session(content)
    if name == "onnxruntime":
        assert session._session.get_session_options().intra_op_num_threads == asked
    else:
        assert session._request.get_compiled_model().get_property("INFERENCE_NUM_THREADS") == asked
