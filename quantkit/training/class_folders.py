"""Folders of classes: their names are the labels of what is learned."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Optional

from quantkit.data.folder import class_names
from quantkit.errors import UserError
from quantkit.models.dataset import CalibrationData


def folder_labels(
    train: CalibrationData, validation: Optional[CalibrationData], classes: Optional[int], own: int
) -> tuple[str, ...]:
    """The names of the classes of which each has a folder; empty if samples lie elsewhere, or a network keeps its own.

    Args:
        train: the training samples.
        validation: the validation samples.
        classes: how many classes a network gets; None: it keeps its own.
        own: how many it has.

    Raises:
        UserError: the folders of both are not the same, or not as many as the classes.
    """
    names, others = _names(train), _names(validation)
    if names and others and names != others:
        odd = sorted({*names} ^ {*others}) or [names[0]]
        raise UserError(
            f"the folders of classes in {train} and {validation} are not the same, such as {odd[0]!r}; their order "
            "gives the labels: make them alike"
        )
    if names and len(names) != (classes or own):
        number = len(names)
        if classes is None:
            raise UserError(
                f"{train} has {number} folders of classes, and the network {own} classes; give --classes {number} "
                f"(classes={number}), with which it gets a new last layer"
            )
        raise UserError(f"{train} has {number} folders of classes, and classes (--classes) is {classes}; correct one")
    return names if classes else ()


def check_order(data: Optional[CalibrationData], labels: Sequence[str]) -> None:
    """Make sure that folders of classes do not permute a network's labels: folders are numbered by sorted names.

    Raises:
        UserError: they do.
    """
    names = _names(data)
    if names != tuple(labels) and sorted(names) == sorted(labels):
        place = next(place for place, name in enumerate(names) if name != labels[place])
        raise UserError(
            f"the folders of classes in {data} have the names of the labels in another order: {names[place]!r} would "
            f"be class {place}, and is class {[*labels].index(names[place])} of the labels; list the images with the "
            "classes of the labels in a labels.csv there"
        )


def _names(data: Optional[CalibrationData]) -> tuple[str, ...]:
    return class_names(str(data)) if isinstance(data, (str, Path)) else ()
