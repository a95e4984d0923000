"""Packing a folder of images into RecordIO shards: network file systems serve few large files best."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Optional, Union

from quantkit.data.decode import decode
from quantkit.data.folder import Entry, folder_entries
from quantkit.data.packed import PACKED, ShardEntry, ShardList
from quantkit.data.prefetch import prefetched
from quantkit.data.preprocess import scaled_to_short_side
from quantkit.data.record import MOST_BYTES, SHARD_LIST, record_of
from quantkit.errors import DataError, UserError
from quantkit.files.files import as_text
from quantkit.files.folders import replacing
from quantkit.files.text import read_bytes
from quantkit.host.threads import worker_threads
from quantkit.kinds import whole_number
from quantkit.progress import Progress, silent

SHARD_SIZE = 1024
QUALITY = 95

# How files of JPEG and PNG begin, which MXNet's reader decodes too.
_AS_THEY_ARE = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n")

_MOST_SHARDS = 100_000

# Records hold labels as float32.
_LARGEST_LABEL = 2**24


@dataclass(frozen=True)
class Packing:
    """How images are packed.

    Attributes:
        resize: the short side in pixels to which images are scaled; None: JPEG and PNG files stay byte for byte, and
            others become JPEG.
        quality: of JPEG, from 1 to 100, where images are encoded anew.
        shard_size: images in a shard; the last may have fewer.
        workers: threads that decode and encode; None: one for each processor.
    """

    resize: Optional[int] = None
    quality: int = QUALITY
    shard_size: int = SHARD_SIZE
    workers: Optional[int] = None

    def __post_init__(self) -> None:
        """Refuse what no image can be packed with."""
        if self.resize is not None:
            whole_number("resize", self.resize, 1)
        whole_number("quality", self.quality, 1)
        if self.quality > 100:
            raise UserError(f"quality is {self.quality}; give a number from 1 to 100")
        whole_number("shard_size", self.shard_size, 1)
        if self.workers is not None:
            whole_number("workers", self.workers, 1)


@dataclass(frozen=True)
class Packed:
    """What was packed: the numbers of images, of labelled ones, of shards and of their bytes."""

    images: int
    labelled: int
    shards: int
    size: int


DEFAULT_PACKING = Packing()


def pack(
    folder: Union[str, Path],
    out: Union[str, Path],
    packing: Packing = DEFAULT_PACKING,
    force: bool = False,
    progress: Progress = silent,
) -> Packed:
    """Write the images of a folder as RecordIO shards, with their labels and names; each image is decoded once.

    Each shard has three files, as MXNet's im2rec writes them: the records (``.rec``), where each begins (``.idx``) and
    its label and name (``.lst``); ``shards.json`` lists the shards. The same images give the same bytes.

    Args:
        folder: a folder of images, or ``FOLDER:SPLIT`` for a split of its labels.csv.
        out: the folder to write, whole or not at all.
        packing: how.
        force: whether an older folder of shards is replaced.
        progress: wraps the images.

    Raises:
        DataError: there are no images, one cannot be read, or a label or name cannot be stored.
        UserError: ``out`` holds something, or lies in ``folder``; or there would be too many shards.
        QuantkitError: it cannot be written.
    """
    path, split = _folder(str(folder))
    entries = folder_entries(path, split)
    shards_needed = -(-len(entries) // packing.shard_size)
    if shards_needed > _MOST_SHARDS:
        raise UserError(f"{shards_needed} shards are more than {_MOST_SHARDS}; give a larger --shard-size")
    if Path(out).resolve().is_relative_to(path.resolve()):
        raise UserError(f"{out} lies in {path}, whose images are packed; choose another output directory")
    workers = worker_threads() if packing.workers is None else packing.workers
    with replacing(Path(out), force, PACKED) as new:
        images = prefetched(lambda entry: _file(path, entry, packing), entries, workers, 2 * workers)
        with closing(images):
            shown = iter(progress(images, len(entries), "packing"))
            shards = [
                _write_shard(new, number, islice(shown, packing.shard_size), entries, packing.shard_size)
                for number in range(shards_needed)
            ]
        (new / SHARD_LIST).write_text(ShardList(shards=shards).model_dump_json(indent=1) + "\n", encoding="utf-8")
        size = sum((new / f"{shard.name}.rec").stat().st_size for shard in shards)
    return Packed(len(entries), sum(label is not None for _, label in entries), len(shards), size)


def _folder(spec: str) -> tuple[Path, Optional[str]]:
    head, colon, split = spec.rpartition(":")
    whole = Path(spec)
    return (Path(head), split) if colon and not whole.is_dir() and Path(head).is_dir() else (whole, None)


def _file(folder: Path, entry: Entry, packing: Packing) -> bytes:
    """The content of an image file to store, after it was decoded."""
    name, label = entry
    if label is not None and label >= _LARGEST_LABEL:
        raise DataError(f"image {name} has label {label}, and records hold labels below {_LARGEST_LABEL}; renumber it")
    if len(name.splitlines()) > 1 or "\t" in name or as_text(name) != name:
        raise DataError(f"image {name!r} has a name that no line of a list can hold; rename it")
    try:
        content = read_bytes(folder / name, MOST_BYTES)
    except OSError as error:
        raise DataError(f"cannot read image {name}: {error.strerror or error}; replace it or leave it out") from error
    pixels = decode(io.BytesIO(content), name)
    if packing.resize is None and content.startswith(_AS_THEY_ARE):
        return content
    from PIL import Image

    if packing.resize is not None:
        pixels = scaled_to_short_side(pixels, packing.resize, name)
    with io.BytesIO() as stream:
        Image.fromarray(pixels).save(stream, "JPEG", quality=packing.quality)
        return stream.getvalue()


def _write_shard(folder: Path, number: int, images: Iterator[bytes], entries: list[Entry], size: int) -> ShardEntry:
    """Write the files of one shard."""
    name, first = f"shard-{number:05d}", number * size
    offset, offsets, rows = 0, [], []
    with (folder / f"{name}.rec").open("wb") as file:
        for place, image in enumerate(images, first):
            file_name, label = entries[place]
            record = record_of(image, label, place)
            offsets.append(f"{place}\t{offset}\n")
            rows.append(f"{place}\t{-1 if label is None else label}\t{file_name}\n")
            offset += file.write(record)
    (folder / f"{name}.idx").write_text("".join(offsets), encoding="utf-8")
    (folder / f"{name}.lst").write_text("".join(rows), encoding="utf-8")
    return ShardEntry(name=name, images=len(rows))
