"""Who reads a bundle while others are put in its place reads one of them whole."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import numpy as np
import pytest

from quantkit import load
from quantkit.bundle import BUNDLE, write_float_bundle
from quantkit.bundle.replaced import reading_whole
from quantkit.errors import BundleError
from quantkit.folders import replacing
from quantkit.pipeline import FusedModel, QuantizedModel


def put(source: Path, target: Path) -> None:
    with replacing(target, True, BUNDLE) as new:
        shutil.copytree(source, new, dirs_exist_ok=True)


def test_a_predictor_is_of_one_bundle(digits_int8: QuantizedModel, digits_fused: FusedModel, tmp_path: Path) -> None:
    bundles = [digits_int8.save(tmp_path / "int8"), write_float_bundle(digits_fused, tmp_path / "fp32")]
    image = np.random.default_rng(0).normal(0, 1, (1, *digits_fused.model.input_shape)).astype(np.float32)
    expected = {load(each).manifest.kind: load(each).predict(image) for each in bundles}
    target, ended = tmp_path / "out", threading.Event()
    put(bundles[0], target)

    def replace_again_and_again() -> None:
        turn = 0
        while not ended.wait(0.03):
            turn += 1
            put(bundles[turn % 2], target)

    writer = threading.Thread(target=replace_again_and_again)
    writer.start()
    try:
        for _ in range(20):
            predictor = load(target)
            assert np.array_equal(predictor.predict(image), expected[predictor.manifest.kind])
    finally:
        ended.set()
        writer.join()


def test_errors_of_a_bundle_that_stays_are_raised_at_once(tmp_path: Path) -> None:
    reads = []

    def fail() -> None:
        reads.append(1)
        raise BundleError("damaged")

    with pytest.raises(BundleError, match="damaged"):
        reading_whole(tmp_path, fail)
    assert len(reads) == 1


def test_a_bundle_that_never_stays_is_given_up(tmp_path: Path) -> None:
    def replaced() -> None:
        with (tmp_path / "manifest.json").open("a") as file:
            file.write("x")

    with pytest.raises(BundleError, match="was replaced each time"):
        reading_whole(tmp_path, replaced)
