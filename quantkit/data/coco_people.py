"""The people of a COCO file, each as an image of their own, as pose networks read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from quantkit.data.annotated import AnnotatedImages
from quantkit.data.boxes import boxes_of, check_size
from quantkit.data.coco import image_files
from quantkit.data.coco_json import CocoPerson, read_coco_people
from quantkit.data.decode import PIXELS_VARIABLE, decode, most_pixels
from quantkit.data.held import Held
from quantkit.data.people import Person, Region, region_around
from quantkit.data.resizing import Size
from quantkit.data.samples import Sample, Samples
from quantkit.errors import DataError
from quantkit.files.files import as_text

_SHOWN = 100
_PHOTOGRAPHS_HELD = 2


def coco_people(path: Path, input_size: Size, joints: int) -> AnnotatedImages[Person]:
    """The people of a COCO file with marked joints, cut out around their boxes; crowds are left out.

    Args:
        path: the JSON file; the photographs lie as for ``coco_boxes``.
        input_size: the height and the width of the network's input, whose proportions the parts have.
        joints: how many the network tells apart.

    Raises:
        DataError: the file cannot be used, a person has another number of joints, lies outside the image or needs a
            larger part of it than an image may have pixels, an image does not exist, or no person has a marked joint.
    """
    document = read_coco_people(path)
    images = {each.id: each for each in document.images}
    people: list[tuple[CocoPerson, Person]] = []
    for index, each in enumerate(document.annotations):
        if each.iscrowd:
            continue
        if len(each.keypoints) != 3 * joints:
            raise DataError(
                f"annotations.{index} of {path} has {len(each.keypoints)} numbers for joints, the network needs x, y "
                f"and a flag of {joints}; give annotations of the joints that it was trained for"
            )
        rows = np.array(each.keypoints, np.float64).reshape(joints, 3)
        if (rows[:, 2] > 0).any():
            people.append((each, Person(rows[:, :2], rows[:, 2] > 0, each.area)))
    if not people:
        raise DataError(f"no person of {path} has a marked joint; give annotated images")
    people.sort(key=lambda pair: pair[0].image_id)
    regions = []
    for marked, _ in people:
        image, (left, top, width, height) = images[marked.image_id], marked.bbox
        corners = [(left, top, left + width, top + height)]
        boxes_of((image.height, image.width), corners, [0], [False], f"image {image.file_name[:_SHOWN]} of {path}")
        regions.append(_region(marked, input_size, f"image {image.file_name[:_SHOWN]} of {path}"))
    used = [images[number] for number in sorted({marked.image_id for marked, _ in people})]
    files = dict(zip((image.id for image in used), image_files(path, used)))

    def photograph(number: int) -> np.ndarray:
        file = files[number]
        pixels = decode(file, str(file))
        check_size((images[number].height, images[number].width), pixels, str(file))
        return pixels

    # People are in the order of their photographs.
    held = Held(photograph, _PHOTOGRAPHS_HELD)

    def read(positions: Iterable[int]) -> Iterator[Sample]:
        for position in positions:
            image = images[people[position][0].image_id]
            yield Sample(regions[position].cut(held(image.id)), None, f"{image.file_name} (person {position})")

    def truth(position: int) -> Person:
        return regions[position].person(people[position][1])

    samples = Samples(as_text(path.name), read, len(people), independent=True)
    photographs = [marked.image_id for marked, _ in people]
    return AnnotatedImages(samples, (), lambda position: regions[position].size, truth, photographs)


def _region(person: CocoPerson, input_size: Size, where: str) -> Region:
    """The part of an image that shows a person, which is no larger than an image may be."""
    region = region_around(person.bbox, input_size)
    if region.width * region.height > (most := most_pixels()):
        width, height = person.bbox[2:]
        raise DataError(
            f"a person in {where} has a box of {width:g}x{height:g} pixels, which takes {region.width}x{region.height} "
            f"in the proportions of the network's input, more than {most}; correct the box, leave the person out, or "
            f"set {PIXELS_VARIABLE}"
        )
    return region
