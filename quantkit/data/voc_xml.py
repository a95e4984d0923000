"""One annotation of PASCAL VOC: an XML file that lists the objects of an image."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from quantkit.data.resizing import Size
from quantkit.errors import DataError
from quantkit.files.text import read_bytes

_DEEPEST = 16
_LARGEST_SIDE = 1 << 20
_SHOWN = 100


@dataclass(frozen=True)
class VocObject:
    """An object: its class, its edges (left, top, right, bottom; 0 is the image's border), and whether it is hard."""

    name: str
    edges: tuple[float, float, float, float]
    difficult: bool


@dataclass(frozen=True)
class VocAnnotation:
    """The objects of an image of a size."""

    size: Size
    objects: tuple[VocObject, ...]


def read_voc_annotation(path: Path) -> VocAnnotation:
    """Read an annotation.

    VOC counts pixels from 1, and the last one belongs to the box; edges count from 0. Entities, and files that would
    be read with it, are refused.

    Raises:
        DataError: the file cannot be read, is no XML of this form, or lacks a value; the message names both.
    """
    try:
        root = _parsed(read_bytes(path))
        size = _child(root, "size")
        return VocAnnotation((_side(size, "height"), _side(size, "width")), tuple(map(_object, root.findall("object"))))
    except OSError as error:
        raise DataError(f"cannot read annotation {path}: {error.strerror or error}; give the file") from error
    except (expat.ExpatError, ValueError, LookupError) as error:
        raise DataError(f"{path} is not an annotation of VOC: {error}; write it again") from error


def _parsed(content: bytes) -> Element:
    """The root of an XML document without a document type, which could define entities."""
    parser, tree = expat.ParserCreate(), TreeBuilder()
    depth = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > _DEEPEST:
            raise ValueError(f"elements nest more than {_DEEPEST} deep")
        tree.start(tag, attributes)

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1
        tree.end(tag)

    def refuse(*_: object) -> None:
        raise ValueError("it declares a document type")

    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, tree.data
    parser.StartDoctypeDeclHandler = refuse
    parser.Parse(content, True)
    root = tree.close()
    if root.tag != "annotation":
        raise ValueError(f"its root is <{root.tag[:_SHOWN]}>, not <annotation>")
    return root


def _object(element: Element) -> VocObject:
    name, box = _text(element, "name"), _child(element, "bndbox")
    left, top, right, bottom = (_number(box, edge) for edge in ("xmin", "ymin", "xmax", "ymax"))
    difficult = element.find("difficult")
    flag = "0" if difficult is None else (difficult.text or "").strip()
    if flag not in ("0", "1"):
        raise ValueError(f"<difficult> is {flag[:_SHOWN]!r}, not 0 or 1")
    return VocObject(name, (left - 1, top - 1, right, bottom), flag == "1")


def _child(element: Element, tag: str) -> Element:
    child = element.find(tag)
    if child is None:
        raise ValueError(f"<{element.tag}> has no <{tag}>")
    return child


def _text(element: Element, tag: str) -> str:
    text = (_child(element, tag).text or "").strip()
    if not text:
        raise ValueError(f"<{tag}> in <{element.tag}> is empty")
    return text


def _number(element: Element, tag: str) -> float:
    text = _text(element, tag)
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not isfinite(value):
        raise ValueError(f"<{tag}> is {text[:_SHOWN]!r}, not a number")
    return value


def _side(element: Element, tag: str) -> int:
    value = _number(element, tag)
    if value != int(value) or not 0 < value <= _LARGEST_SIDE:
        raise ValueError(f"<{tag}> is {value:g}, not a number of pixels")
    return int(value)
