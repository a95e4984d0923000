"""The samples that a training has left out, in all its epochs and instances."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from quantkit.data.left_out import LeftOut, from_numbers, in_order, to_numbers
from quantkit.training.communication import Communication, all_gather


class Unused(NamedTuple):
    """The samples that were left out, by position.

    Attributes:
        training: those of the training samples.
        validation: those of the validation samples.
    """

    training: tuple[LeftOut, ...] = ()
    validation: tuple[LeftOut, ...] = ()


def unused_by_all(communication: Communication, before: Unused, own: Unused) -> Unused:
    """What all instances have left out; each must call this.

    Args:
        communication: the instances.
        before: what they had left out earlier, the same on all.
        own: what this one has left out.
    """
    return Unused(*(_together(communication, *each) for each in zip(before, own)))


def _together(
    communication: Communication, before: tuple[LeftOut, ...], own: tuple[LeftOut, ...]
) -> tuple[LeftOut, ...]:
    noted = {each.position: each for each in before}
    new = [each for each in own if each.position not in noted]
    for told in all_gather(communication, to_numbers(new) if new else np.empty(0, np.uint8)):
        noted.update((each.position, each) for each in from_numbers(told))
    return in_order(noted)
