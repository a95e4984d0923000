"""Sample images in a folder."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Optional

from quantkit.data.decode import decode
from quantkit.data.samples import Sample, Samples, label_of
from quantkit.errors import DataError
from quantkit.files.files import as_text
from quantkit.files.text import read_text

SUFFIXES = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"})
"""The suffixes, in lower case, of the files that count as images."""

# Bytes; some four million lines.
_LONGEST_TABLE = 2**28

# Characters of a name, and the number of names, that a message shows.
_SHOWN, _FEW = 100, 8

Entry = tuple[str, Optional[int]]


def images_folder(path: Path, split: str | None = None) -> Samples:
    """The images in the folder ``path``, in the order of their names.

    Labels come from ``labels.csv``, which lists the images to use (columns ``file``, relative to the folder
    or to its ``images`` subfolder, ``label``, and optionally ``split``), or from one subfolder per class:
    its name if all names are numbers, else the position of its name in sorted order. A
    flat folder has none. ``split`` selects the images of that split of ``labels.csv``. Links to files are followed;
    ``labels.csv`` cannot name files outside the folder.

    Raises:
        DataError: there are no images, there is no such split, or the contents are ambiguous.
    """
    entries = folder_entries(path, split)

    def read(positions: Iterable[int]) -> Iterator[Sample]:
        for position in positions:
            file, label = entries[position]
            yield Sample(decode(path / file, file), label, file)

    name = as_text(path.resolve().name)
    return Samples(name if split is None else f"{name}, split {split}", read, len(entries), independent=True)


def folder_entries(path: Path, split: str | None = None) -> list[Entry]:
    """The images in a folder, as names in it, with their labels; see ``images_folder``, for the errors too."""
    if not path.is_dir():
        raise DataError(f"{path} is not a folder; give a folder of images")
    table = path / "labels.csv"
    if table.is_file():
        entries = _listed(table, split)
    elif split is not None:
        raise DataError(f"{path} has no labels.csv that could name the images of split {split!r}")
    else:
        entries = _by_class(path)
    if not entries:
        raise DataError(f"{path} holds no images; give a folder with files ending in {', '.join(sorted(SUFFIXES))}")
    return entries


def class_names(spec: str) -> tuple[str, ...]:
    """The names of the classes in the order of their labels, if ``spec`` is a folder with a folder per class.

    Empty where it is something else, or the folders are called by numbers.
    """
    path = Path(spec)
    if not path.is_dir() or (path / "labels.csv").is_file() or _images(path):
        return ()
    names = _class_folders(path)
    return () if any(isinstance(_number(name), int) for name in names) else tuple(map(as_text, names))


def _class_folders(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith("."))


def _listed(table: Path, split: str | None) -> list[Entry]:
    """The entries of ``labels.csv``."""
    try:
        rows = csv.reader(io.StringIO(read_text(table, _LONGEST_TABLE), newline=""))
        columns = next(rows, [])
        if "file" not in columns:
            raise DataError(f"{table} has no column 'file'; give the columns file, label and, if need be, split")
        if split is not None and "split" not in columns:
            raise DataError(f"{table} has no column 'split', so it has no split {split!r}")
        files, labels, splits = (
            columns.index(name) if name in columns else None for name in ("file", "label", "split")
        )
        lines = [(rows.line_num, _cell(row, files), _cell(row, labels), _cell(row, splits)) for row in rows if row]
    except (OSError, ValueError, csv.Error) as error:
        raise DataError(f"cannot read {table}: {getattr(error, 'strerror', None) or error}") from error
    if split is not None:
        known = sorted({line[3] for line in lines})
        lines = [line for line in lines if line[3] == split]
        if not lines:
            raise DataError(f"{table} has no split {split!r}; it has {', '.join(known[:_FEW]) or 'no images'}")
    entries = (_entry(table, number, name, label) for number, name, label, _ in lines)
    # An image may be listed twice, once without a label.
    return sorted(entries, key=lambda entry: (entry[0], -1 if entry[1] is None else entry[1]))


def _cell(row: list[str], place: int | None) -> str:
    """A cell of a line, which may end early."""
    return row[place] if place is not None and place < len(row) else ""


def _entry(table: Path, number: int, file: str, label: str) -> Entry:
    """One line of ``labels.csv``."""
    where = f"line {number} of {table}"
    # Links are allowed: data sets often consist of links into a store.
    if os.path.isabs(file) or ".." in Path(file).parts:
        raise DataError(f"image {file[:_SHOWN]!r} of {where} lies outside the folder; name files in it")
    candidates = [name for name in (file, f"images/{file}") if os.path.isfile(table.parent / name)]
    if not candidates:
        raise DataError(f"image {file[:_SHOWN]!r} of {where} does not exist; correct the line or add the file")
    return candidates[0], label_of(_number(label), where) if label else None


def _number(text: str) -> int | str:
    """``text`` as a whole number if it is one."""
    try:
        return int(text)
    except ValueError:
        return text


def _by_class(path: Path) -> list[Entry]:
    """The entries of a folder without ``labels.csv``."""
    flat = _images(path)
    folders = _class_folders(path)
    classes = {name: _images(path / name) for name in folders}
    if flat and any(classes.values()):
        raise DataError(f"{path} holds images and folders of images; give one of them, or a labels.csv")
    if flat:
        return [(name, None) for name in flat]
    if not any(classes.values()):
        return []
    empty = [name for name, names in classes.items() if not names]
    if empty:
        raise DataError(f"class folder {empty[0]!r} of {path} holds no images; add some or remove it")
    numbers = [_number(name) for name in folders]
    numeric = all(isinstance(number, int) for number in numbers)
    if numeric and len(set(numbers)) < len(numbers):
        raise DataError(f"two class folders of {path} have the same number: {', '.join(folders)}")
    labels = [label_of(number, name) for number, name in zip(numbers, folders)] if numeric else range(len(folders))
    return [(f"{name}/{file}", label) for name, label in zip(folders, labels) for file in classes[name]]


def _images(path: Path) -> list[str]:
    """The names of the image files in a folder, sorted."""
    return sorted(entry.name for entry in path.iterdir() if is_image(entry))


def is_image(entry: Path) -> bool:
    """Whether an entry of a folder counts as an image; hidden files, such as those that macOS adds, do not."""
    return entry.suffix.lower() in SUFFIXES and entry.is_file() and not entry.name.startswith(".")
