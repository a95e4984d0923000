"""Networks whose outputs are no class scores, from the outside: nothing is said of predictions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.conftest import SHAPE, Run

PREDICTIONS = ("top-1", "predictions", "top-5")


@pytest.fixture(scope="module")
def detector(engine: None, checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint with its scores and, as a second output, the map before pooling."""
    from quantkit.backends.mxnet.compat import load_mxnet

    mx = load_mxnet()
    whole = mx.sym.load(f"{checkpoint}-symbol.json")
    prefix = tmp_path_factory.mktemp("detector") / "detector"
    mx.sym.Group([whole, whole.get_internals()["joined_output"]]).save(f"{prefix}-symbol.json")
    Path(f"{prefix}-0000.params").write_bytes(Path(f"{checkpoint}-0000.params").read_bytes())
    return prefix


@pytest.fixture(scope="module")
def bundle(int8_engine: None, detector: Path, samples: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The detector in INT8, and what ``quantize`` said."""
    from quantkit.cli.main import cli
    from tests.cli.conftest import runner

    out = tmp_path_factory.mktemp("bundle") / "detector-int8"
    words = ["quantize", detector, "--input-shape", SHAPE, "--calib-data", samples, "--out", out, "--no-latency"]
    done = runner().invoke(cli, [*map(str, words)])
    assert done.exit_code == 0, done.stderr
    yield out, " ".join(done.stdout.split())


def test_quantize_compares_each_output(bundle: tuple[Path, str]) -> None:
    out, said = bundle
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["class_scores"] is False and manifest["agreement"]["top1"] is None
    assert [output["name"] for output in manifest["agreement"]["outputs"]] == ["dense", "joined"]
    assert all(10 < output["sqnr"] < 80 for output in manifest["agreement"]["outputs"])
    assert "dense: cosine " in said and "joined: cosine " in said
    assert "no class scores: it has 2 outputs; give --classes if the first is a row of them" in said
    assert not any(word in said for word in PREDICTIONS)


def test_evaluate_compares_each_output_by_its_definition(
    run: Run, bundle: tuple[Path, str], detector: Path, samples: Path
) -> None:
    from quantkit.backends.mxnet.execute import run as run_graph
    from quantkit.bundle import read_bundle
    from quantkit.models.load import load_model

    options = ["--data", samples, "--reference", detector, "--against", detector, "--input-shape", SHAPE]
    document = json.loads(run("evaluate", bundle[0], *options, "--json").stdout)
    images = np.load(samples)["x"]
    fp32 = run_graph(load_model(detector, input_shape=(3, 16, 16)).graph, {"data": images})
    int8 = run_graph(read_bundle(bundle[0]).graph, {"data": images})
    for output, exact, rounded in zip(document["agreement"]["outputs"], fp32, int8):
        noise = np.sum((exact - rounded).astype(float) ** 2)
        assert output["sqnr"] == pytest.approx(10 * np.log10(np.sum(exact.astype(float) ** 2) / noise), abs=0.01)
        assert output["deviation"] == pytest.approx(np.abs(exact - rounded).max(), rel=1e-4)
    assert document["accuracy"] is None and document["agreement"]["top1"] is None
    (comparison,) = document["comparisons"]
    assert (comparison["measure"], comparison["verdict"]) == ("cosine", "behind")
    said = run("evaluate", bundle[0], *options).stdout
    assert "no class scores" in said and "to other" in said
    assert not any(word in said for word in PREDICTIONS)


def test_labels_say_nothing_of_such_outputs(run: Run, bundle: tuple[Path, str], samples: Path) -> None:
    result = run("evaluate", bundle[0], "--data", samples)
    assert result.exit_code == 2
    assert "are not class scores (it has 2 outputs)" in result.stderr and "give a --reference" in result.stderr


def test_the_user_may_say_that_the_first_output_is_class_scores(
    run: Run, bundle: tuple[Path, str], samples: Path
) -> None:
    document = json.loads(run("evaluate", bundle[0], "--data", samples, "--classes", "--json").stdout)
    assert 0 <= document["accuracy"]["top1"] <= 1


def test_a_drop_of_accuracy_needs_class_scores(
    run: Run, detector: Path, checkpoint: Path, samples: Path, int8_engine: None
) -> None:
    goal = ["--input-shape", SHAPE, "--calib-data", samples, "--max-drop", 1, "--eval-data", samples]
    result = run("quantize", detector, *goal)
    assert result.exit_code == 2
    assert "a drop of top-1 or perplexity needs class scores" in result.stderr and "(it has 2 outputs)" in result.stderr
    denied = run("quantize", checkpoint, *goal, "--no-classes")
    assert denied.exit_code == 2 and "(the caller or the bundle says so)" in denied.stderr


def test_a_speed_up_can_be_asked_for(
    run: Run, int8_engine: None, detector: Path, samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUANTKIT_HOME", str(tmp_path / "home"))
    goal = ["--input-shape", SHAPE, "--calib-data", samples, "--min-speedup", 0.01, "--search-minutes", 0.1]
    done = run("quantize", detector, *goal, "--preset", "none", "--json")
    assert done.exit_code == 0, done.stderr
    search = json.loads(done.stdout)["search"]
    assert (search["measure"], search["mixed"]["drop"], search["images"]) == (None, None, 23)
    assert search["mixed"]["divergence"] < search["all_int8"]["divergence"]
    said = run("quantize", detector, *goal, "--preset", "none", "--force").stdout
    assert "at least 0.01x as fast as FP32: met" in said and not any(word in said for word in PREDICTIONS)


def test_fuse_counts_no_predictions(run: Run, detector: Path, checkpoint: Path, samples: Path) -> None:
    options = ["--input-shape", SHAPE, "--calib-data", samples, "--no-latency"]
    assert "outputs differ by at most" in (said := run("fuse", detector, *options, "--out", "a").stdout)
    assert "predictions" not in said
    assert "0 of 4 predictions changed" in run("fuse", checkpoint, *options, "--out", "b").stdout


def test_analyze_compares_each_output(run: Run, bundle: tuple[Path, str], detector: Path, samples: Path) -> None:
    done = run("analyze", bundle[0], "--data", samples, "--reference", detector, "--out", "why")
    assert done.exit_code == 0, done.stderr
    assert "agreement with FP32: joined: cosine " in done.stdout
    assert not any(word in done.stdout for word in PREDICTIONS)
    page = Path("why/index.html").read_text()
    assert "INT8&#39;s outputs against FP32&#39;s" in page or "INT8's outputs against FP32's" in page
    assert "first prediction" not in page


@pytest.mark.requires("onnxruntime")
def test_verify_compares_each_output(run: Run, bundle: tuple[Path, str], samples: Path) -> None:
    done = run("verify", bundle[0], "--engine", "onnxruntime", "--data", samples, "--json")
    (engine,) = json.loads(done.stdout)["engines"]
    assert engine["images"]["same"] is None and engine["images"]["cosine"] > 0.99
