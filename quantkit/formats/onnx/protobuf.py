"""The fields of a protobuf message, one by one, as its bytes have them (https://protobuf.dev/programming-guides/encoding)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

NUMBER, DELIMITED, FOUR_BYTES = 0, 2, 5

_EIGHT_BYTES = 1
_SKIPPED = {_EIGHT_BYTES: 8, FOUR_BYTES: 4}
_LONGEST_NUMBER = 10
# Some readers drop what is beyond, and so find another field than others do.
_LARGEST_KEY = (1 << 32) - 1


class Field(NamedTuple):
    """A field: its number, how it is encoded, its value where that is a number, and where its content lies."""

    number: int
    kind: int
    value: int
    first: int
    last: int


def fields(content: bytes, place: int, end: int) -> Iterator[Field]:
    """The fields of the message between two places.

    Raises:
        IndexError: the message breaks off.
        ValueError: it is none.
    """
    while place < end:
        key, first = read_number(content, place)
        kind = key & 7
        if not 8 <= key <= _LARGEST_KEY:
            raise ValueError(f"it has a field with the key {key}")
        value = 0
        if kind == NUMBER:
            value, place = read_number(content, first)
        elif kind == DELIMITED:
            length, first = read_number(content, first)
            place = first + length
        elif kind in _SKIPPED:
            place = first + _SKIPPED[kind]
        else:
            raise ValueError(f"it has a field of kind {kind}")
        if place > end:
            raise ValueError("a field is longer than what it lies in")
        yield Field(key >> 3, kind, value, first, place)


def read_number(content: bytes, place: int) -> tuple[int, int]:
    """The number of seven bits a byte, the lowest first, that begins at a place, and where it ends.

    Raises:
        IndexError: it breaks off.
        ValueError: it does not end.
    """
    found = content[place]
    if found < 128:
        return found, place + 1
    found &= 127
    for index in range(1, _LONGEST_NUMBER):
        byte = content[place + index]
        found |= (byte & 127) << 7 * index
        if byte < 128:
            return found, place + index + 1
    raise ValueError(f"a number has more than {_LONGEST_NUMBER} bytes")
