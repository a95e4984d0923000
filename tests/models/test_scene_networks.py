"""The detector and the segmentation network that ship: their own metrics in FP32 and in INT8."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

import pytest

from quantkit.api import evaluate_task, quantize
from quantkit.bundle import read_bundle
from quantkit.bundle.quantized_model import QuantizedModel
from quantkit.diagnosis.layers.analyze import analyze
from quantkit.files.files import shipped
from quantkit.formats.mxnet.params import read_params
from quantkit.models.card import find_card
from quantkit.models.load import load_model
from quantkit.quantization.config import QuantizationConfig
from quantkit.tasks.evaluate import TaskEvaluation
from quantkit.tasks.task import TaskName

PAGE = (Path(__file__).parents[2] / "docs" / "pages" / "reference" / "trained.md").read_text()
TASKS: dict[str, TaskName] = {"digits_ssd": "detection", "digits_fcn": "segmentation"}
_CONVOLUTIONS = {"digits_ssd": 12, "digits_fcn": 10}
_LARGEST = 3_000_000


@pytest.fixture(scope="module", params=TASKS)
def judged(int8_engine: None, request: pytest.FixtureRequest) -> tuple[str, QuantizedModel, TaskEvaluation]:
    """The name, the network in INT8 as ``quantize`` makes it, and how it does on all scenes against FP32."""
    name: str = request.param
    model = load_model(name)
    network = quantize(model, "scenes:train", QuantizationConfig(num_samples=64))
    return name, network, evaluate_task(network, "scenes:test", reference=model)


def test_fp32_scores_what_the_page_and_the_card_say(judged: tuple[str, QuantizedModel, TaskEvaluation]) -> None:
    name, _, evaluation = judged
    printed, card = re.search(rf"`{name}` \|.*\| \w+ ([\d.]+) % \|", PAGE), find_card(name)
    first = evaluation.scores["reference"][0]
    assert printed is not None and first.value is not None and card is not None and card.accuracy is not None
    assert 100 * first.value == pytest.approx(float(printed[1]), abs=0.1)
    assert float(printed[1]) == (card.accuracy.map if name == "digits_ssd" else card.accuracy.miou)


@pytest.mark.requires("vnni")
def test_int8_is_as_good(judged: tuple[str, QuantizedModel, TaskEvaluation]) -> None:
    _, _, evaluation = judged
    agreed = evaluation.agreement["network"][0]
    assert evaluation.images == 400 and agreed.value is not None and evaluation.loss is not None
    assert evaluation.loss <= 0.2
    assert agreed.value >= 0.99


def test_quantize_judges_by_the_task(judged: tuple[str, QuantizedModel, TaskEvaluation], tmp_path: Path) -> None:
    name, network, evaluation = judged
    agreement = network.agreement
    assert evaluation.task == TASKS[name] and agreement is not None and agreement.images == 64
    assert [score.name for score in agreement.scores] == [score.name for score in evaluation.agreement["network"]]
    assert agreement.scores[0].value is not None and agreement.scores[0].value >= 0.98
    manifest = read_bundle(network.save(tmp_path / name)).manifest
    assert manifest.task == TASKS[name] and manifest.agreement is not None
    assert [asdict(score) for score in manifest.agreement.scores] == [asdict(score) for score in agreement.scores]
    analysis = analyze(tmp_path / name, "scenes:test", num_samples=8)
    assert analysis.agreement.scores[0].value is not None and analysis.agreement.scores[0].value >= 0.95


@pytest.mark.long
def test_every_convolution_is_in_int8(judged: tuple[str, QuantizedModel, TaskEvaluation]) -> None:
    name, network, _ = judged
    assert len(network.network.int8_weighted) == _CONVOLUTIONS[name]


@pytest.mark.parametrize("name", TASKS)
def test_the_weights_are_small(name: str) -> None:
    assert (shipped("models") / f"{name}-0000.params").stat().st_size < _LARGEST


@pytest.mark.parametrize("name", TASKS)
def test_the_files_are_those_of_the_script(name: str, engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block that the script makes has the parameters of the checkpoint, by name and shape."""
    monkeypatch.syspath_prepend(str(shipped("models")))
    from quantkit.backends.mxnet.compat import load_gluoncv, load_mxnet

    mxnet, script = load_mxnet(), import_module(f"train_{name}")
    block = script.build(mxnet, load_gluoncv()) if name == "digits_ssd" else script.build(mxnet)
    block.initialize()
    block(mxnet.nd.zeros((1, *import_module("scene_training").INPUT_SHAPE)))
    stored = read_params(shipped("models") / f"{name}-0000.params")
    made = {parameter.name: parameter.shape for parameter in block.collect_params().values()}
    assert made == {key.partition(":")[2]: array.shape for key, array in stored.items()}


@pytest.mark.parametrize("name", TASKS)
def test_a_script_saves_what_ships(name: str, engine: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """After one step it saves the operators that the checkpoint has, which are those of inference."""
    monkeypatch.syspath_prepend(str(shipped("models")))
    monkeypatch.setattr(import_module("scene_training"), "_SCENES", 32)
    import_module(f"train_{name}").main(["--out", str(tmp_path), "--epochs", "1"])
    file = f"{name}-symbol.json"
    saved, shipping = (json.loads((folder / file).read_text()) for folder in (tmp_path, shipped("models")))
    assert [node["op"] for node in saved["nodes"]] == [node["op"] for node in shipping["nodes"]]
    assert len(saved["heads"]) == len(shipping["heads"])
    assert (
        read_params(tmp_path / f"{name}-0000.params").keys()
        == read_params(shipped("models") / f"{name}-0000.params").keys()
    )
