"""``quantkit finetune BUNDLE --qat`` from the outside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantkit.bundle.file_names import MANIFEST, ONNX, SYMBOL
from tests.cli.conftest import Run
from tests.cli.test_finetune import tuned


def test_a_bundle_is_trained_with_its_quantization(run: Run, card: Path, photos: Path, int8_engine: None) -> None:
    made = run("quantize", card, "--calib-data", photos, "--preset", "none", "--no-latency", "--out", "b-int8")
    assert made.exit_code == 0, made.stderr
    words = ("--reference", card, "--train", photos, "--val", photos, "--batch-size", 12, "--epochs", 2)
    result = run("finetune", "b-int8", "--qat", *words)
    assert result.exit_code == 0, result.stderr
    assert "epoch 2/2: loss" in result.stderr and "agreement" in result.stderr
    assert "with FP32 on photos" in result.stdout
    assert run("verify", "b-int8-qat").exit_code == 0
    record = json.loads(Path("b-int8-qat/training.json").read_text())
    assert record["validation"] == "photos" and len(record["epochs"]) == record["config"]["epochs"] == 2
    assert not Path("b-int8/training.json").exists()
    assert not Path("b-int8-qat.checkpoint").exists()
    again = run("finetune", "b-int8", "--qat", *words, "--force", "--json")
    document = json.loads(again.stdout)
    assert document["before"]["samples"] == 36 and len(document["epochs"]) == 2
    assert document["config"]["optimizer"] == "adam" and document["config"]["learning_rate"] is None
    assert run("finetune", "b-int8", "--qat", *words).exit_code == 2


def test_scores_are_learned_from_samples_of_which_some_have_labels(
    run: Run, card: Path, photos: Path, int8_engine: None
) -> None:
    assert run("quantize", card, "--calib-data", photos, "--preset", "none", "--no-latency").exit_code == 0
    files = sorted(path.relative_to(photos) for path in photos.glob("*/*.png"))
    rows = [f"{path},{number % 3 or ''}\n" for number, path in enumerate(files)]
    (photos / "labels.csv").write_text("".join(["file,label\n", *rows]))
    words = ("--reference", card, "--train", photos, "--batch-size", 12, "--epochs", 1)
    result = run("finetune", "tiny-int8", "--qat", *words)
    assert result.exit_code == 0, result.stderr


@pytest.mark.long
@pytest.mark.requires("two-cpus")
@pytest.mark.requires("onnx")
def test_instances_train_a_bundle_towards_labels(run: Run, card: Path, photos: Path, int8_engine: None) -> None:
    given = ("--calib-data", photos, "--preset", "none", "--no-latency", "--format", "mxnet,onnx", "--out", "b-int8")
    assert run("quantize", card, *given).exit_code == 0
    words = ("--reference", card, "--train", photos, "--batch-size", 12, "--epochs", 2, "--no-distill")
    result = run("finetune", "b-int8", "--qat", *words, "--freeze", "*_log_range", "--instances", "2x1:smt", "--json")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert [epoch["samples"] for epoch in document["epochs"]] == [36, 36]
    # Towards labels the loss is a cross-entropy, which starts near that of a guess among seven classes.
    assert document["epochs"][0]["loss"] > 0.5
    assert Path("b-int8-qat", ONNX).is_file()
    symbols = [Path(bundle, SYMBOL).read_bytes() for bundle in ("b-int8", "b-int8-qat")]
    assert symbols[0] == symbols[1]
    assert run("verify", "b-int8-qat").exit_code == 0


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ([], "--qat needs --reference MODEL"),
        (["--reference", "tiny.toml", "--classes", 3], "--classes is not for --qat; leave it out"),
        (["--reference", "tiny.toml", "--machine", 1], "--machine and --scheduler go with --machines"),
        (["--reference", "tiny.toml", "--quantize"], "--quantize is not for --qat; leave it out"),
        (
            ["--reference", "tiny.toml", "--label-smoothing", 0.1],
            "--label-smoothing (label_smoothing) is for labels; leave it out, or",
        ),
        (["--reference", "tiny.toml", "--momentum", 0.9], "--momentum is for sgd, and the optimizer is adam"),
        (["--reference", "tiny.toml", "--train", "arrays.npz", "--flip"], "--flip varies images, and arrays.npz holds"),
        (["--reference", "tiny.toml", "--out", "."], "--out . has no name of its own"),
    ],
)
def test_what_is_not_for_a_bundle_is_told(
    run: Run, card: Path, photos: Path, int8_engine: None, more: list[Any], words: str
) -> None:
    assert run("quantize", card, "--calib-data", photos, "--preset", "none", "--no-latency").exit_code == 0
    np.savez("arrays.npz", x=np.zeros((16, 3, 16, 16), np.float32))
    result = run("finetune", "tiny-int8", "--qat", "--train", photos, *more)
    assert result.exit_code == 2 and words in result.stderr


def test_a_bundle_is_for_qat(run: Run, card: Path, photos: Path) -> None:
    Path("tiny-int8").mkdir()
    Path("tiny-int8", MANIFEST).touch()
    result = tuned(run, Path("tiny-int8"), photos)
    assert result.exit_code == 2 and "or train the bundle itself with --qat" in result.stderr
    assert "--qat" not in run("quantize", "tiny-int8").stderr


def test_a_bundle_learns_from_noise_only_where_that_is_said(run: Run, card: Path, photos: Path) -> None:
    card.write_text(card.read_text().replace('params = "tiny-0000.params"\n', ""))
    Path("tiny-int8").mkdir()
    Path("tiny-int8", MANIFEST).touch()
    result = run("finetune", "tiny-int8", "--qat", "--reference", card, "--train", photos)
    assert result.exit_code == 2 and "RANDOM" not in result.stderr
    assert "--weights FILE, or give --weights random if the bundle was made so" in result.stderr


def test_only_bundles_are_trained_with_their_quantization(run: Run, card: Path, photos: Path) -> None:
    result = run("finetune", card, "--qat", "--train", photos)
    assert result.exit_code == 2 and "is no bundle; quantize the network first" in result.stderr
