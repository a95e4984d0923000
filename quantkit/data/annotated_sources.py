"""Opening annotated images by one name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Optional, Union

import numpy as np

from quantkit.data.annotated import AnnotatedImages, Truth
from quantkit.data.boxes import Boxes
from quantkit.data.coco import coco_boxes
from quantkit.data.coco_people import coco_people
from quantkit.data.object_store import is_address
from quantkit.data.people import Person
from quantkit.data.resizing import Size
from quantkit.data.samples import Address, Samples
from quantkit.data.scenes import scene_boxes, scene_masks
from quantkit.data.sources import absolute, load_data
from quantkit.data.voc import is_voc, voc_boxes, voc_masks
from quantkit.errors import DataError

_SCENES = "scenes:"

Opened = Union[AnnotatedImages[Truth], Samples]
"""Images with what is true of them, or images alone where nothing is known."""


@dataclass(frozen=True)
class BoxesAddress:
    """The ``Address`` of images with objects."""

    name: str
    classes: tuple[str, ...]

    def open(self) -> Samples:
        """See ``Address``."""
        return _images(load_boxes(self.name, self.classes))


@dataclass(frozen=True)
class MasksAddress:
    """The ``Address`` of images with the class of every pixel."""

    name: str
    classes: tuple[str, ...]

    def open(self) -> Samples:
        """See ``Address``."""
        return _images(load_masks(self.name, self.classes))


@dataclass(frozen=True)
class PeopleAddress:
    """The ``Address`` of people with their joints."""

    name: str
    input_size: Size
    joints: int

    def open(self) -> Samples:
        """See ``Address``."""
        return _images(load_people(self.name, self.input_size, self.joints))


def is_coco(spec: str) -> bool:
    """Whether a name is that of a COCO file."""
    return not is_address(spec) and spec.lower().endswith(".json") and os.path.isfile(spec)


def load_boxes(spec: str, classes: Sequence[str] = ()) -> Opened[Boxes]:
    """Images with objects: a VOC folder, ``FOLDER:SPLIT``, a COCO file, or ``scenes:test``; else images alone.

    Args:
        spec: the name.
        classes: the names of the network's classes; empty for those of the data.

    Raises:
        DataError: it does not exist, is of no known kind, or cannot be read.
    """
    if spec.startswith(_SCENES):
        return scene_boxes(spec.removeprefix(_SCENES), classes)
    voc = None if is_coco(spec) else _voc(spec)
    if voc is None and not is_coco(spec):
        return load_data(spec)
    annotated = coco_boxes(Path(spec), classes) if voc is None else voc_boxes(*voc, classes)
    return _at(BoxesAddress(absolute(spec), tuple(classes)), annotated)


def load_masks(spec: str, classes: Sequence[str] = ()) -> Opened[np.ndarray]:
    """Images with the class of every pixel: a VOC folder, ``FOLDER:SPLIT``, or ``scenes:test``; else images alone.

    Raises:
        DataError: as for ``load_boxes``; or it is a COCO file.
    """
    if spec.startswith(_SCENES):
        return scene_masks(spec.removeprefix(_SCENES), classes)
    if is_coco(spec):
        raise DataError(f"{spec} holds boxes, not the class of every pixel; give a VOC folder with SegmentationClass")
    voc = _voc(spec)
    if voc is None:
        return load_data(spec)
    return _at(MasksAddress(absolute(spec), tuple(classes)), voc_masks(*voc, classes))


def load_people(spec: str, input_size: Size, joints: int) -> Opened[Person]:
    """People with their joints: a COCO file; else images alone, each of one person.

    Args:
        spec: the name.
        input_size: the height and the width of the network's input.
        joints: how many the network tells apart.

    Raises:
        DataError: as for ``load_boxes``.
    """
    if not is_coco(spec):
        return load_data(spec)
    return _at(PeopleAddress(absolute(spec), input_size, joints), coco_people(Path(spec), input_size, joints))


def _at(address: Address, annotated: AnnotatedImages[Truth]) -> AnnotatedImages[Truth]:
    return replace(annotated, samples=replace(annotated.samples, address=address))


def _images(opened: Opened[Truth]) -> Samples:
    return opened.samples if isinstance(opened, AnnotatedImages) else opened


def _voc(spec: str) -> Optional[tuple[Path, Optional[str]]]:
    """The folder and the split that a name means; None if it is no VOC folder."""
    if is_address(spec):
        return None
    if os.path.isdir(spec) and is_voc(Path(spec)):
        return Path(spec), None
    folder, colon, split = spec.rpartition(":")
    return (Path(folder), split) if colon and os.path.isdir(folder) and is_voc(Path(folder)) else None
