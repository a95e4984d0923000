"""``quantize`` with a goal, from the outside."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from time import sleep

import pytest

from tests.cli.conftest import SHAPE, Run, start

TIGHT = ["--calib-data", "digits:train", "--calib", 8, "--method", "percentile:95", "--preset", "none"]
NETWORK = ["quantize", "digits_resnet20_v1", *TIGHT, "--exclude", "*stage2*", "--exclude", "*stage3*", "--out", "b"]
JUDGED = ["--eval-data", "digits:test"]


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    from quantkit.mixed_precision import images

    monkeypatch.setenv("QUANTKIT_HOME", str(tmp_path_factory.mktemp("home")))
    monkeypatch.setattr(images, "_SUBSET", 16)


@pytest.mark.long
def test_a_goal_that_is_met(run: Run, int8_engine: None, tmp_path: Path) -> None:
    done = run(*NETWORK, *JUDGED, "--max-drop", 0.3, "--json")
    assert done.exit_code == 0, done.stderr
    printed = json.loads(done.stdout)
    search, latency = printed["search"], printed["latency_ms"]
    assert search["met"]
    for name, form in (("all_int8", "int8"), ("mixed", "mixed")):
        assert search[name]["speedup"] == latency["fp32"] / latency[form]
    assert search["mixed"]["drop"] <= 0.3 < search["all_int8"]["drop"]
    assert (search["measure"], search["images"]) == ("top-1", 360)
    mixed = json.loads((tmp_path / "b" / "manifest.json").read_text())["settings"]["mixed"]
    assert mixed["layers"] == sorted(layer["layer"] for layer in search["layers"])
    assert (mixed["max_drop"], mixed["met"]) == (0.3, True)
    explained = json.loads(run("explain", "b", "--json").stdout)["operators"]
    assert {row["into"] for row in explained if row["reason"] == "kept in FP32 for accuracy"} == set(mixed["layers"])
    checked = json.loads(
        run("evaluate", "b", "--data", "digits:test", "--reference", "digits_resnet20_v1", "--json").stdout
    )
    lost = checked["reference_accuracy"]["top1"] - checked["accuracy"]["top1"]
    assert search["mixed"]["drop"] == pytest.approx(100 * lost)

    again = run(*NETWORK, *JUDGED, "--max-drop", 0.3, "--force")
    assert f"resuming: {search['measurements']['made']} measurements made before" in again.stderr
    for words in ("Kept in FP32 for accuracy", "at most 0.3 points less top-1: met", "95 % interval", "360 images",
                  "chosen on these same images", "mixed is", "kept in FP32 for accuracy"):  # fmt: skip
        assert words in again.stdout
    assert all(len(line) <= 100 for line in again.stdout.splitlines() if not line.startswith("  quantkit "))


def test_a_goal_that_is_missed_ends_with_4_and_a_bundle(run: Run, int8_engine: None, tmp_path: Path) -> None:
    done = run(*NETWORK, *JUDGED, "--max-drop", 100, "--min-speedup", 1000)
    assert done.exit_code == 4, done.stderr
    assert "at most 100 points less top-1: met" in done.stdout
    assert "at least 1000x as fast as FP32: NOT MET" in done.stdout
    assert json.loads((tmp_path / "b" / "manifest.json").read_text())["settings"]["mixed"]["met"] is False
    assert run("verify", "b").exit_code == 0


@pytest.mark.long
def test_a_budget_that_ends_it_is_said(run: Run, int8_engine: None) -> None:
    done = run(*NETWORK, *JUDGED, "--max-drop", 0, "--search-minutes", 0)
    assert done.exit_code == 4, done.stderr
    assert "ended by its budget: 0 of 14 layers and groups measured" in done.stdout


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--max-drop", 0.3], "--eval-data"),
        (["--max-drop", -1, *JUDGED], "-1"),
        (["--max-drop", "nan", *JUDGED], "nan"),
        (["--min-speedup", 0], "0"),
        (["--min-speedup", "inf"], "inf"),
        (["--min-speedup", 2, "--search-minutes", -1], "-1"),
        (["--min-speedup", 2, "--search-minutes", "nan"], "nan"),
        (["--min-speedup", 2, "--no-latency"], "--no-latency"),
        (["--max-drop", 0.3, "--eval-data", "nowhere/"], "nowhere/"),
        (["--eval-data", "digits:test"], "--max-drop"),
        (["--search-minutes", 3], "--max-drop"),
        (["--max-drop", 0.3, *JUDGED, "--weights", "random"], "random"),
    ],
    ids=str,
)
def test_requests_that_cannot_be_served(
    run: Run, int8_engine: None, tmp_path: Path, options: list[object], words: str
) -> None:
    done = run(*NETWORK, *options)
    assert done.exit_code == 2, done.stdout
    assert words in done.stderr.splitlines()[-1]
    assert "calibrating" not in done.stderr
    assert os.listdir(tmp_path) == []


def test_measurements_that_cannot_be_kept(
    run: Run, int8_engine: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("QUANTKIT_HOME", str(tmp_path / "file"))
    done = run(*NETWORK, *JUDGED, "--max-drop", 0.3)
    assert done.exit_code == 1
    assert "set QUANTKIT_HOME" in done.stderr.splitlines()[-1]
    assert "calibrating" not in done.stderr


@pytest.mark.long
def test_images_that_are_calibrated_with_are_warned_of(run: Run, int8_engine: None) -> None:
    same = "--eval-data and --calib-data are both digits:train"
    done = run(*NETWORK, "--eval-data", "digits:train", "--max-drop", 50, "--search-minutes", 0)
    assert (done.exit_code, f"Warning: {same}" in done.stderr) == (0, True)
    done = run(*NETWORK, *JUDGED, "--max-drop", 50, "--search-minutes", 0, "--force")
    assert (done.exit_code, same in done.stderr) == (0, False)


def test_without_labels_agreement_is_said(run: Run, checkpoint: Path, samples: Path, int8_engine: None) -> None:
    import numpy as np

    with np.load(samples) as archive:
        np.savez("unlabelled.npz", x=archive["x"])
    options = [checkpoint, "--input-shape", SHAPE, "--calib-data", samples, "--eval-data", "unlabelled.npz"]
    done = run("quantize", *options, "--max-drop", 50)
    assert done.exit_code == 0, done.stderr
    assert "agreement with FP32 (the images have no labels): met" in done.stdout
    assert "Warning: one of 23 images is 4.3 points" in done.stderr


@pytest.mark.long
def test_ctrl_c_keeps_the_measurements(int8_engine: None, tmp_path: Path) -> None:
    command = [*NETWORK, *JUDGED, "--max-drop", 0, "--search-minutes", 5]
    process = start(tmp_path, *command)
    assert process.stderr is not None
    while "measuring what each layer" not in process.stderr.readline():
        assert process.poll() is None
    journals = Path(os.environ["QUANTKIT_HOME"]) / "searches"
    while not (files := list(journals.glob("*.jsonl"))) or len(files[0].read_bytes().splitlines()) < 4:
        assert process.poll() is None
        sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    said = "interrupted; nothing was written; the measurements are kept, the same command goes on from there"
    assert err.splitlines()[-1] == said
    assert os.listdir(tmp_path) == []
    kept = len(files[0].read_bytes().splitlines())
    process = start(tmp_path, *command[:-1], 0)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 4
    assert f"resuming: {kept} measurements made before" in err or f"resuming: {kept - 1} measurements" in err
