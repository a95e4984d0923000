"""The catalogue: every name once, and what a search of it gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from quantkit.backends.mxnet.zoo import zoo_names
from quantkit.errors import EngineMissing, UserError
from quantkit.models import catalogue as module
from quantkit.models.card import Card, cards
from quantkit.models.catalogue import Entry, catalogue, is_glob, of_cards, search

CARD = Card("ResNet50", Path(), (3, 8, 8), 2, aliases=("r50",))
RESNET = Entry("ResNet50", "classification", "resnet", (3, 8, 8), CARD)
SSD = Entry("ssd_512_resnet50", "detection", "ssd", (3, 512, 512))
YOLO = Entry("yolo3", "detection", "yolo3", (3, 416, 416))
KNOWN = (RESNET, SSD, YOLO)


@pytest.mark.parametrize(
    ("pattern", "task", "family", "found"),
    [
        ("*", None, None, KNOWN),
        ("*resnet50", None, None, (RESNET, SSD)),
        ("R5?", None, None, (RESNET,)),
        ("*", "detection", None, (SSD, YOLO)),
        ("*", "detection", "ssd", (SSD,)),
        ("*", None, "resnet", (RESNET,)),
        ("y*", "detection", None, (YOLO,)),
    ],
)
def test_search(pattern: str, task: str | None, family: str | None, found: tuple[Entry, ...]) -> None:
    assert search(KNOWN, pattern, task, family) == found


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("x*",), r"name 'x\*', task any and family any; tasks are classification, detection; families are res"),
        (("*", "detection", "resnet"), "families for detection are ssd, yolo3"),
        (("*", "flying"), "task flying and family any; tasks are classification, detection; families are none"),
    ],
)
def test_nothing_matches(arguments: tuple[str, ...], told: str) -> None:
    with pytest.raises(UserError, match=told):
        search(KNOWN, *arguments)


def test_every_card_and_every_network_of_the_zoo_once(engine: None) -> None:
    names = [entry.name for entry in catalogue()]
    assert len(names) == len(set(names))
    assert set(names) == {card.name for card in cards()} | set(zoo_names())


def test_int8_networks_of_gluoncv_name_the_network_that_is_quantized(engine: None) -> None:
    named = {entry.name: entry.quantized_as for entry in catalogue()}
    assert named["ssd_512_vgg16_atrous_voc_int8"] == "ssd_512_vgg16_atrous_voc"
    assert {name for name, quantized_as in named.items() if quantized_as} == {
        name for name in zoo_names() if name.endswith("_int8")
    }


def test_without_gluoncv_the_cards_remain(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> tuple[str, ...]:
        raise EngineMissing("no gluoncv")

    monkeypatch.setattr(module, "zoo_names", missing)
    assert catalogue() == of_cards(cards())


def test_globs() -> None:
    assert is_glob("ssd_*") and is_glob("r5?") and is_glob("[rs]50")
    assert not is_glob("resnet50_v1d_0.86")
