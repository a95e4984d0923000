"""Names of classes."""

from __future__ import annotations

from quantkit.backends.mxnet.gluon import imagenet_names
from quantkit.errors import ModelError
from quantkit.files.text import read_text
from quantkit.models.card import Card

CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


NAMED = frozenset({"imagenet1k", "cifar10"})
"""The sets of labels that a card may name, instead of a file or the labels themselves."""


def label_names(card: Card) -> tuple[str, ...]:
    """The names of a card's classes in the order of the network's outputs; empty if the card has none.

    Raises:
        ModelError: the file of names cannot be read, lies outside the card's folder, or does not have one name per
            class.
    """
    if card.labels is None:
        return ()
    names = card.labels if isinstance(card.labels, tuple) else _named_set(card, card.labels)
    if len(names) != card.classes:
        raise ModelError(
            f"model card {card.name!r} has {card.classes} classes but {len(names)} labels; correct one of them"
        )
    return names


def _named_set(card: Card, labels: str) -> tuple[str, ...]:
    if labels == "imagenet1k":
        return imagenet_names()
    if labels == "cifar10":
        return CIFAR10
    path = card.file(labels)
    try:
        return tuple(read_text(path).splitlines())
    except (OSError, ValueError) as error:
        raise ModelError(
            f"model card {card.name!r}: cannot read labels {path}: {error}; "
            "give imagenet1k, cifar10, or a text file with one name a line"
        ) from error
