"""Sample images in a RecordIO file (``.rec``), as MXNet's im2rec writes them."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import IO, Optional

from quantkit.data.decode import decode
from quantkit.data.samples import Sample, Samples, label_of
from quantkit.errors import DataError, SampleError
from quantkit.files.files import as_text
from quantkit.files.text import open_ordinary

_MAGIC = 0xCED7230A
_LENGTH_BITS = 29
_LENGTH_MASK = (1 << _LENGTH_BITS) - 1
_WHOLE, _FIRST, _MIDDLE, _LAST = range(4)
_PART_HEADER = struct.Struct("<II")
_IMAGE_HEADER = struct.Struct("<IfQQ")


SHARD_LIST = "shards.json"
"""The file that lists the RecordIO files of a folder, and makes it one of shards."""

NO_LABEL = -1.0
"""The label of images that have none."""

MOST_BYTES = _LENGTH_MASK - _IMAGE_HEADER.size
"""The most bytes that an image file in a record may have."""

MAGIC = struct.pack("<I", _MAGIC)


def record_of(image: bytes, label: Optional[int], number: int) -> bytes:
    """An image file as a record; see ``record_file`` for the format.

    Args:
        image: the file's content.
        label: the index of its class, below 2^24; None: it has none.
        number: its id.
    """
    content = _IMAGE_HEADER.pack(0, NO_LABEL if label is None else label, number, 0) + image
    parts, start = [], 0
    place = content.find(MAGIC)
    while place >= 0:
        # Readers look for the number at multiples of 4 alone.
        if place % 4 == 0:
            parts.append(content[start:place])
            start = place + len(MAGIC)
        place = content.find(MAGIC, place + (4 if place % 4 == 0 else 1))
    parts.append(content[start:])
    flags = [_WHOLE] if len(parts) == 1 else [_FIRST, *[_MIDDLE] * (len(parts) - 2), _LAST]
    return b"".join(
        _PART_HEADER.pack(_MAGIC, flag << _LENGTH_BITS | len(part)) + part + bytes(-len(part) % 4)
        for flag, part in zip(flags, parts)
    )


def is_packed(folder: Path) -> bool:
    """Whether a folder is one of shards."""
    return (folder / SHARD_LIST).is_file()


def record_file(path: Path) -> Samples:
    """The images in a RecordIO file, with their labels; no index file is needed.

    The format, after dmlc-core (recordio.h) and MXNet (image_recordio.h): a record is the number
    0xced7230a, a word with a flag in the upper 3 bits and the length in the lower 29, and that many
    bytes, padded to a multiple of 4. A record that contains the number itself is split there into parts
    flagged 1 (first), 2, 3 (last). An image record is a header with the number of labels, a label and two
    ids, the labels if their number is not zero, and an image file. With several labels, as for
    detection, there is no class index.

    Raises:
        DataError: the file cannot be read or is not a RecordIO file (undecodable images show while iterating).
    """
    with _opened(path) as file:
        records = _scan(file, path)
    if not records:
        raise DataError(f"{path} holds no records; write it again")

    def read(positions: Iterable[int]) -> Iterator[Sample]:
        with _opened(path) as file:
            for position in positions:
                yield sample_of(content_at(file, records[position]), f"record {position} of {path.name}")

    return Samples(as_text(path.name), read, len(records), independent=True)


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """Open the file at ``path``; a failure to read it becomes a ``DataError``."""
    try:
        with open_ordinary(path) as file:
            yield file
    except (OSError, struct.error) as error:
        raise DataError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error


def _scan(file: IO[bytes], path: Path) -> array[int]:
    """The offsets of the records, with every header checked."""
    end = file.seek(0, 2)
    records = array("Q")
    position, inside = 0, False
    while position < end:
        file.seek(position)
        header = file.read(_PART_HEADER.size)
        magic, word = _PART_HEADER.unpack(header) if len(header) == _PART_HEADER.size else (0, 0)
        flag, length = word >> _LENGTH_BITS, word & _LENGTH_MASK
        expected = (_MIDDLE, _LAST) if inside else (_WHOLE, _FIRST)
        if magic != _MAGIC or flag not in expected or position + len(header) + length > end:
            raise DataError(f"{path} is not a RecordIO file or is damaged at byte {position}; write it again")
        if not inside:
            records.append(position)
        inside = flag in (_FIRST, _MIDDLE)
        position += len(header) + (length + 3) // 4 * 4
    if inside:
        raise DataError(f"{path} ends inside a record; write it again")
    return records


def content_at(file: IO[bytes], start: int) -> bytes:
    """The bytes of the record at ``start``, joined from its parts.

    Raises:
        ValueError: no record begins there.
        struct.error: the file ends before the record does.
    """
    contents: list[bytes] = []
    flag = _FIRST
    file.seek(start)
    while flag in (_FIRST, _MIDDLE):
        magic, word = _PART_HEADER.unpack(file.read(_PART_HEADER.size))
        expected = (_MIDDLE, _LAST) if contents else (_WHOLE, _FIRST)
        if magic != _MAGIC or word >> _LENGTH_BITS not in expected:
            raise ValueError(f"no record begins at byte {start}")
        flag, length = word >> _LENGTH_BITS, word & _LENGTH_MASK
        contents.append(file.read(length))
        if len(contents[-1]) < length:
            raise ValueError(f"the record at byte {start} is cut off")
        file.seek(-length % 4, 1)
    return struct.pack("<I", _MAGIC).join(contents)


def sample_of(content: bytes, name: str) -> Sample:
    """The sample in an image record; without a label where that is -1.

    Raises:
        SampleError: it is damaged.
    """
    size = _IMAGE_HEADER.size
    if len(content) < size:
        raise SampleError(f"{name} is too short for an image record; write the file again", name)
    count, value, _, _ = _IMAGE_HEADER.unpack_from(content)
    start = size + 4 * count
    if len(content) < start:
        raise SampleError(f"{name} ends inside its {count} labels; write the file again", name)
    if count == 1:
        (value,) = struct.unpack_from("<f", content, size)
    try:
        label = None if count > 1 or value == NO_LABEL else label_of(value, name)
    except DataError as error:
        raise SampleError(str(error), name) from error
    return Sample(decode(BytesIO(content[start:]), name), label, name)
