"""Folders as PASCAL VOC has them: photographs, their objects, and the class of every pixel."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Optional

import numpy as np

from quantkit.data.annotated import AnnotatedImages
from quantkit.data.boxes import Boxes, boxes_of, check_size, class_indices
from quantkit.data.decode import decode, decode_classes, stored_size
from quantkit.data.folder import SUFFIXES, images_folder
from quantkit.data.resizing import Size
from quantkit.data.samples import Sample, Samples
from quantkit.data.voc_classes import VOC_CLASSES
from quantkit.data.voc_xml import read_voc_annotation
from quantkit.errors import DataError
from quantkit.files.files import as_text
from quantkit.files.text import read_text

IMAGES, ANNOTATIONS, MASKS, SPLITS = "JPEGImages", "Annotations", "SegmentationClass", "ImageSets"

VOID = 255
"""The index that masks have where a pixel's class is not told."""

# Bytes; millions of names.
_LONGEST_SPLIT = 2**26
_SHOWN = 100

# Masks are as large as photographs; an evaluation asks for one after the other, for each of its networks.
_MASKS_HELD = 1


def is_voc(path: Path) -> bool:
    """Whether a folder has the form of a VOC folder: ``JPEGImages`` beside ``Annotations`` or masks."""
    return (path / IMAGES).is_dir() and ((path / ANNOTATIONS).is_dir() or (path / MASKS).is_dir())


def voc_boxes(path: Path, split: Optional[str] = None, classes: Sequence[str] = ()) -> AnnotatedImages[Boxes]:
    """The photographs of a VOC folder with their objects; those that VOC calls difficult are ``ignored``.

    Args:
        path: holds ``JPEGImages`` and ``Annotations``.
        split: the images that ``ImageSets/Main/SPLIT.txt`` names; None for all that have an annotation.
        classes: the names of the classes in the order of the network's indices; empty for VOC's own.

    Raises:
        DataError: a file is missing or damaged, an object has an unknown class or lies outside its image, or there is
            no object at all.
    """
    known = tuple(classes) or VOC_CLASSES
    names = _names(path, split, "Main", ANNOTATIONS, ".xml")
    truths = [_boxes(path / ANNOTATIONS / f"{name}.xml", known) for name in names]
    if not any(map(len, truths)):
        raise DataError(f"no image of {_title(path, split)} has an object; give annotated images")

    def size(position: int) -> Size:
        return truths[position].size

    return AnnotatedImages(_images(path, split, names, size), known, size, truths.__getitem__)


def voc_masks(path: Path, split: Optional[str] = None, classes: Sequence[str] = ()) -> AnnotatedImages[np.ndarray]:
    """The photographs of a VOC folder with the class of every pixel, int64 of shape (height, width); -1: not told.

    Args:
        path: holds ``JPEGImages`` and ``SegmentationClass``.
        split: the images that ``ImageSets/Segmentation/SPLIT.txt`` names; None for all that have a mask.
        classes: the names of the classes; empty for the background and VOC's own.

    Raises:
        DataError: a file is missing or damaged (masks show that when they are read).
    """
    known = tuple(classes) or ("background", *VOC_CLASSES)
    names = _names(path, split, "Segmentation", MASKS, ".png")

    @lru_cache(maxsize=_MASKS_HELD)
    def mask(position: int) -> np.ndarray:
        file = path / MASKS / f"{names[position]}.png"
        values = decode_classes(file, str(file)).astype(np.int64)
        values[values == VOID] = -1
        if values.max() >= len(known):
            raise DataError(
                f"mask {file} has the class {values.max()}, but there are {len(known)} classes (0 to {len(known) - 1}, "
                f"and {VOID} for what is not told); correct it"
            )
        return values

    # Reading is ahead of judging, and needs the size alone.
    @cache
    def size(position: int) -> Size:
        file = path / MASKS / f"{names[position]}.png"
        return stored_size(file, str(file))

    return AnnotatedImages(_images(path, split, names, size), known, size, mask)


def voc_images(path: Path, split: Optional[str] = None) -> Samples:
    """The photographs of a VOC folder alone: those that a split names, or all.

    The split is ``ImageSets/Main/SPLIT.txt``, else ``ImageSets/Segmentation/SPLIT.txt``.

    Raises:
        DataError: a file is missing, or there is no such split.
    """
    if split is None:
        return replace(images_folder(path / IMAGES), name=_title(path, None))
    folders = [path / SPLITS / task for task in ("Main", "Segmentation")]
    with_split = (each for each in folders if os.path.isfile(each / f"{split}.txt"))
    folder = next(with_split, None) or next((each for each in folders if each.is_dir()), folders[0])
    return _images(path, split, _listed(folder, split), None)


def _names(path: Path, split: Optional[str], task: str, folder: str, suffix: str) -> list[str]:
    """The names of the images, without suffixes."""
    if not (path / folder).is_dir():
        raise DataError(f"{path} has no folder {folder}; give a folder of VOC's form, such as VOCdevkit/VOC2007")
    if split is None:
        # Hidden files are those that macOS adds.
        entries = (entry for entry in (path / folder).iterdir() if not entry.name.startswith("."))
        names = sorted(entry.stem for entry in entries if entry.suffix == suffix and entry.is_file())
    else:
        names = _listed(path / SPLITS / task, split)
    if not names:
        raise DataError(f"{_title(path, split)} names no images; give some in {folder}, or another split")
    if len({*names}) < len(names):
        twice = next(one for one, two in pairwise(sorted(names)) if one == two)
        raise DataError(f"{_title(path, split)} names the image {twice[:_SHOWN]!r} twice; name each image once")
    return names


def _listed(folder: Path, split: str) -> list[str]:
    """The first words of the lines of a split's file."""
    file = folder / f"{split}.txt"
    if "/" in split or not os.path.isfile(file):
        known = sorted(entry.stem for entry in folder.glob("*.txt"))[:8] if folder.is_dir() else []
        raise DataError(f"{folder} has no split {split[:_SHOWN]!r}; it has {', '.join(known) or 'none'}")
    try:
        names = [line.split()[0] for line in read_text(file, _LONGEST_SPLIT).splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read {file}: {getattr(error, 'strerror', None) or error}") from error
    for name in names:
        if "/" in name or name.startswith("."):
            raise DataError(f"image {name[:_SHOWN]!r} of {file} lies outside the folder; name files in it")
    return names


def _boxes(file: Path, known: Sequence[str]) -> Boxes:
    annotation = read_voc_annotation(file)
    objects = annotation.objects
    indices = class_indices(dict.fromkeys(each.name for each in objects), known, str(file))
    return boxes_of(
        annotation.size,
        [each.edges for each in objects],
        [indices[each.name] for each in objects],
        [each.difficult for each in objects],
        str(file),
    )


def _images(path: Path, split: Optional[str], names: Sequence[str], size: Optional[Callable[[int], Size]]) -> Samples:
    """The photographs of these names, each checked to have the size of its annotation, if that is given."""
    files = [_photograph(path / IMAGES, name) for name in names]

    def read(positions: Iterable[int]) -> Iterator[Sample]:
        for position in positions:
            file = files[position]
            image = decode(file, str(file))
            if size is not None:
                check_size(size(position), image, names[position])
            yield Sample(image, None, file.name)

    return Samples(_title(path, split), read, len(files), independent=True)


def _photograph(folder: Path, name: str) -> Path:
    """The file of an image, which may have any suffix of images, also in capitals; JPEG comes first."""
    for suffix in (".jpg", *sorted(SUFFIXES - {".jpg"})):
        for written in (suffix, suffix.upper()):
            if os.path.isfile(file := folder / f"{name}{written}"):
                return file
    raise DataError(f"image {name[:_SHOWN]!r} does not exist in {folder}; add the file, or take it off the list")


def _title(path: Path, split: Optional[str]) -> str:
    name = as_text(path.resolve().name)
    return name if split is None else f"{name}, split {split}"
