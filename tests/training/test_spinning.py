"""How long idle threads of OpenMP look for work."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Optional

import numpy as np
import pytest
from PIL import Image

from quantkit.errors import DataError
from quantkit.training import spinning
from quantkit.training.spinning import load_for_training
from tests.cli.conftest import start

BRIEFLY = ("--classes", 2, "--batch-size", 2, "--epochs", 1)

Found = list[Optional[str]]


@pytest.fixture
def undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch, undecided: None) -> Found:
    """What MXNet finds in the environment each time it is loaded; it seems not to be loaded yet."""
    readings: Found = []
    monkeypatch.setattr(spinning, "load_mxnet", lambda: readings.append(os.environ.get("GOMP_SPINCOUNT")))
    monkeypatch.delitem(sys.modules, "mxnet", raising=False)
    return readings


def folder(path: Path, side: int) -> Path:
    for name in ("blue", "red"):
        (path / name).mkdir(parents=True)
        Image.fromarray(np.zeros((side, 128, 3), np.uint8)).save(path / name / "a.png")
    return path


def test_only_the_library_finds_it(found: Found, tmp_path: Path) -> None:
    load_for_training(folder(tmp_path / "photos", 128))
    assert found == ["10000"] and "GOMP_SPINCOUNT" not in os.environ


@pytest.mark.parametrize("own", [("GOMP_SPINCOUNT", "7"), ("OMP_WAIT_POLICY", "active")])
def test_what_users_have_decided_stands(
    own: tuple[str, str], found: Found, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(*own)
    load_for_training(folder(tmp_path / "photos", 128))
    assert not found and os.environ[own[0]] == own[1]


def test_it_cannot_be_decided_any_more(found: Found, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mxnet", Any)
    load_for_training(folder(tmp_path / "photos", 128))
    assert not found


def test_arrays_and_small_images_need_no_cores(found: Found, tmp_path: Path) -> None:
    load_for_training(np.zeros((2, 256, 256, 3), np.uint8))
    load_for_training(folder(tmp_path / "small", 127))
    assert not found


def test_the_first_image_that_can_be_read_decides(found: Found, tmp_path: Path) -> None:
    photos = folder(tmp_path / "photos", 128)
    (photos / "blue" / "a.png").write_bytes(b"no image")
    load_for_training(photos)
    assert found == ["10000"]
    (photos / "red" / "a.png").write_bytes(b"no image")
    load_for_training(photos)
    assert len(found) == 1
    with pytest.raises(DataError, match="there is no sample data"):
        load_for_training(tmp_path / "nothing")


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("command", "ends_well", "processes"),
    [
        (("finetune", "cifar_resnet20_v1", "--train", "photos", "--classes", 3), False, 1),
        (("finetune", "b", "--qat", "--reference", "cifar_resnet20_v1", "--train", "photos"), False, 1),
        (("feed", "cifar_resnet20_v1", "--data", "photos", "--training", "--batch", 3), False, 1),
        (
            ("finetune", "cifar_resnet20_v1", "--train", "photos", *BRIEFLY, "--instances", 1),
            True,
            2,
        ),
    ],
)
def test_it_is_decided_before_the_library_is_loaded(
    command: tuple[Any, ...], ends_well: bool, processes: int, undecided: None, tmp_path: Path
) -> None:
    """By what libgomp itself says, with a network of GluonCV, which loads MXNet before the training begins."""
    folder(tmp_path / "photos", 128)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "manifest.json").touch()
    process = start(tmp_path, *command, "--weights", "random", OMP_DISPLAY_ENV="verbose")
    told = process.communicate()[1]
    assert (process.returncode == 0) == ends_well, told
    assert told.count("GOMP_SPINCOUNT = '10000'") == told.count("GOMP_SPINCOUNT") == processes, told
