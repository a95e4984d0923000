"""The annotations of COCO: a JSON file that lists images, classes and objects."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from pydantic import Field, FiniteFloat

from quantkit.errors import DataError
from quantkit.files.schema import FirstFaultOnly, Many, first_fault
from quantkit.files.text import MEBIBYTE, read_bytes

if TYPE_CHECKING:
    from pydantic import TypeAdapter

# The objects of COCO's training images take 450 MB.
_LARGEST = 512 * MEBIBYTE

# Three of each joint; whole bodies have 133 joints.
_MOST_NUMBERS = 3 * 1000

_Id = Annotated[int, Field(ge=0, lt=1 << 63)]
_Side = Annotated[int, Field(gt=0, le=1 << 20)]
_Text = Annotated[str, Field(min_length=1, max_length=1000)]


@dataclass(frozen=True)
class CocoImage:
    """An image and its size in pixels."""

    id: _Id
    file_name: _Text
    height: _Side
    width: _Side


@dataclass(frozen=True)
class CocoCategory:
    """A class."""

    id: _Id
    name: _Text


@dataclass(frozen=True)
class CocoObject:
    """An object: its image, its class, and its box: left, top, width, height in pixels."""

    image_id: _Id
    category_id: _Id
    bbox: tuple[FiniteFloat, FiniteFloat, FiniteFloat, FiniteFloat]
    iscrowd: Literal[0, 1] = 0


@dataclass(frozen=True)
class CocoDocument:
    """The annotations of some images; other keys of the file are left alone."""

    images: Many[CocoImage]
    categories: Many[CocoCategory]
    annotations: Many[CocoObject]


@dataclass(frozen=True)
class CocoPerson:
    """A person: the image, the class, the box, the area in pixels, and x, y and a flag of each joint.

    A flag is 0 where a joint is not marked, 1 where it is hidden, 2 where it is seen.
    """

    image_id: _Id
    category_id: _Id
    bbox: tuple[FiniteFloat, FiniteFloat, FiniteFloat, FiniteFloat]
    area: Annotated[FiniteFloat, Field(ge=0)]
    keypoints: Annotated[tuple[FiniteFloat, ...], Field(min_length=3, max_length=_MOST_NUMBERS), FirstFaultOnly()]
    iscrowd: Literal[0, 1] = 0


@dataclass(frozen=True)
class CocoPeople:
    """The people in some images; other keys of the file are left alone."""

    images: Many[CocoImage]
    categories: Many[CocoCategory]
    annotations: Many[CocoPerson]


@dataclass(frozen=True)
class CocoImages:
    """Images alone, as of files without annotations or with other ones, such as captions."""

    images: Many[CocoImage]


Document = TypeVar("Document", CocoDocument, CocoPeople, CocoImages)


def read_coco(path: Path) -> CocoDocument:
    """Read a file of objects of at most 512 MiB, with or without a byte order mark.

    Raises:
        DataError: it cannot be read, is larger, or does not have this form; or two images or classes have one number,
            or an object names an image or a class that is not listed. The message names the place.
    """
    document = _read(path, _schema())
    _check(document, path)
    return document


def read_coco_people(path: Path) -> CocoPeople:
    """Read a file of people with their joints; see ``read_coco``."""
    document = _read(path, _people_schema())
    _check(document, path)
    return document


def read_coco_images(path: Path) -> CocoImages:
    """Read the images of a file of any annotations, or of none; see ``read_coco``."""
    document = _read(path, _images_schema())
    _numbers([each.id for each in document.images], "image", path)
    return document


def _read(path: Path, schema: TypeAdapter[Document]) -> Document:
    from pydantic import ValidationError

    try:
        return schema.validate_json(read_bytes(path, _LARGEST).removeprefix(BOM_UTF8), strict=True)
    except OSError as error:
        raise DataError(
            f"cannot read annotations {path}: {error.strerror or error}; give the file, or one of fewer images"
        ) from error
    except ValidationError as error:
        where, what = first_fault(error)
        raise DataError(f"{path} is damaged at {where or 'its beginning'}: {what}; write it again") from error


def _check(document: CocoDocument | CocoPeople, path: Path) -> None:
    images, categories = (
        _numbers([each.id for each in entries], kind, path)
        for kind, entries in (("image", document.images), ("category", document.categories))
    )
    objects: Sequence[CocoObject | CocoPerson] = document.annotations
    for index, each in enumerate(objects):
        for kind, number, known in (("image", each.image_id, images), ("category", each.category_id, categories)):
            if number not in known:
                raise DataError(
                    f"annotations.{index} of {path} names the {kind} {number}, which is not listed; correct it"
                )


def _numbers(numbers: list[int], kind: str, path: Path) -> frozenset[int]:
    distinct = frozenset(numbers)
    if len(distinct) < len(numbers):
        raise DataError(f"two entries of {path} are {kind} {_repeated(numbers)}; give each its own id")
    return distinct


def _repeated(numbers: list[int]) -> int:
    ordered = sorted(numbers)
    return next(one for one, two in pairwise(ordered) if one == two)


@cache
def _schema() -> TypeAdapter[CocoDocument]:
    """The validator, made once."""
    from pydantic import TypeAdapter

    return TypeAdapter(CocoDocument)


@cache
def _people_schema() -> TypeAdapter[CocoPeople]:
    from pydantic import TypeAdapter

    return TypeAdapter(CocoPeople)


@cache
def _images_schema() -> TypeAdapter[CocoImages]:
    from pydantic import TypeAdapter

    return TypeAdapter(CocoImages)
