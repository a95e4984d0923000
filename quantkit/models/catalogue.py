"""The catalogue of networks that can be given by name: the cards that ship, and the rest of GluonCV's zoo."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Optional

from quantkit.backends.mxnet.zoo import zoo_names
from quantkit.errors import EngineMissing, UserError
from quantkit.models.card import Accuracy, Card, cards
from quantkit.models.families import Task, family_of, fp32_name
from quantkit.models.zoo_accuracy import zoo_accuracy

_WILDCARDS = frozenset("*?[")


@dataclass(frozen=True)
class Entry:
    """A network by name.

    ``input_shape`` is without the batch. ``card`` is the one that ships for it; without one it is built and fed as its
    family is. ``accuracy`` is that of its trained weights, if it is known. ``quantized_as`` is the FP32 network
    that is quantized in its place if it is one of GluonCV's own INT8 networks; None for others.
    """

    name: str
    task: Task
    family: Optional[str]
    input_shape: tuple[int, ...]
    card: Optional[Card] = None
    accuracy: Optional[Accuracy] = None
    quantized_as: Optional[str] = None


def of_cards(shipped: Iterable[Card]) -> tuple[Entry, ...]:
    """The entries of cards."""
    return tuple(Entry(card.name, card.task, card.family, card.input_shape, card, card.accuracy) for card in shipped)


def catalogue() -> tuple[Entry, ...]:
    """The cards that ship, then the other networks of GluonCV's zoo; without GluonCV the cards alone."""
    shipped = of_cards(cards())
    names: tuple[str, ...] = ()
    with suppress(EngineMissing):
        names = zoo_names()
    others = sorted(set(names) - {entry.name for entry in shipped})
    families = ((name, family_of(name)) for name in others)
    return (
        *shipped,
        *(
            Entry(
                name,
                family.task,
                family.name,
                family.input_shape,
                accuracy=zoo_accuracy(name),
                quantized_as=fp32_name(name),
            )
            for name, family in families
            if family is not None
        ),
    )


def is_glob(pattern: str) -> bool:
    """Whether a pattern may match several names."""
    return not _WILDCARDS.isdisjoint(pattern)


def search(
    entries: Iterable[Entry], pattern: str = "*", task: Optional[str] = None, family: Optional[str] = None
) -> tuple[Entry, ...]:
    """The entries whose name or alias matches a glob, in any case, and whose task and family are those given.

    Raises:
        UserError: there are none; the message lists tasks and families.
    """
    known = tuple(entries)
    matching = tuple(
        entry
        for entry in known
        if _matches(entry, pattern.lower()) and task in (None, entry.task) and family in (None, entry.family)
    )
    if not matching:
        tasks = sorted({entry.task for entry in known})
        families = sorted({entry.family for entry in known if entry.family and task in (None, entry.task)})
        raise UserError(
            f"no network matches name {pattern!r}, task {task or 'any'} and family {family or 'any'}; tasks are "
            f"{', '.join(tasks)}; families {f'for {task} ' if families and task else ''}are "
            f"{', '.join(families) or 'none'}"
        )
    return matching


def _matches(entry: Entry, pattern: str) -> bool:
    names = (entry.name, *(entry.card.aliases if entry.card else ()))
    return any(fnmatchcase(name.lower(), pattern) for name in names)
