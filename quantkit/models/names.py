"""Networks by name without a shipped card: cards for those of GluonCV's zoo, and suggestions for unknown names."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Optional

from quantkit.backends.mxnet.zoo import ZooNetwork, zoo_names, zoo_network, zoo_source
from quantkit.errors import EngineMissing, ModelError
from quantkit.files.files import shipped
from quantkit.models.card import Card, WeightSource, cards, find_card
from quantkit.models.families import Family, family_of, fp32_name
from quantkit.models.zoo_accuracy import zoo_accuracy

_LABELS = {1000: "imagenet1k", 10: "cifar10"}


def zoo_card(name: str) -> Optional[Card]:
    """A card for any network of GluonCV's zoo, as its family has it; None for other names.

    One of GluonCV's own INT8 networks has the card of the FP32 network that it takes its weights from, with a note.

    Raises:
        ModelError: it is an INT8 network, and the zoo lacks the FP32 one.
    """
    name = name.lower()
    if name not in zoo_names():
        return None
    if (fp32 := fp32_name(name)) is not None:
        return _in_place_of(name, fp32)
    family = _family(name)
    network = built(name, family.input_shape)
    source = zoo_source(name)
    classified = family.task == "classification"
    return Card(
        name=name,
        folder=shipped("models"),
        network=name,
        task=family.task,
        family=family.name,
        box_corners=family.box_corners,
        input_shape=family.input_shape,
        classes=network.classes,
        preprocess=family.preprocess,
        labels=_LABELS.get(network.classes) if classified else network.labels or None,
        sources=(WeightSource("gluoncv", source[0], sha1=source[1]),) if source else (),
        accuracy=zoo_accuracy(name),
    )


def built(name: str, shape: tuple[int, ...], labels: Sequence[str] = ()) -> ZooNetwork:
    """Build a network by its name, without weights and without downloads.

    Args:
        name: of one of GluonCV's networks, or of quantkit's own.
        shape: of one input, without the batch.
        labels: the names of the classes, for networks without a data set of their own.

    Raises:
        EngineMissing: the network is one of GluonCV's, and gluoncv is not installed.
        ModelError: it is one of GluonCV's own INT8 networks, or does not accept the shape.
    """
    return zoo_network(name, shape, _family(name).options_at(name, shape, labels))


def nearest(name: str) -> list[str]:
    """Known names that resemble ``name``, the nearest first."""
    known = {known for card in cards() for known in (card.name, *card.aliases)}
    # Without GluonCV the cards are the only known names.
    with suppress(EngineMissing):
        known.update(zoo_names())
    return difflib.get_close_matches(name.lower(), sorted(known), n=4, cutoff=0.5)


def _family(name: str) -> Family:
    family = family_of(name)
    if family is None:
        raise ModelError(
            f"{name} is of no family of GluonCV's networks that quantkit knows; load it as a block: "
            f"load_model(gluoncv.model_zoo.get_model({name!r}), input_shape=...)"
        )
    if (fp32 := fp32_name(name)) is not None:
        raise ModelError(f"{name} is GluonCV's own INT8 network; give {fp32}, which quantkit quantizes")
    return family


def _in_place_of(name: str, fp32: str) -> Card:
    card = find_card(fp32) or zoo_card(fp32)
    if card is None:
        raise ModelError(
            f"{name} cannot be quantized: it is GluonCV's own INT8 network, and the zoo has no {fp32} to quantize in "
            "its place"
        )
    return replace(card, notes=(f"{name} is GluonCV's own INT8 network; quantkit quantizes {card.name}",))
