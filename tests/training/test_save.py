"""Trained networks as folders."""

from __future__ import annotations

import hashlib
import json
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from quantkit.bundle.card import card_text
from quantkit.errors import UserError
from quantkit.models.model import Source
from quantkit.training.config import TrainingConfig
from quantkit.training.epoch import Epoch
from quantkit.training.finetune import FineTuned
from quantkit.training.network_files import CARD, PARAMS, SYMBOL
from quantkit.training.save import RECORD, save_trained
from quantkit.training.validation import Validated
from tests.training.conftest import CLASSES, tiny


def trained() -> FineTuned:
    epochs = [
        Epoch(1, 1.5, 0.1, 2.0, 100, 0.5, Validated(60, 45, 0.7)),
        Epoch(2, 1.2, 0.05, 2.0, 100, 0.0, Validated(60, 30, 0.9)),
    ]
    source = Source("resnet18", "file", "old.params", "ab" * 32)
    return FineTuned(tiny(), TrainingConfig(epochs=3), epochs, 1, CLASSES, "base", source, ("photographs", "others"))


def test_the_record_says_how_it_was_trained(tmp_path: Path) -> None:
    assert save_trained(trained(), tmp_path / "new" / "net", "mine") == tmp_path / "new" / "net" / CARD
    folder = tmp_path / "new" / "net"
    assert {path.name for path in folder.iterdir()} == {SYMBOL, PARAMS, CARD, RECORD}
    record = json.loads((folder / RECORD).read_text())
    assert (record["base"], record["train"], record["validation"]) == ("base", "photographs", "others")
    assert record["base_source"] == {
        "network": "resnet18", "weights": "file", "location": "old.params", "sha256": "ab" * 32,
    }  # fmt: skip
    assert (record["best_epoch"], record["stopped_early"], record["config"]["epochs"]) == (1, True, 3)
    assert [epoch["images_per_second"] for epoch in record["epochs"]] == [50.0, 50.0]
    assert [epoch["waiting"] for epoch in record["epochs"]] == [0.25, 0.0]
    assert record["sha256"] == hashlib.sha256((folder / PARAMS).read_bytes()).hexdigest()


def test_the_card_has_the_accuracy_of_the_best_epoch(tmp_path: Path) -> None:
    card = tomllib.loads(save_trained(trained(), tmp_path / "net", "mine").read_text())
    assert card["accuracy"]["top1"] == 75.0
    assert "60 validation samples of others" in card["accuracy"]["origin"]
    unjudged = replace(trained(), epochs=[Epoch(1, 1.5, 0.1, 2.0, 100, 0.5, None)], data=("photographs", None))
    assert "accuracy" not in tomllib.loads(save_trained(unjudged, tmp_path / "other", "mine").read_text())


def test_only_a_trained_network_is_replaced_and_only_if_asked(tmp_path: Path) -> None:
    folder = tmp_path / "net"
    save_trained(trained(), folder, "first")
    with pytest.raises(UserError, match="--force"):
        save_trained(trained(), folder, "second")
    assert tomllib.loads((folder / CARD).read_text())["name"] == "first"
    assert tomllib.loads(save_trained(trained(), folder, "second", force=True).read_text())["name"] == "second"
    (tmp_path / "photographs").mkdir()
    (tmp_path / "photographs" / "holiday.jpg").touch()
    with pytest.raises(UserError):
        save_trained(trained(), tmp_path / "photographs", "mine", force=True)
    assert (tmp_path / "photographs" / "holiday.jpg").exists()


def test_the_card_has_all_that_a_bundles_card_has_of_a_network(tmp_path: Path) -> None:
    whole = replace(tiny(), exclude=("dense",), labels=("a", "b", "c"), task="pose")
    card = tomllib.loads(save_trained(replace(trained(), model=whole), tmp_path / "net", "mine").read_text())
    stored = tomllib.loads(card_text(whole, CLASSES))
    names = {"name", "symbol", "params", "labels"}
    assert card["labels"] == ["a", "b", "c"] and card["task"] == "pose" and card["exclude"] == ["dense"]
    assert {key: card[key] for key in stored.keys() - names} == {key: stored[key] for key in stored.keys() - names}
