"""Folders as VOC and COCO have them, of a few small images."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

Object = tuple[str, tuple[float, float, float, float], int]
"""A class, the edges (left, top, right, bottom; the border is 0), and whether it is difficult, or a crowd."""


def annotation(size: tuple[int, int], objects: Sequence[Object]) -> str:
    """The XML of an image of a size (height, width); VOC counts pixels from 1."""
    listed = "".join(
        f"<object><name>{name}</name><difficult>{flag}</difficult><bndbox><xmin>{left + 1:g}</xmin>"
        f"<ymin>{top + 1:g}</ymin><xmax>{right:g}</xmax><ymax>{bottom:g}</ymax></bndbox></object>"
        for name, (left, top, right, bottom), flag in objects
    )
    return (
        f"<annotation><filename>ignored.jpg</filename><size><width>{size[1]}</width><height>{size[0]}</height>"
        f"<depth>3</depth></size>{listed}</annotation>"
    )


def photograph(path: Path, size: tuple[int, int], seed: int = 0) -> np.ndarray:
    """Write noise of a size as an image."""
    pixels = np.random.default_rng(seed).integers(0, 256, (*size, 3), np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)
    return pixels


def voc_folder(root: Path, images: Mapping[str, tuple[tuple[int, int], Sequence[Object]]]) -> Path:
    """A VOC folder of PNG images by name, each with its size and its objects."""
    (root / "Annotations").mkdir(parents=True)
    for seed, (name, (size, objects)) in enumerate(images.items()):
        photograph(root / "JPEGImages" / f"{name}.png", size, seed)
        (root / "Annotations" / f"{name}.xml").write_text(annotation(size, objects))
    return root


def coco_document(
    images: Mapping[str, tuple[tuple[int, int], Sequence[Object]]], categories: Mapping[str, int]
) -> dict[str, Any]:
    """The annotations of images by file name; images are numbered from 7 down, so that their order is another."""
    numbers = {name: 7 + len(images) - index for index, name in enumerate(images)}
    return {
        "info": {"year": 2017},
        "images": [
            {"id": numbers[name], "file_name": name, "height": size[0], "width": size[1], "license": 1}
            for name, (size, _) in images.items()
        ],
        "categories": [{"id": number, "name": name, "supercategory": "x"} for name, number in categories.items()],
        "annotations": [
            {
                "id": 1,
                "image_id": numbers[name],
                "category_id": categories[label],
                "bbox": [left, top, right - left, bottom - top],
                "iscrowd": flag,
                "segmentation": [],
            }
            for name, (_, objects) in images.items()
            for label, (left, top, right, bottom), flag in objects
        ],
    }


def coco_file(root: Path, document: Mapping[str, Any]) -> Path:
    """A COCO file with its images, noise, in the folder ``val``."""
    for seed, image in enumerate(document["images"]):
        photograph(root / "val" / image["file_name"], (image["height"], image["width"]), seed)
    path = root / "annotations" / "instances_val.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(document))
    return path
