"""Photographs with objects as COCO lists them."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Optional

from quantkit.data.annotated import AnnotatedImages
from quantkit.data.boxes import Boxes, boxes_of, check_size, class_indices, is_empty
from quantkit.data.coco_json import CocoCategory, CocoDocument, CocoImage, CocoObject, read_coco, read_coco_images
from quantkit.data.decode import decode
from quantkit.data.resizing import Size
from quantkit.data.samples import Sample, Samples
from quantkit.errors import DataError
from quantkit.files.files import as_text

_SHOWN = 100


def coco_boxes(path: Path, classes: Sequence[str] = ()) -> AnnotatedImages[Boxes]:
    """The photographs of a COCO file with their objects; crowds are ``ignored``.

    Boxes may have a width or a height of 0, as two of COCO's own; to pycocotools they are objects that nobody finds.

    The photographs lie beside the file, in ``images`` there, or, as COCO has them, in a folder beside the file's that
    has the end of its name: ``val2017`` for ``annotations/instances_val2017.json``. Images without objects count.

    Args:
        path: the JSON file.
        classes: the names of the classes in the order of the network's indices; empty for those of the file, by their
            numbers.

    Raises:
        DataError: the file cannot be used, an object has an unknown class or lies outside its image, an image does not
            exist, or there is no object at all.
    """
    document = read_coco(path)
    if not document.annotations:
        raise DataError(f"{path} lists no object; give annotated images")
    names = tuple(each.name for each in sorted(document.categories, key=_number))
    known = tuple(classes) or names
    used = {each.category_id for each in document.annotations}
    named = {each.id: each.name for each in document.categories if each.id in used}
    places = class_indices(named.values(), known, str(path))
    indices = {number: places[name] for number, name in named.items()}
    objects = _by_image(document)
    images = sorted(document.images, key=_number)
    files = image_files(path, images)
    truths = [
        _boxes(image, objects[image.id], indices, f"image {image.file_name[:_SHOWN]} of {path}") for image in images
    ]

    empty = sum(int((is_empty(each.corners) & ~each.ignored).sum()) for each in truths)
    notes = (
        (f"objects in the file that hold no pixel, and count as missed as in pycocotools: {empty}",) if empty else ()
    )

    def size(position: int) -> Size:
        return truths[position].size

    return AnnotatedImages(_photographs(path, files, size), known, size, truths.__getitem__, notes=notes)


def coco_images(path: Path) -> Samples:
    """The photographs of a COCO file alone, by their numbers; whatever it says of them.

    Raises:
        DataError: the file cannot be used, lists no image, or an image does not exist.
    """
    images = sorted(read_coco_images(path).images, key=_number)
    if not images:
        raise DataError(f"{path} lists no image; give one that does")
    return _photographs(path, image_files(path, images), None)


def _photographs(path: Path, files: Sequence[Path], size: Optional[Callable[[int], Size]]) -> Samples:
    """The photographs in these files, each checked to have the size of its annotation, if that is given."""

    def read(positions: Iterable[int]) -> Iterator[Sample]:
        for position in positions:
            file = files[position]
            pixels = decode(file, str(file))
            if size is not None:
                check_size(size(position), pixels, str(file))
            yield Sample(pixels, None, file.name)

    return Samples(as_text(path.name), read, len(files), independent=True)


def _number(entry: CocoImage | CocoCategory) -> int:
    return entry.id


def _by_image(document: CocoDocument) -> Mapping[int, list[CocoObject]]:
    objects: dict[int, list[CocoObject]] = defaultdict(list)
    for each in document.annotations:
        objects[each.image_id].append(each)
    return objects


def _boxes(image: CocoImage, objects: Sequence[CocoObject], indices: Mapping[int, int], where: str) -> Boxes:
    return boxes_of(
        (image.height, image.width),
        [(left, top, left + width, top + height) for left, top, width, height in (each.bbox for each in objects)],
        [indices[each.category_id] for each in objects],
        [each.iscrowd == 1 for each in objects],
        where,
        may_be_empty=True,
    )


def image_files(path: Path, images: Sequence[CocoImage]) -> list[Path]:
    """The images' files, which lie in one of the usual folders."""
    beside, above, split = path.parent, path.absolute().parent.parent, path.stem.rpartition("_")[2]
    folders = (beside, beside / "images", above / split, above / "images" / split, above / "images")
    for image in images:
        if os.path.isabs(image.file_name) or ".." in Path(image.file_name).parts:
            raise DataError(f"image {image.file_name[:_SHOWN]!r} of {path} lies outside the folder; name files in it")
    folder = next((each for each in folders if os.path.isfile(each / images[0].file_name)), beside)
    missing = next((each for each in images if not os.path.isfile(folder / each.file_name)), None)
    if missing is not None:
        raise DataError(
            f"image {missing.file_name[:_SHOWN]!r} of {path} does not exist in {folder}; add the file there, in "
            f"{folders[1]} or in {folders[2]}, or take it off the list"
        )
    return [folder / each.file_name for each in images]
