"""Contestants as they really run, each in a process of its own."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from quantkit.bundle import Bundle, read_bundle
from quantkit.deployment.instances import Instances
from quantkit.deployment.runtime import Runtime
from quantkit.deployment.streams import Streams
from quantkit.deployment.tuning import contestant
from quantkit.deployment.tuning.contestant import Contestant, Running
from quantkit.deployment.tuning.point import Load
from quantkit.errors import BundleError, DataError, InstanceError, UserError
from tests.requirements import requires

requires("onnx", "onnxruntime", "openvino")


@pytest.fixture(scope="module")
def with_onnx(digits_onnx: Path) -> Bundle:
    return read_bundle(digits_onnx)


@pytest.fixture
def photographs(tmp_path: Path) -> Path:
    """A folder of three image files."""
    for number in range(3):
        Image.fromarray(np.full((48, 40, 3), 80 * number, np.uint8)).save(tmp_path / f"{number}.png")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("mxnet", {}),
        ("mxnet", {"spread": Instances(1, batch=4, runtime=Runtime(blocktime=0))}),
        ("onnxruntime", {"spread": Streams(2, batch=4)}),
        ("mxnet", {"own": "default"}),
        ("onnxruntime", {"own": "default"}),
        ("openvino", {"own": "THROUGHPUT"}),
    ],
)
def test_what_is_measured(with_onnx: Bundle, name: str, form: dict[str, object]) -> None:
    with Running(Contestant(with_onnx, name, **form)) as running:  # type: ignore[arg-type]
        assert running.parallel >= 1 and running.memory() > 1 << 20
        assert running.measure(Load(1, 4, 100.0), 0.1).p99 > 0
        for load in (Load(1, 1), Load(3, 2)):
            point = running.measure(load, 0.1)
            assert point.load == load and point.rate > 0 and point.requests >= load.callers
            assert 0 < point.p50 <= point.p99
            # Callers wait for each answer, so that these follow from each other.
            assert point.requests * load.batch / point.rate < 10


@pytest.mark.parametrize("spread", [None, Instances(1, batch=4), Streams(2, batch=4)])
def test_image_files_are_decoded_again_and_again(with_onnx: Bundle, photographs: Path, spread: Any) -> None:
    with Running(Contestant(with_onnx, "onnxruntime", spread, images=photographs)) as running:
        for workers in (1, 3, 1):
            point = running.decode(workers, 0.2)
            # Each is a batch of more images than there are files.
            assert point.load.batch == 16 and point.rate > 0 and point.requests > 1
        (photographs / "0.png").write_text("damaged")
        with pytest.raises(DataError, match=r"0\.png"):
            running.decode(2, 0.2)
        assert running.measure(Load(1, 1), 0.1).rate > 0


def test_why_it_cannot_run_is_told(bundle: Bundle) -> None:
    with pytest.raises(UserError, match="runs ONNX files"):
        Running(Contestant(bundle, "openvino"))
    with pytest.raises(UserError, match="holds no ONNX file"):
        Running(Contestant(bundle, "onnxruntime", own="default"))


def test_a_bundle_that_was_replaced_is_refused(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {**contestant._settings(Contestant(bundle, "mxnet")), "sha256": "0" * 64}
    monkeypatch.setattr(contestant, "_settings", lambda _: settings)
    with pytest.raises(BundleError, match="was replaced while it was tuned"):
        Running(Contestant(bundle, "mxnet"))


def test_a_process_that_is_killed_is_told(with_onnx: Bundle) -> None:
    with Running(Contestant(with_onnx, "mxnet")) as running:
        os.kill(running._process.pid, signal.SIGKILL)
        with pytest.raises(InstanceError, match="MXNet, in one process was killed by SIGKILL"):
            running.measure(Load(1, 1), 0.1)
