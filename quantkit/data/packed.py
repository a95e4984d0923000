"""Folders of RecordIO shards, as ``quantkit pack`` writes them: images with their labels and names."""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from quantkit.data.record import SHARD_LIST, content_at, sample_of
from quantkit.data.samples import Sample, Samples
from quantkit.errors import DataError, SampleError
from quantkit.files.files import as_text
from quantkit.files.folders import Kind
from quantkit.files.schema import FirstFaultOnly, first_fault
from quantkit.files.text import MEBIBYTE, open_ordinary, parse_json, read_bytes, read_text

_FILES = (f"shard-{5 * '[0-9]'}.{ending}" for ending in ("rec", "idx", "lst"))
PACKED = Kind("a folder of shards", SHARD_LIST, frozenset({SHARD_LIST, *_FILES}))
"""The folders that ``quantkit pack`` writes."""

_LARGEST_LIST = 64 * MEBIBYTE
_MOST_IMAGES = 2**24
_KEPT = 64

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
    """The images of a folder of shards, with their labels and names, in the order in which they were packed.

    Raises:
        DataError: a file is missing or damaged (images that are damaged show while iterating).
    """
    shards = _shards(folder)
    ends = list(accumulate(shard.images for shard in shards))
    index = lru_cache(_KEPT)(lambda shard: _index(folder, shards[shard]))

    def read(positions: Iterable[int]) -> Iterator[Sample]:
        for position in positions:
            number = bisect_right(ends, position)
            place = position - (ends[number - 1] if number else 0)
            known = index(number)
            path = folder / f"{shards[number].name}.rec"
            name = known.names[place]
            yield sample_of(_record(path, known.offsets[place], name), name)

    return Samples(as_text(folder.resolve().name), read, ends[-1], independent=True)


def _shards(folder: Path) -> list[ShardEntry]:
    path = folder / SHARD_LIST
    try:
        shards = ShardList.model_validate(parse_json(read_bytes(path, _LARGEST_LIST))).shards
        for number, shard in enumerate(shards):
            index = folder / f"{shard.name}.idx"
            # What is not there is not counted on.
            if shard.name != f"shard-{number:05d}" or index.stat().st_size < _SHORTEST_LINE * shard.images:
                raise ValueError(f"{index.name} cannot list {shard.images} records, or is not next in order")
        return shards
    except ValidationError as error:
        where, what = first_fault(error)
        raise DataError(f"{path} is not valid at {where!r}: {what}; pack the images again") from error
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error


def _index(folder: Path, shard: ShardEntry) -> _Index:
    """What a shard's text files say.

    Raises:
        DataError: they cannot be read, or do not fit the list.
    """
    paths = [folder / f"{shard.name}{ending}" for ending in (".idx", ".lst")]
    try:
        texts = [read_text(path, _LONGEST_LINE * shard.images) for path in paths]
        lines = [text.count("\n") for text in texts]
        if lines != [shard.images] * 2:
            raise DataError(
                f"{paths[0]} lists {lines[0]} records and {paths[1].name} {lines[1]} names, where {SHARD_LIST} has "
                f"{shard.images} images; pack the images again"
            )
        offsets, rows = ([line.split("\t") for line in text.split("\n")[:-1]] for text in texts)
        return _Index(array("Q", (int(row[1]) for row in offsets)), tuple(row[2] for row in rows))
    except (OSError, ValueError, IndexError, OverflowError) as error:
        raise _unreadable(paths[0], error) from error


def _record(path: Path, offset: int, name: str) -> bytes:
    try:
        with open_ordinary(path) as file:
            return content_at(file, offset)
    except (ValueError, struct.error) as error:
        raise SampleError(_reason(path, error), name) from error
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> DataError:
    return DataError(_reason(path, error))


def _reason(path: Path, error: Exception) -> str:
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return f"cannot read {path}: {reason}; pack the images again"
