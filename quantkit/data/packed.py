"""Folders of RecordIO shards, as ``quantkit pack`` writes them: images with their labels and names."""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Literal, Optional

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from quantkit.data.object_store import StoredFolder, stored_folder
from quantkit.data.record import SHARD_LIST, content_at, sample_of
from quantkit.data.samples import Sample, Samples
from quantkit.data.shard_files import LocalFiles, ShardFiles
from quantkit.errors import DataError, SampleError
from quantkit.files.folders import Kind
from quantkit.files.schema import FirstFaultOnly, first_fault
from quantkit.files.text import MEBIBYTE, parse_json

_FILES = (f"shard-{5 * '[0-9]'}.{ending}" for ending in ("rec", "idx", "lst"))
PACKED = Kind("a folder of shards", SHARD_LIST, frozenset({SHARD_LIST, *_FILES}))
"""The folders that ``quantkit pack`` writes."""

_LARGEST_LIST = 64 * MEBIBYTE
_MOST_IMAGES = 2**24
_KEPT = 64

# Folders in object stores that stay open, with some 32 MiB of records each and their lists.
_OPEN = 4

# Bytes that a line of a shard's lists has, at least and at most: names are those of files.
_SHORTEST_LINE, _LONGEST_LINE = 4, 8192


class ShardEntry(BaseModel):
    """One shard: the stem of its files ``.rec``, ``.idx`` and ``.lst``, and how many images it has."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: Annotated[str, Field(pattern="^shard-[0-9]{5}$")]
    images: Annotated[int, Field(ge=1, le=_MOST_IMAGES)]


class ShardList(BaseModel):
    """The schema of ``shards.json``."""

    model_config = ConfigDict(extra="forbid", strict=True)

    format: Literal["quantkit-shards"] = "quantkit-shards"
    version: Literal[1] = 1
    shards: Annotated[list[ShardEntry], Field(min_length=1), FirstFaultOnly()]


@dataclass(frozen=True)
class _Index:
    """Where a shard's records begin, and the names of its images."""

    offsets: Sequence[int]
    names: tuple[str, ...]


def packed_folder(folder: Path) -> Samples:
    """The images of a local folder of shards; see ``packed_samples``."""
    return packed_samples(LocalFiles(folder))


def stored_samples(address: str) -> Samples:
    """The images of a folder of shards at the address of an object store; see ``packed_samples``.

    As long as no object changes, its lists are fetched once in a process.

    Raises:
        DataError, SamplesUnavailable, ExtraMissing: see ``stored_folder``.
    """
    folder = stored_folder(address, SHARD_LIST)
    return _stored(folder) if folder.stamps is None else _unchanged(folder)


def _stored(folder: StoredFolder) -> Samples:
    return replace(packed_samples(folder), address=folder.address if folder.shared else None)


_unchanged = lru_cache(_OPEN)(_stored)


def packed_samples(files: ShardFiles) -> Samples:
    """The images of a folder of shards, with their labels and names, in the order in which they were packed.

    Raises:
        DataError: a file is missing or damaged (images that are damaged show while iterating).
    """
    shards = _shards(files)
    ends = list(accumulate(shard.images for shard in shards))
    index = lru_cache(_KEPT)(lambda shard: _index(files, shards[shard]))

    def read(positions: Iterable[int]) -> Iterator[Sample]:
        for position in positions:
            number = bisect_right(ends, position)
            place = position - (ends[number - 1] if number else 0)
            known = index(number)
            end = known.offsets[place + 1] if place + 1 < len(known.offsets) else None
            name = known.names[place]
            record = _record(files, f"{shards[number].name}.rec", known.offsets[place], end, name)
            yield sample_of(record, name)

    return Samples(files.name, read, ends[-1], independent=True)


def _shards(files: ShardFiles) -> list[ShardEntry]:
    where = files.where(SHARD_LIST)
    try:
        shards = ShardList.model_validate(parse_json(files.content(SHARD_LIST, _LARGEST_LIST))).shards
        for number, shard in enumerate(shards):
            index = f"{shard.name}.idx"
            # What is not there is not counted on.
            if shard.name != f"shard-{number:05d}" or files.size(index) < _SHORTEST_LINE * shard.images:
                raise ValueError(f"{index} cannot list {shard.images} records, or is not next in order")
        return shards
    except ValidationError as error:
        place, what = first_fault(error)
        raise DataError(f"{where} is not valid at {place!r}: {what}; pack the images again") from error
    except (OSError, ValueError) as error:
        raise _unreadable(where, error) from error


def _index(files: ShardFiles, shard: ShardEntry) -> _Index:
    """What a shard's text files say.

    Raises:
        DataError: they cannot be read, or do not fit the list.
    """
    names = [f"{shard.name}{ending}" for ending in (".idx", ".lst")]
    where = files.where(names[0])
    try:
        texts = [files.content(name, _LONGEST_LINE * shard.images).decode("utf-8-sig") for name in names]
        lines = [text.count("\n") for text in texts]
        if lines != [shard.images] * 2:
            raise DataError(
                f"{where} lists {lines[0]} records and {names[1]} {lines[1]} names, where {SHARD_LIST} has "
                f"{shard.images} images; pack the images again"
            )
        offsets, rows = ([line.split("\t") for line in text.split("\n")[:-1]] for text in texts)
        return _Index(array("Q", (int(row[1]) for row in offsets)), tuple(row[2] for row in rows))
    except (OSError, ValueError, IndexError, OverflowError) as error:
        raise _unreadable(where, error) from error


def _record(files: ShardFiles, file_name: str, start: int, end: Optional[int], name: str) -> bytes:
    """The record of the sample called ``name``; it begins at ``start``, and should end at ``end``, or with its file."""
    try:
        with files.opened(file_name, start, end) as file:
            return content_at(file, start)
    except (ValueError, struct.error) as error:
        raise SampleError(_reason(files.where(file_name), error), name) from error
    except OSError as error:
        raise _unreadable(files.where(file_name), error) from error


def _unreadable(where: str, error: Exception) -> DataError:
    return DataError(_reason(where, error))


def _reason(where: str, error: Exception) -> str:
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return f"cannot read {where}: {reason}; pack the images again"
