"""How long idle threads of OpenMP look for work."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from quantkit.errors import DataError
from quantkit.training.spinning import spin_briefly
from tests.cli.conftest import start


def folder(path: Path, side: int) -> Path:
    for name in ("red", "blue"):
        (path / name).mkdir(parents=True)
        Image.fromarray(np.zeros((side, 128, 3), np.uint8)).save(path / name / "a.png")
    return path


@pytest.mark.parametrize("own", [{"GOMP_SPINCOUNT": "7"}, {"OMP_WAIT_POLICY": "active"}])
def test_what_users_have_decided_stands(own: dict[str, str], tmp_path: Path) -> None:
    environment = dict(own)
    spin_briefly(folder(tmp_path / "photos", 128), environment)
    assert environment == own


def test_arrays_and_small_images_need_no_cores(tmp_path: Path) -> None:
    environment: dict[str, str] = {}
    spin_briefly(np.zeros((2, 256, 256, 3), np.uint8), environment)
    spin_briefly(folder(tmp_path / "small", 127), environment)
    damaged = folder(tmp_path / "damaged", 128)
    for path in damaged.glob("*/*.png"):
        path.write_bytes(b"no image")
    spin_briefly(damaged, environment)
    assert not environment
    with pytest.raises(DataError, match="there is no sample data"):
        spin_briefly(tmp_path / "nothing", environment)


def test_it_is_decided_before_the_library_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what libgomp itself says, with a network of GluonCV, which loads MXNet before the training begins."""
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    options = ("--weights", "random", "--train", folder(tmp_path / "photos", 128), "--classes", 3)
    process = start(tmp_path, "finetune", "cifar_resnet20_v1", *options, OMP_DISPLAY_ENV="verbose")
    told = process.communicate(timeout=120)[1]
    assert process.returncode == 2 and "GOMP_SPINCOUNT = '10000'" in told, told
