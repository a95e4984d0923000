"""Text that people write, as editors on Windows save it: with a byte order mark."""

from __future__ import annotations

from codecs import BOM_UTF8
from pathlib import Path

import pytest

from quantkit.quantization.config import QuantizationConfig
from tests.loaders import LOADERS, Loader, placed

WRITTEN = (
    "symbol", "voc annotation", "coco annotations", "coco people", "labels.csv", "card", "card's labels", "table",
    "suite",
)  # fmt: skip


@pytest.mark.parametrize("loader", [each for each in LOADERS if each.name in WRITTEN], ids=lambda each: each.name)
def test_a_byte_order_mark_changes_nothing(loader: Loader, tmp_path: Path) -> None:
    wanted = loader.load(placed(loader, tmp_path, loader.sound()))
    assert loader.load(placed(loader, tmp_path, BOM_UTF8 + loader.sound())) == wanted


def test_every_kind_is_tried() -> None:
    assert {each.name for each in LOADERS} >= set(WRITTEN)


def test_a_configuration_may_have_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('preset = "fast"\n', encoding="utf-8-sig")
    marked = QuantizationConfig.read(path)
    path.write_text('preset = "fast"\n', encoding="utf-8")
    assert marked == QuantizationConfig.read(path) != QuantizationConfig()
