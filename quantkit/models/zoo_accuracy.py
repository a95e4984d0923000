"""The accuracy of GluonCV's trained weights as its model zoo prints it, for networks that have no card."""

from __future__ import annotations

from functools import cache
from typing import Any, Optional

from quantkit.files.files import shipped
from quantkit.files.text import read_toml
from quantkit.models.card import Accuracy

ORIGIN = "GluonCV model zoo"


def zoo_accuracy(name: str) -> Optional[Accuracy]:
    """The figures of a network of the zoo; None where the zoo prints none for the weights that it has."""
    figures = _table().get(name)
    return None if figures is None else Accuracy(ORIGIN, **figures)


@cache
def _table() -> dict[str, Any]:
    return read_toml(shipped("models") / "zoo" / "accuracy.toml")
