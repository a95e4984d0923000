"""Samples that were left out, since they cannot be read or used."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from typing import Any

import numpy as np

from quantkit.errors import DataError
from quantkit.units import counted

# The number of names that a message shows.
_FEW = 5


@dataclass(frozen=True)
class LeftOut:
    """A sample that was left out.

    Attributes:
        position: its place among all samples of its source, from 0.
        name: its name.
        reason: what is wrong with it.
    """

    position: int
    name: str
    reason: str


class LeftOutWarning(UserWarning):
    """Samples that cannot be read or used were left out, as was asked for; ``left_out`` are all of them."""

    def __init__(self, left_out: Sequence[LeftOut]) -> None:
        super().__init__(told(left_out))
        self.left_out = tuple(left_out)


class Tally:
    """Counts what is left out of one pass over samples, and notes it by its position."""

    def __init__(self, most: int, noted: dict[int, LeftOut]) -> None:
        self._most, self._noted = most, noted
        self._number = 0

    def add(self, one: LeftOut) -> None:
        """Leave one more out.

        Raises:
            DataError: as many as may be were left out before.
        """
        if self._number < self._most:
            self._number += 1
            self._noted[one.position] = one
            return
        if not self._most:
            raise DataError(one.reason)
        raise DataError(
            f"{one.reason}; {counted(self._most, 'sample')} before it {'was' if self._most == 1 else 'were'} left out, "
            "and no more may be (--skip-bad, skip_bad)"
        )


def in_order(noted: Mapping[int, LeftOut]) -> tuple[LeftOut, ...]:
    """What was noted, by ascending position."""
    return tuple(noted[position] for position in sorted(noted))


def none_left(name: str, noted: Mapping[int, LeftOut]) -> DataError:
    """The error where all samples of ``name`` that were read had to be left out."""
    first = in_order(noted)[0]
    return DataError(f"none of the samples of {name} that were read can be used; the first: {first.reason}")


def to_numbers(left_out: Iterable[LeftOut]) -> np.ndarray:
    """What was left out in a form that can be stored beside partial results: uint8, the bytes of a JSON text."""
    return np.frombuffer(json.dumps([astuple(each) for each in left_out]).encode(), np.uint8)


def from_numbers(numbers: np.ndarray) -> Iterator[LeftOut]:
    """What ``to_numbers`` was given."""
    return (LeftOut(*each) for each in json.loads(numbers.tobytes()))


def told(left_out: Sequence[LeftOut]) -> str:
    """What was left out in words: at least one sample."""
    number, few = len(left_out), ", ".join(each.name for each in left_out[:_FEW])
    more = f" and {number - _FEW} more" if number > _FEW else ""
    were = "was" if number == 1 else "were"
    return f"{counted(number, 'sample')} that cannot be read or used {were} left out: {few}{more}"


def documents(left_out: Iterable[LeftOut]) -> list[dict[str, Any]]:
    """What was left out as JSON values."""
    return [asdict(each) for each in left_out]


def warn_of(left_out: Sequence[LeftOut]) -> None:
    """Warn the caller of a public function of the samples that it has left out, if there are any."""
    if left_out:
        warnings.warn(LeftOutWarning(left_out), stacklevel=3)
