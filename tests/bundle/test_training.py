"""The record of a training in a bundle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from quantkit.bundle import read_bundle, verify_bundle
from quantkit.bundle.file_names import TRAINING
from quantkit.bundle.quantized_model import QuantizedModel
from quantkit.errors import BundleError

RECORD = {"train": "größer", "config": {"epochs": 2}, "epochs": [{"loss": 0.1}, {"loss": 1e-300}]}


@pytest.fixture
def trained(quantized: QuantizedModel, tmp_path: Path) -> Path:
    return replace(quantized, training=RECORD).save(tmp_path / "trained")


def test_it_comes_back(trained: Path, quantized: QuantizedModel, tmp_path: Path) -> None:
    assert read_bundle(trained).training == RECORD
    other = read_bundle(quantized.save(tmp_path / "other"))
    assert other.training is None and TRAINING not in other.manifest.files


def test_it_is_verified_as_other_files_are(trained: Path) -> None:
    assert f"file {TRAINING}" in [check.name for check in verify_bundle(trained).checks if check.ok]
    (trained / TRAINING).write_text("{}")
    assert [check.name for check in verify_bundle(trained).checks if not check.ok] == [f"file {TRAINING}", "network"]


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"null", b"\xff", b'{"loss": NaN}', b'{"a": 1, "a": 2}', b"[" * 100_000]
)
def test_a_damaged_one_does_no_harm_until_it_is_read(
    trained: Path, resign: Callable[[Path], None], content: bytes
) -> None:
    (trained / TRAINING).write_bytes(content)
    resign(trained)
    bundle = read_bundle(trained)
    assert bundle.graph.nodes
    with pytest.raises(BundleError, match=r"training\.json cannot be used: [^\n]+$"):
        _ = bundle.training


def test_a_bundle_with_one_is_a_bundle_to_be_replaced(trained: Path, quantized: QuantizedModel) -> None:
    quantized.save(trained, force=True)
    assert not (trained / TRAINING).exists()
