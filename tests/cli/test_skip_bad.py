"""``--skip-bad`` from the outside."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

from quantkit.calibration.table import read_table
from tests.bad_images import digits_folder
from tests.cli.conftest import SHAPE, Run

MODEL = "digits_resnet20_v1"
BAD = (1, 8, 9, 10, 11)
TOLD = "Warning: 5 samples that cannot be read or used were left out: 001.png, 008.png, 009.png, 010.png, 011.png\n"
ON_TWO = ("--cluster", "local:2", "--shard-size", "4")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """22 images, of which 5 are damaged."""
    return digits_folder(tmp_path / "photos", 22, BAD)


def names(result: Result) -> list[str]:
    """What was left out, by the object that was printed."""
    assert result.exit_code == 0, result.stderr
    return [each["name"] for each in json.loads(result.stdout)["left_out"]]


def calibrated(run: Run, photos: Path, out: str, *more: object) -> Result:
    return run("calibrate", MODEL, "--calib-data", photos, "--calib", 22, "--out", out, *more)


@pytest.mark.parametrize("skip_bad", [5, 20])
def test_calibrate(run: Run, photos: Path, skip_bad: int) -> None:
    result = calibrated(run, photos, "t.json", "--skip-bad", skip_bad, "--json")
    assert names(result) == [f"{number:03}.png" for number in BAD] and result.stderr.endswith(TOLD)
    first = json.loads(result.stdout)["left_out"][0]
    assert first["position"] == 1 and first["reason"].startswith("cannot read image 001.png: it is none of BMP")
    table = read_table("t.json")
    assert table.samples == 17 and table.left_out == 5
    shown = calibrated(run, photos, "u.json", "--skip-bad", skip_bad)
    assert "17 images of photos" in shown.stdout and shown.stderr.endswith(TOLD)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ((), "Error: cannot read image 001.png: it is none of"),
        (("--skip-bad", 3), "010.png: it is none of"),
        (
            ("--skip-bad", 3),
            "leave it out; 3 samples before it were left out, and no more may be (--skip-bad, skip_bad)",
        ),
        (("--skip-bad", -1), "Invalid value for '--skip-bad'"),
    ],
)
def test_more_than_may_be_end_the_command(run: Run, photos: Path, more: Sequence[object], told: str) -> None:
    for command in (
        ["calibrate", MODEL, "--calib-data", photos, "--calib", 22, "--out", "t.json"],
        ["evaluate", MODEL, "--data", photos],
    ):
        result = run(*command, *more)
        assert result.exit_code == 2 and told in result.stderr and "Traceback" not in result.stderr
    assert not Path("t.json").exists()


@pytest.mark.parametrize("goal", [(), ("--reference", MODEL, "--max-drop", 1)])
def test_evaluate(run: Run, photos: Path, tmp_path: Path, goal: Sequence[object]) -> None:
    # The first image is damaged, too.
    (photos / "000.png").write_bytes(b"")
    asked = ["--batch-size", 1, *goal, "--json"]
    result = run("evaluate", MODEL, "--data", photos, "--skip-bad", 6, *asked)
    assert names(result) == [f"{number:03}.png" for number in (0, *BAD)]
    assert "6 samples that cannot be read or used were left out: 000.png, " in result.stderr
    sound = run("evaluate", MODEL, "--data", digits_folder(tmp_path / "sound", 22, left_out=(0, *BAD)), *asked)
    expected, found = json.loads(sound.stdout), json.loads(result.stdout)
    assert found["images"] == 16 and expected["left_out"] == []
    assert {**found, "data": "", "left_out": []} == {**expected, "data": ""}


@pytest.mark.long
@pytest.mark.requires("cluster")
def test_a_cluster_leaves_out_what_one_process_does(run: Run, photos: Path) -> None:
    one, two = (calibrated(run, photos, "t.json", "--skip-bad", 5, "--json", "--force", *more) for more in ((), ON_TWO))
    assert names(one) and one.stdout == two.stdout and one.stderr.endswith(TOLD) and two.stderr.endswith(TOLD)
    evaluating = ["evaluate", MODEL, "--data", photos, "--batch-size", 4, "--skip-bad", 5, "--json"]
    one, two = (run(*evaluating, *more) for more in ((), ON_TWO))
    assert names(one) and one.stdout == two.stdout and one.stderr.endswith(TOLD) and two.stderr.endswith(TOLD)


@pytest.mark.long
@pytest.mark.usefixtures("int8_engine")
def test_quantize(run: Run, photos: Path, tmp_path: Path) -> None:
    held_out = digits_folder(tmp_path / "held", 9, bad={3})
    result = run("quantize", MODEL, "--calib-data", photos, "--calib", 22, "--skip-bad", 5, "--no-latency", "--json")
    assert names(result) == [f"{number:03}.png" for number in BAD] and result.stderr.endswith(TOLD)
    assert json.loads(result.stdout)["calibration"]["samples"] == 17
    assert Path(f"{MODEL}-int8").is_dir()
    options = ["--max-drop", 50, "--eval-data", held_out, "--search-minutes", 0, "--preset", "none"]
    result = run(
        "quantize", MODEL, "--calib-data", photos, "--calib", 22, "--skip-bad", 5, *options, "--json", "--force"
    )
    assert names(result) == [*(f"{number:03}.png" for number in BAD), "003.png"]


def test_images_that_a_task_is_judged_on_are_not_left_out(run: Run) -> None:
    result = run("evaluate", "digits_ssd", "--data", "scenes:test", "--skip-bad", 1)
    assert result.exit_code == 2 and "detection is judged on every image of the data; leave --skip-bad" in result.stderr
    options = ["--calib-data", "scenes:train", "--max-drop", 1, "--eval-data", "scenes:test", "--skip-bad", 1]
    result = run("quantize", "digits_ssd", *options)
    assert result.exit_code == 2 and "detection is judged on every image of the evaluation data" in result.stderr


def test_samples_of_an_array_cannot_be_left_out(run: Run, checkpoint: Path, tmp_path: Path) -> None:
    values = np.zeros((6, 3, 16, 16), np.float32)
    values[4] = np.nan
    np.savez(tmp_path / "samples.npz", x=values, y=np.zeros(6, np.int64))
    result = run("evaluate", checkpoint, "--input-shape", SHAPE, "--data", "samples.npz", "--skip-bad", 2)
    assert result.exit_code == 2
    assert "sample 4 of samples.npz holds NaN" in result.stderr and "it cannot be left out" in result.stderr
