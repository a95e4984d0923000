"""Tests in turns: each of N runs has its share of them, and all runs together have them all."""

from __future__ import annotations

import re
import zlib
from argparse import ArgumentTypeError
from typing import NamedTuple


class Turn(NamedTuple):
    """The ``own`` one of ``number`` runs, from 1."""

    own: int
    number: int

    def has(self, name: str) -> bool:
        """Whether the test, or the file, of that name is in this run's share; further ones move no other."""
        return zlib.crc32(name.encode()) % self.number == self.own - 1


def turn_of(text: str) -> Turn:
    """The turn that ``K/N`` says.

    Raises:
        ArgumentTypeError: there is no such turn.
    """
    found = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", text)
    if found is None or int(found[1]) > int(found[2]):
        raise ArgumentTypeError(f"there is no turn {text!r}; give K/N, such as 2/3")
    return Turn(int(found[1]), int(found[2]))
