"""``quantkit finetune`` from the outside."""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

import pytest
from click.testing import Result

from quantkit.bundle.file_names import MANIFEST
from quantkit.errors import EngineError
from tests.bad_images import digits_folder
from tests.cli.conftest import COLOURS, PROMPTLY, SHAPE, Run, start
from tests.processes import commands


def tuned(run: Run, card: Path, photos: Path, *more: Any) -> Result:
    return run("finetune", card, "--train", photos, "--classes", 3, "--batch-size", 12, "--epochs", 2, *more)


def test_what_is_written_is_quantized_and_knows_its_classes(
    run: Run, card: Path, photos: Path, int8_engine: None
) -> None:
    result = tuned(run, card, photos, "--val", photos, "--learning-rate", 2, "--price-per-hour", 3.6, "--out", "mine")
    assert result.exit_code == 0, result.stderr
    assert sorted(path.name for path in Path("mine").iterdir()) == [
        "card.toml", "model-0000.params", "model-symbol.json", "training.json",
    ]  # fmt: skip
    assert not Path("mine.checkpoint").exists()
    lines = result.stderr.splitlines()
    told = [line for line in lines if line.startswith(("epoch 1/2", "epoch 2/2"))]
    assert len(told) == 2 and "top-1" in told[0] and "images/s" in told[0] and "waiting for data" in told[0]
    assert "ends about" in told[0] and "more to pay" in told[0] and "ends about" not in told[1]
    assert "2 epochs of 2 on photos" in result.stdout and "cost" in result.stdout
    again = run("quantize", "mine/card.toml", "--calib-data", photos, "--no-latency", "--preset", "none", "--json")
    assert again.exit_code == 0, again.stderr
    shown = run("predict", "mine-int8", photos / "red" / "00.png", "--json")
    assert {each["class"] for each in json.loads(shown.stdout)["images"][0]["values"]} == set(COLOURS)


def test_everything_is_in_the_record(run: Run, card: Path, photos: Path) -> None:
    result = tuned(run, card, photos, "--val", photos, "--json", "--mixup", 0.2, "--no-flip", "--seed", 5)
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    record = json.loads(Path("tiny-finetuned/training.json").read_text())
    assert document["epochs"] == record["epochs"] and len(record["epochs"]) == 2
    assert record["config"]["mixup"] == 0.2 and record["config"]["seed"] == 5
    assert record["config"]["augmentation"]["flip"] is False
    assert document["out"] == "tiny-finetuned" and document["cost"] is None and document["resumed_epochs"] == 0
    assert 0 <= record["epochs"][0]["waiting"] <= 1 and record["epochs"][0]["images_per_second"] > 0


def test_noise_is_trained_only_where_that_is_said(run: Run, card: Path, photos: Path) -> None:
    card.write_text(card.read_text().replace('params = "tiny-0000.params"\n', ""))
    refused = tuned(run, card, photos)
    assert refused.exit_code == 2 and not Path("tiny-finetuned").exists()
    assert "no trained weights of tiny can be had" in refused.stderr and "RANDOM" not in refused.stderr
    assert "--weights FILE, or train it from scratch with --weights random" in refused.stderr
    weights = card.with_name("tiny-0000.params")
    for given, kind in (("random", "random"), (weights, "file")):
        assert tuned(run, card, photos, "--weights", given, "--force").exit_code == 0
        source = json.loads(Path("tiny-finetuned/training.json").read_text())["base_source"]
        assert (source["network"], source["weights"]) == ("tiny", kind)
    assert source["sha256"] == hashlib.sha256(weights.read_bytes()).hexdigest()


def test_it_goes_on_to_int8(run: Run, card: Path, photos: Path, int8_engine: None) -> None:
    result = tuned(run, card, photos, "--val", photos, "--quantize")
    assert result.exit_code == 0, result.stderr
    assert Path("tiny-finetuned-int8/manifest.json").is_file()
    assert "INT8      top-1" in result.stdout and "FP32      top-1" in result.stdout
    assert "bundle    tiny-finetuned-int8" in result.stdout and "quantkit evaluate tiny-finetuned-int8" in result.stdout
    alone = tuned(run, card, photos, "--quantize", "--force", "--json")
    assert alone.exit_code == 0 and json.loads(alone.stdout)["int8"] == {"bundle": "tiny-finetuned-int8"}
    assert "should the rest fail, `quantkit quantize tiny-finetuned/card.toml` does it" in alone.stderr


def test_a_processor_without_int8_is_told_before_the_training(
    run: Run, card: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise EngineError("no INT8 here")

    monkeypatch.setattr("quantkit.backends.mxnet.build.check_int8", refuse)
    Path("b-int8").mkdir()
    Path("b-int8", MANIFEST).touch()
    for result in (
        tuned(run, card, photos, "--quantize"),
        run("finetune", "b-int8", "--qat", "--reference", card, "--train", photos),
    ):
        assert result.exit_code == 1 and "no INT8 here" in result.stderr and "epoch" not in result.stderr


def test_an_older_result_is_kept_unless_force_is_given(run: Run, card: Path, photos: Path) -> None:
    assert tuned(run, card, photos).exit_code == 0
    before = Path("tiny-finetuned/model-0000.params").read_bytes()
    refused = tuned(run, card, photos, "--seed", 1)
    assert refused.exit_code == 2 and "holds a trained network already; replace it with --force" in refused.stderr
    assert Path("tiny-finetuned/model-0000.params").read_bytes() == before
    assert tuned(run, card, photos, "--seed", 1, "--force").exit_code == 0
    assert Path("tiny-finetuned/model-0000.params").read_bytes() != before
    Path("other").mkdir()
    Path("other/notes.txt").write_text("mine")
    other = tuned(run, card, photos, "--out", "other", "--force")
    assert other.exit_code == 2 and "is not empty and not a trained network" in other.stderr


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--classes", 2], "has 3 folders of classes, and classes (--classes) is 2; correct one"),
        (["--labels", "a,b"], "2 labels were given for 3 classes"),
        (["--freeze", "stage"], "nothing to freeze is called 'stage'"),
        (["--batch-size", 500], "photos has 36 samples, fewer than a batch of 500"),
        (["--train", "nowhere"], "nowhere"),
        (["--patience", 2], "stopping early needs validation samples"),
        (["--optimizer", "lamb"], "'lamb' is not one of"),
        (["--optimizer", "adamax", "--momentum", 0.8], "--momentum is for sgd, and the optimizer is adamax; leave it"),
    ],
)
def test_wrong_requests_are_told(run: Run, card: Path, photos: Path, more: list[Any], words: str) -> None:
    result = tuned(run, card, photos, *more)
    assert result.exit_code == 2 and words in result.stderr
    assert "Traceback" not in result.stderr and not Path("tiny-finetuned").exists()


def test_a_diverging_training_is_a_failure(run: Run, card: Path, photos: Path) -> None:
    result = tuned(run, card, photos, "--learning-rate", 1e14, "--warmup-epochs", 0)
    assert result.exit_code == 1 and "give a smaller --learning-rate" in result.stderr
    assert not Path("tiny-finetuned").exists()


def test_damaged_images_are_named(run: Run, card: Path, tmp_path: Path) -> None:
    folder = digits_folder(tmp_path / "digits", 24, (3, 7))
    resized = ("--resize", 16, "--crop", 16, "--classes", 10)
    strict = tuned(run, card, folder, *resized)
    assert strict.exit_code == 2 and "cannot read image" in strict.stderr and "--skip-bad" in strict.stderr
    result = tuned(run, card, folder, *resized, "--skip-bad", 2)
    assert result.exit_code == 0, result.stderr
    assert "2 samples that cannot be read or used were left out: 003.png, 007.png" in result.stderr


def test_validation_samples_may_be_left_out_and_are_tried_first(
    run: Run, card: Path, photos: Path, tmp_path: Path, int8_engine: None
) -> None:
    held = tmp_path / "held"
    shutil.copytree(photos, held)
    (held / "green" / "05.png").write_bytes(b"no image")
    strict = tuned(run, card, photos, "--val", held)
    assert strict.exit_code == 2 and "05.png" in strict.stderr and "epoch 1/2" not in strict.stderr
    result = tuned(run, card, photos, "--val", held, "--skip-bad", 1, "--json", "--quantize")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    (left_out,) = document["validation_left_out"]
    assert left_out["position"] == 17 and document["int8"]["left_out"] == [left_out]
    assert document["left_out"] == [] and document["epochs"][0]["validated"]["samples"] == 35
    assert "1 sample that cannot be read or used was left out: " in result.stderr


@pytest.mark.timeout(300)
@pytest.mark.long
@pytest.mark.parametrize("more", [(), pytest.param(("--instances", "2x1:smt"), marks=pytest.mark.requires("two-cpus"))])
def test_ctrl_c_says_where_it_goes_on_and_the_result_is_the_same(
    card: Path, photos: Path, tmp_path: Path, more: Sequence[str]
) -> None:
    words = ("--train", photos, "--classes", 3, "--batch-size", 12, "--workers", 0, *more)
    whole = start(tmp_path, "finetune", card, *words, "--epochs", 12, "--out", "whole")
    process = start(tmp_path, "finetune", card, *words, "--epochs", 12, "--out", "parts")
    assert process.stderr is not None
    # What this reads is all that was told before an epoch was done.
    assert any(line.startswith("epoch 1/12:") for line in process.stderr)
    process.send_signal(signal.SIGINT)
    begun = time.monotonic()
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130 and time.monotonic() - begun < PROMPTLY
    assert "interrupted; parts.checkpoint holds epoch" in told and "the same command goes on from there" in told
    assert not (tmp_path / "parts").exists()
    assert not any("instance_process" in each and "parts.checkpoint" in each for each in commands())
    again = start(tmp_path, "finetune", card, *words, "--epochs", 12, "--out", "parts", "--json")
    printed, errors = again.communicate(timeout=120)
    assert again.returncode == 0, errors
    assert json.loads(printed)["resumed_epochs"] > 0
    assert whole.wait(timeout=120) == 0
    whole.communicate()
    assert (tmp_path / "whole/model-0000.params").read_bytes() == (tmp_path / "parts/model-0000.params").read_bytes()


def test_samples_that_are_no_images_are_learned_as_they_are(run: Run, checkpoint: Path, samples: Path) -> None:
    result = run(
        "finetune", checkpoint, "--input-shape", SHAPE, "--train", samples, "--epochs", 1, "--batch-size", 8,
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    assert "classes = 7" in Path("tiny-finetuned/card.toml").read_text()


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        (("--flip",), "--flip"),
        (("--no-flip", "--smallest-crop", 0.5), "--smallest-crop"),
        (("--colour", 0.1), "--colour"),
        (("--no-flip", "--smallest-crop", 1, "--colour", 0, "--mixup", 0.2), None),
    ],
)
def test_options_that_vary_images_are_for_images(
    run: Run, checkpoint: Path, samples: Path, given: Sequence[Any], refused: Optional[str]
) -> None:
    words = ("--input-shape", SHAPE, "--train", samples, "--epochs", 1, "--batch-size", 8)
    result = run("finetune", checkpoint, *words, *given)
    if refused is None:
        assert result.exit_code == 0, result.stderr
    else:
        assert result.exit_code == 2 and f"{refused} varies images, and samples.npz holds arrays" in result.stderr
        assert not Path("tiny-finetuned").exists()


def test_an_image_that_is_damaged_may_come_first_where_images_are_varied(run: Run, card: Path, tmp_path: Path) -> None:
    folder = digits_folder(tmp_path / "digits", 24, (0,))
    words = ("--resize", 16, "--crop", 16, "--classes", 10, "--flip")
    assert tuned(run, card, folder, *words, "--skip-bad", 1).exit_code == 0


@pytest.mark.requires("two-cpus")
@pytest.mark.long
@pytest.mark.timeout(300)
def test_machines_train_together(card: Path, photos: Path, tmp_path: Path) -> None:
    """Both are this one, and share its first core."""
    from quantkit.training.machines import on_this_machine

    def on_both(*more: Any, seeds: tuple[int, int] = (0, 0)) -> list[tuple[int, str, str]]:
        words = ("--train", photos, "--val", photos, "--classes", 3, "--batch-size", 12, "--epochs", 2, *more)
        point = on_this_machine()
        running = []
        for number, seed in enumerate(seeds):
            (tmp_path / str(number)).mkdir(exist_ok=True)
            meeting = ("--machines", 2, "--machine", number, "--scheduler", f"{point.host}:{point.port}")
            apart = tmp_path / str(number)
            running.append(start(apart, "finetune", card, *words, *meeting, "--instances", "1x1", "--seed", seed))
        ended = [process.communicate(timeout=120) for process in running]
        return [(process.returncode, *texts) for process, texts in zip(running, ended)]

    for code, _, errors in on_both():
        assert code == 0, errors
        assert "epoch 2/2" in errors
    made = [(tmp_path / str(number) / "tiny-finetuned/model-0000.params").read_bytes() for number in (0, 1)]
    assert made[0] == made[1]
    # Where seeds differ, so do orders.
    for code, _, errors in on_both("--force", seeds=(0, 1)):
        assert (
            code == 2 and "are not the same on all instances; give all the same files, and the same options" in errors
        )


def test_machines_need_a_place_to_meet(run: Run, card: Path, photos: Path) -> None:
    result = tuned(run, card, photos, "--machines", 2)
    assert result.exit_code == 2 and "--machines needs --scheduler HOST:PORT" in result.stderr
    assert tuned(run, card, photos, "--machines", 2, "--scheduler", "here").exit_code == 2
    alone = tuned(run, card, photos, "--machine", 1, "--scheduler", "here:9000")
    assert alone.exit_code == 2 and "--machine and --scheduler go with --machines" in alone.stderr
    for more in (("--reference", card), ("--no-distill",)):
        result = tuned(run, card, photos, *more)
        assert result.exit_code == 2 and f"{more[0]} is for --qat" in result.stderr


def test_the_help_states_the_defaults(run: Run) -> None:
    from quantkit.training.config import TrainingConfig
    from quantkit.training.quantization_aware import QUANTIZATION_AWARE

    text = " ".join(run("finetune", "--help").stdout.split())
    usual = TrainingConfig()
    assert f"[default: {usual.epochs}, with --qat {QUANTIZATION_AWARE.epochs}]" in text
    assert f"[default: {usual.optimizer}, with --qat {QUANTIZATION_AWARE.optimizer}]" in text
    for name, value in (
        ("batch_size", usual.batch_size),
        ("momentum", usual.momentum),
        ("label_smoothing", usual.label_smoothing),
        ("mixup", usual.mixup),
        ("seed", usual.seed),
        ("schedule", usual.schedule),
    ):
        assert getattr(QUANTIZATION_AWARE, name) == value
        assert f"[default: {value if isinstance(value, str) else f'{value:g}'}]" in text
    varied, plain = usual.augmentation, QUANTIZATION_AWARE.augmentation
    for one, other in (
        (usual.weight_decay, QUANTIZATION_AWARE.weight_decay),
        (usual.warmup_epochs, QUANTIZATION_AWARE.warmup_epochs),
    ):
        assert f"[default: {one:g}, with --qat {other:g}]" in text
    for one, other in ((varied.smallest_crop, plain.smallest_crop), (varied.colour, plain.colour)):
        assert f"[default: {one:g}; `quantkit finetune --qat`: {other:g}]" in text
    assert (varied.flip, plain.flip) == (True, False)
    assert "[default: flip; `quantkit finetune --qat`: no-flip]" in text
    for optimizer in ("sgd", "adam", "adamax"):
        config = TrainingConfig(optimizer=optimizer, batch_size=256)
        assert f"{config.peak_rate:g} for {optimizer}" in text
    assert usual.learning_rate is None and QUANTIZATION_AWARE.learning_rate is None


def test_a_folder_in_a_new_folder_can_be_written(run: Run, card: Path, photos: Path) -> None:
    result = tuned(run, card, photos, "--out", "runs/new/mine")
    assert result.exit_code == 0, result.stderr
    assert [path.name for path in Path("runs/new").iterdir()] == ["mine"]
    refused = tuned(run, card, photos, "--out", ".")
    assert refused.exit_code == 2 and "has no name of its own" in refused.stderr
    Path("other.checkpoint").mkdir()
    in_the_way = tuned(run, card, photos, "--out", "other")
    assert in_the_way.exit_code == 2 and "other.checkpoint is a folder" in in_the_way.stderr


def test_folders_of_classes_have_to_agree(run: Run, card: Path, photos: Path, tmp_path: Path) -> None:
    (tmp_path / "val" / "green").mkdir(parents=True)
    (tmp_path / "val" / "red").mkdir()
    for name in ("green", "red"):
        (tmp_path / "val" / name / "00.png").write_bytes((photos / name / "00.png").read_bytes())
    result = tuned(run, card, photos, "--val", tmp_path / "val")
    assert result.exit_code == 2 and "are not the same, such as 'blue'; their order gives the labels" in result.stderr
    named = tuned(run, card, photos, "--val", tmp_path / "val", "--labels", "x,y,z")
    assert named.exit_code == 2 and "their order gives the labels" in named.stderr
    other = tuned(run, card, photos, "--classes", 4)
    assert other.exit_code == 2 and "has 3 folders of classes, and classes (--classes) is 4" in other.stderr


def test_classes_get_the_names_that_are_given(run: Run, card: Path, photos: Path, tmp_path: Path) -> None:
    long = ["x" * 100, "y" * 100, "z" * 100]
    assert tuned(run, card, photos, "--labels", ",".join(long)).exit_code == 0
    assert all(name in Path("tiny-finetuned/card.toml").read_text() for name in long)
    (tmp_path / "names.txt").write_text("one\ntwo\nthree\n")
    assert tuned(run, card, photos, "--labels", tmp_path / "names.txt", "--force").exit_code == 0
    assert 'labels = ["one", "two", "three"]' in Path("tiny-finetuned/card.toml").read_text()
    missing = tuned(run, card, photos, "--labels", "nowhere.txt", "--force")
    assert missing.exit_code == 2 and "cannot read labels nowhere.txt" in missing.stderr
