from __future__ import annotations

from dataclasses import asdict

import pytest

from quantkit.backends.mxnet.zoo import zoo_names
from quantkit.files.files import shipped
from quantkit.files.text import read_toml
from quantkit.models.card import find_card
from quantkit.models.card_schema import AccuracyTable
from quantkit.models.catalogue import catalogue
from quantkit.models.families import family_of
from quantkit.models.names import zoo_card
from quantkit.models.zoo_accuracy import ORIGIN, zoo_accuracy

TABLE = read_toml(shipped("models") / "zoo" / "accuracy.toml")
METRICS = {
    "classification": {"top1", "top5"},
    "action": {"top1"},
    "detection": {"map", "ap"},
    "segmentation": {"miou"},
    "pose": {"ap"},
}


def test_figures_are_of_networks_of_the_zoo_that_have_no_card(engine: None) -> None:
    assert TABLE.keys() <= set(zoo_names())
    assert not [name for name in TABLE if find_card(name) is not None]


def test_figures_are_those_of_the_task() -> None:
    for name, figures in TABLE.items():
        AccuracyTable(**figures, origin=ORIGIN)
        family = family_of(name)
        assert family is not None
        assert figures.keys() <= METRICS[family.task], name


@pytest.mark.parametrize(
    ("name", "figures"),
    [
        ("resnet50_v1c", {"top1": 78.03, "top5": 94.09}),
        ("ssd_512_resnet50_v1_voc", {"map": 80.1}),
        ("yolo3_darknet53_coco", {"ap": 36.0}),
        ("deeplab_resnet101_voc", {"miou": 86.2}),
    ],
)
def test_cards_and_catalogue_tell_them(engine: None, name: str, figures: dict[str, float]) -> None:
    card = zoo_card(name)
    assert card is not None and card.accuracy is not None
    assert {key: value for key, value in asdict(card.accuracy).items() if value is not None} == {
        **figures,
        "origin": ORIGIN,
    }
    (entry,) = (each for each in catalogue() if each.name == name)
    assert entry.accuracy == card.accuracy


def test_others_have_none() -> None:
    assert zoo_accuracy("mobilenetv3_small") is None
