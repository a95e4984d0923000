"""The fields of an encoded protobuf message, one by one (https://protobuf.dev/programming-guides/encoding)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

NUMBER, DELIMITED, FOUR_BYTES = 0, 2, 5

_EIGHT_BYTES = 1
_SKIPPED = {_EIGHT_BYTES: 8, FOUR_BYTES: 4}
_LONGEST_NUMBER = 10
# Some readers drop the bits beyond, and so see another field than others do.
_LARGEST_KEY = (1 << 32) - 1


class Field(NamedTuple):
    """A field: its number, its wire type, its value if that is a number, and the offsets of its content."""

    number: int
    kind: int
    value: int
    first: int
    last: int


def fields(content: bytes, place: int, end: int) -> Iterator[Field]:
    """The fields of the message between two offsets.

    Raises:
        IndexError: the message is truncated.
        ValueError: it is not a message.
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
    """The varint at an offset (seven bits a byte, the lowest first), and the offset of its end.

    Raises:
        IndexError: it is truncated.
        ValueError: it is longer than any 64-bit number.
    """
    number = content[place]
    if number < 128:
        return number, place + 1
    number &= 127
    for index in range(1, _LONGEST_NUMBER):
        byte = content[place + index]
        number |= (byte & 127) << 7 * index
        if byte < 128:
            return number, place + index + 1
    raise ValueError(f"a number has more than {_LONGEST_NUMBER} bytes")
