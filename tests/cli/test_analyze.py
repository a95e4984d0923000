"""``quantkit analyze`` from the terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quantkit import extras
from quantkit.formats.mxnet.params import write_params
from quantkit.models.load import load_model
from tests.cli.conftest import SHAPE, Run

pytestmark = pytest.mark.usefixtures("int8_engine")


@pytest.fixture
def bundle(run: Run, checkpoint: Path, samples: Path) -> Path:
    result = run(
        "quantize", checkpoint, "--input-shape", SHAPE, "--calib-data", samples, "--calib", 8, "--preset", "none",
        "--no-latency", "--quiet",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    return Path("tiny-int8")


def test_what_is_printed_and_written(run: Run, bundle: Path, checkpoint: Path, samples: Path) -> None:
    result = run("analyze", bundle, "--data", samples, "--reference", checkpoint, "--num-samples", 10)
    assert result.exit_code == 0, result.stderr
    for text in ("10 images of samples.npz", "joined", "dense", "finding: ", "tiny-int8-analysis/index.html"):
        assert text in result.stdout
    assert "tiny" in Path("tiny-int8-analysis/index.html").read_text()
    again = run("analyze", bundle, "--data", samples, "--reference", checkpoint)
    assert again.exit_code == 2
    assert "--force" in again.stderr


def test_json_is_what_the_file_holds(run: Run, bundle: Path, checkpoint: Path, samples: Path) -> None:
    result = run("analyze", bundle, "--data", samples, "--reference", checkpoint, "--out", "why", "--json")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert document.pop("page") == "why/index.html"
    assert document.pop("bundle") == "tiny-int8"
    assert document == json.loads(Path("why/analysis.json").read_text())
    assert document["images"] == 23


def test_weights_that_the_name_does_not_find(run: Run, int8_engine: None, tmp_path: Path) -> None:
    network, file = "cifar_resnet20_v1", tmp_path / "mine.params"
    with file.open("wb") as stream:
        write_params(stream, load_model(network, weights="random").graph.params)
    quantized = run(
        "quantize", network, "--weights", file, "--calib-data", "digits:train", "--calib", 4, "--preset", "none",
        "--no-latency",
    )  # fmt: skip
    assert quantized.exit_code == 0, quantized.stderr
    for verb in ("evaluate", "analyze"):
        said = f"quantkit {verb} {network}-int8 --data IMAGES --reference {network} --weights {file}"
        assert said in quantized.stdout
    result = run("analyze", f"{network}-int8", "--data", "digits:test", "--weights", file, "--num-samples", 4)
    assert result.exit_code == 0, result.stderr


def test_requests_that_cannot_be_served(run: Run, bundle: Path, checkpoint: Path, samples: Path) -> None:
    for arguments, text in (
        (("analyze", checkpoint, "--data", samples), "is not a bundle"),
        (("analyze", bundle, "--data", samples), "cannot be loaded by its name"),
        (("analyze", bundle, "--data", "nowhere", "--reference", checkpoint), "there is no sample data"),
        (("analyze", bundle, "--data", samples, "--out", "tiny-int8", "--force"), "not an analysis"),
    ):
        result = run(*arguments)
        assert (result.exit_code, text in result.stderr) == (2, True), result.stderr
    assert not Path("tiny-int8-analysis").exists()


def test_a_page_that_cannot_be_made_is_told_before_the_work(
    run: Run, bundle: Path, samples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda module: None)
    result = run("analyze", bundle, "--data", samples)
    assert result.exit_code == 2 and "'quantkit[report]'" in result.stderr
    assert "loading" not in result.stderr
