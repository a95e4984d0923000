"""Preprocessing on the command line: photographs for networks of which no card says how they read them."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.cli.conftest import CLASSES, SHAPE, Run

STEPS = ["--resize", 20, "--crop", 16, "--mean", "0.1,0.2,0.3", "--std", 0.5, "--scale", 127.5]


@pytest.fixture(scope="module")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight photographs of noise with labels, and what a network reads of them by ``STEPS``."""
    folder = tmp_path_factory.mktemp("photographs")
    random = np.random.default_rng(0)
    lines = ["file,label"]
    for index in range(8):
        pixels = random.integers(0, 256, (24, 30, 3), np.uint8)
        Image.fromarray(pixels).save(folder / f"{index}.png")
        lines.append(f"{index}.png,{index % CLASSES}")
    (folder / "labels.csv").write_text("\n".join(lines))
    return folder


@pytest.fixture(scope="module")
def onnx(engine: None, checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint as an ONNX file that says nothing of preprocessing."""
    from quantkit.bundle.export import export_onnx
    from quantkit.models.load import load_model

    pytest.importorskip("onnx")
    path = tmp_path_factory.mktemp("onnx") / "tiny.onnx"
    export_onnx(load_model(checkpoint, input_shape=(3, 16, 16)), path)
    return path


def test_an_onnx_file_is_quantized_with_photographs(
    run: Run, int8_engine: None, onnx: Path, photographs: Path, tmp_path: Path
) -> None:
    common = ["--calib-data", photographs, "--out", "b", "--no-latency", "--preset", "none"]
    refused = run("quantize", onnx, *common)
    assert refused.exit_code == 2 and "--resize, --crop, --mean, --std, --scale" in refused.stderr
    done = run("quantize", onnx, *common, *STEPS)
    assert done.exit_code == 0, done.stderr
    assert "images: short side to 20, centre 16x16, / 127.5, mean 0.1 0.2 0.3, std 0.5 0.5 0.5" in done.stderr
    card = tomllib.loads((tmp_path / "b" / "card.toml").read_text())
    assert card["preprocess"] == {
        "resize": 20, "crop": 16, "mean": [0.1, 0.2, 0.3], "std": [0.5] * 3, "scale": 127.5, "rotate180": False,
    }  # fmt: skip


def test_evaluate_reads_what_the_steps_make(run: Run, onnx: Path, photographs: Path, tmp_path: Path) -> None:
    from quantkit.data.preprocess import Preprocess, apply

    steps = Preprocess(20, 16, (0.1, 0.2, 0.3), (0.5, 0.5, 0.5), 127.5)
    images = [np.asarray(Image.open(photographs / f"{index}.png")) for index in range(8)]
    np.savez(tmp_path / "arrays.npz", x=np.stack([apply(steps, each) for each in images]), y=np.arange(8) % CLASSES)
    accuracies = [
        json.loads(run("evaluate", onnx, "--data", data, "--json", *more).stdout)["accuracy"]
        for data, more in ((photographs, STEPS), ("arrays.npz", []))
    ]
    assert accuracies[0] == accuracies[1]


def test_export_writes_the_steps_into_the_file(run: Run, checkpoint: Path, onnx: Path, tmp_path: Path) -> None:
    from quantkit.models.load import load_model

    assert run("export", checkpoint, "--input-shape", SHAPE, *STEPS, "--out", "with.onnx").exit_code == 0
    preprocess = load_model("with.onnx").preprocess
    assert preprocess is not None and (preprocess.resize, preprocess.scale) == (20, 127.5)


def test_what_a_card_says_otherwise_is_told(run: Run, engine: None) -> None:
    result = run("evaluate", "digits_resnet20_v1", "--data", "digits:test", "--num-samples", 4, "--mean", 0.25)
    assert result.exit_code == 0, result.stderr
    assert "Warning: the preprocessing of digits_resnet20_v1 uses mean 0.25,0.25,0.25 as given, where" in result.stderr


@pytest.mark.long
def test_a_network_whose_card_crops_reads_what_is_no_square(run: Run, int8_engine: None, photographs: Path) -> None:
    common = ["--input-shape", "3,32,64", "--calib-data", photographs, "--calib", 2]
    common += ["--weights", "random", "--out", "b", "--no-latency", "--preset", "none"]
    refused = run("quantize", "cifar_resnet20_v1", *common)
    assert refused.exit_code == 2 and "32x64 is none; give --fit stretch or --fit letterbox" in refused.stderr
    done = run("quantize", "cifar_resnet20_v1", *common, "--fit", "stretch")
    assert done.exit_code == 0, done.stderr
    assert "images: stretched to the input, / 255, mean 0.4914" in done.stderr
    (next_step,) = (line for line in done.stdout.splitlines() if "quantkit evaluate" in line)
    assert next_step.endswith("--reference cifar_resnet20_v1 --input-shape 3,32,64 --fit stretch")
    reference = ["--reference", "cifar_resnet20_v1", "--weights", "random"]
    form = ["--input-shape", "3,32,64", "--fit", "stretch"]
    compared = run("evaluate", "b", "--data", photographs, *reference, *form)
    assert compared.exit_code == 0, compared.stderr
    analyzed = run("analyze", "b", "--data", photographs, "--num-samples", 1, *reference)
    assert analyzed.exit_code == 0, analyzed.stderr


@pytest.mark.parametrize("verb", ["export", "feed"])
def test_a_bundle_has_its_own(run: Run, checkpoint: Path, samples: Path, verb: str) -> None:
    common = ["--input-shape", SHAPE, "--calib-data", samples, "--out", "b", "--no-latency"]
    assert run("fuse", checkpoint, *common).exit_code == 0
    more = ["--data", samples] if verb == "feed" else []
    result = run(verb, "b", *more, "--std", 2)
    assert result.exit_code == 2 and "has its own; leave --std out" in result.stderr


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (["--resize", 0], "0 is not in the range"),
        (["--crop", "big"], "'big' is not a valid integer"),
        (["--crop", 12], "crops to 12x12 pixels, but the network reads 16x16; crop to 16"),
        (["--mean", "1,2"], "not a number for each of red, green and blue"),
        (["--mean", "1,2,nan"], "'nan' is not a finite number"),
        (["--std", "1,0,1"], "'0' is not a finite number above zero"),
        (["--scale", "inf"], "'inf' is not a finite number above zero"),
    ],
)
def test_bad_values(run: Run, checkpoint: Path, samples: Path, option: list[object], words: str) -> None:
    result = run("evaluate", checkpoint, "--input-shape", SHAPE, "--data", samples, *option)
    assert result.exit_code == 2 and words in result.stderr, result.stderr
