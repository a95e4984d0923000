"""Cards for GluonCV's classifiers without a shipped one, and suggestions for unknown names."""

from __future__ import annotations

import difflib
import warnings
from contextlib import suppress
from typing import Optional

from quantkit.backends.mxnet.gluon import zoo_names, zoo_network, zoo_sha1
from quantkit.data.preprocess import Preprocess
from quantkit.errors import EngineMissing
from quantkit.files.files import shipped
from quantkit.models.card import Card, WeightSource, cards

IMAGENET = Preprocess(resize=256, crop=224, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
CIFAR = Preprocess(resize=32, crop=32, mean=(0.4914, 0.4822, 0.4465), std=(0.2023, 0.1994, 0.2010))


class AssumedPreprocessWarning(UserWarning):
    """A network has no card: GluonCV's usual input and preprocessing are assumed."""


def zoo_card(name: str) -> Optional[Card]:
    """A card with GluonCV's usual input and preprocessing, for any of its classifiers; None for other names."""
    return _assumed_card(name.lower()) if name.lower() in zoo_names() else None


def nearest(name: str) -> list[str]:
    """Known names that resemble ``name``, the nearest first."""
    known = {known for card in cards() for known in (card.name, *card.aliases)}
    # Without GluonCV the cards are the only known names.
    with suppress(EngineMissing):
        known.update(zoo_names())
    return difflib.get_close_matches(name.lower(), sorted(known), n=4, cutoff=0.5)


def _assumed_card(name: str) -> Card:
    small = name.startswith("cifar")
    shape = (3, 32, 32) if small else (3, 224, 224)
    checksum = zoo_sha1(name)
    warnings.warn(
        f"{name} has no model card: input {shape} and GluonCV's usual preprocessing are assumed; "
        "write a card if it needs others",
        AssumedPreprocessWarning,
        stacklevel=2,
    )
    classes = zoo_network(name, shape).classes
    sources = (WeightSource("gluoncv", f"{name}-{checksum[:8]}", sha1=checksum),) if checksum else ()
    return Card(
        name=name,
        folder=shipped("models"),
        network=name,
        input_shape=shape,
        classes=classes,
        preprocess=CIFAR if small else IMAGENET,
        labels={1000: "imagenet1k", 10: "cifar10"}.get(classes),
        sources=sources,
    )
