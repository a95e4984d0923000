"""Verifying bundles in engines, as the library does it: the command's tests hold what is printed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from quantkit.diagnosis.parity import verify
from quantkit.diagnosis.parity.verify import IMAGES, REFERENCE_IMAGES, NoMXNetWarning, verify_in_engines
from quantkit.errors import EngineError, EngineMissing
from tests.requirements import requires


def test_each_engine_is_compared_once_on_as_many_images_as_asked_for(digits_onnx: Path) -> None:
    requires("onnxruntime")
    told: list[str] = []
    verification = verify_in_engines(digits_onnx, ["onnxruntime", "onnxruntime"], "digits:test", 3, tell=told.append)
    (engine,) = verification.engines
    assert engine.images is not None
    assert (engine.images.images, engine.layers, engine.ok, verification.ok) == (3, None, True, True)
    assert verification.checks == verification.bundle.checks + engine.checks
    assert told == []


def test_the_reference_evaluator_gets_few_images(digits_onnx: Path) -> None:
    requires("onnxruntime")
    (engine,) = verify_in_engines(digits_onnx, ["reference"], "digits:test").engines
    assert engine.images is not None
    assert engine.images.images == REFERENCE_IMAGES < IMAGES


def test_a_damaged_bundle_is_run_in_no_engine(digits_onnx: Path, tmp_path: Path) -> None:
    bundle = Path(shutil.copytree(digits_onnx, tmp_path / "damaged"))
    (bundle / "model.onnx").write_bytes(b"another")
    verification = verify_in_engines(bundle, ["onnxruntime"])
    assert (verification.ok, verification.bundle.ok, verification.engine_checks, verification.engines) == (
        False,
        False,
        (),
        (),
    )


def test_an_engine_that_refuses_the_file_is_a_failed_check(digits_onnx: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> None:
        raise EngineError("cannot load the network")

    monkeypatch.setattr(verify, "engine_parity", refused)
    verification = verify_in_engines(digits_onnx, ["onnxruntime"], "digits:test", 3)
    (check,) = verification.engine_checks
    assert (check.name, check.ok, check.why) == ("onnxruntime", False, "cannot load the network")
    assert (verification.engines, verification.bundle.ok, verification.ok) == ((), True, False)


def test_without_mxnet_the_files_and_the_stored_sample_are_left(
    digits_onnx: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requires("onnxruntime")

    def missing(*_: Any) -> None:
        raise EngineMissing("no mxnet here")

    monkeypatch.setattr(verify, "verify_bundle", missing)
    with pytest.warns(NoMXNetWarning, match="there is no MXNet in this environment"):
        verification = verify_in_engines(digits_onnx, ["onnxruntime"], "digits:test", layers=True)
    (engine,) = verification.engines
    assert (engine.images, engine.layers, verification.ok) == (None, None, True)
