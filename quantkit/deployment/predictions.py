"""What a bundle's network says of image files, and pictures of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Optional, Union

import numpy as np

from quantkit.data.decode import decode
from quantkit.data.folder import SUFFIXES, is_image
from quantkit.data.sample_noun import sample_noun
from quantkit.deployment.predictor import Predictor
from quantkit.errors import DataError, UserError
from quantkit.tasks.choose import judged_task, task_of
from quantkit.tasks.detections import Detections, above
from quantkit.tasks.keypoints import Keypoints
from quantkit.tasks.task import TaskName

Kind = Union[Literal["classification"], TaskName]
"""What is predicted of an image."""


@dataclass(frozen=True, eq=False)
class FilePrediction:
    """What a network says of a file.

    Attributes:
        file: the image.
        values: as JSON: of classification ``class`` and ``score``; of detection also ``box``: left, top, right,
            bottom in pixels; of segmentation ``class`` and ``share`` of the pixels; the first is the best, or largest.
            Of pose ``joint``, ``score`` and ``point``: x and y in pixels.
        picture: uint8 of shape (height, width, 3), RGB; None unless it was asked for.
    """

    file: Path
    values: list[dict[str, Any]]
    picture: Optional[np.ndarray]


def image_files(paths: Sequence[Path]) -> list[Path]:
    """The files among some paths, and the images in the folders among them, by name.

    Raises:
        DataError: a path does not exist, or a folder holds no images.
    """
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(each for each in path.iterdir() if is_image(each))
            if not inside:
                raise DataError(f"{path} holds no images; give files ending in {', '.join(sorted(SUFFIXES))}")
            files += inside
        elif path.is_file():
            files.append(path)
        else:
            raise DataError(f"there is no image {path}; give files, or folders of images")
    return files


def kind_of(predictor: Predictor, said: Optional[Kind] = None) -> Kind:
    """What a network predicts: what the user or its bundle says, classes where it puts out their scores, or what fits.

    Raises:
        UserError: nothing fits, or the network reads no images.
    """
    if sample_noun(predictor.input_shape) != "image":
        read = predictor.manifest.input.several or f"inputs of shape {predictor.input_shape}"
        raise UserError(f"{predictor.name} reads {read}, not images; call Predictor.predict() in Python with arrays")
    task = predictor.manifest.task
    if (stated := said or judged_task(task)) is not None:
        return stated
    if predictor.manifest.class_scores:
        return "classification"
    name = task_of(predictor.output_shapes) if task is None else None
    if name is None:
        use = "" if task is None else f" (it is for {task})"
        listed = ", ".join(map(str, predictor.output_shapes))
        raise UserError(
            f"{predictor.name} puts out {listed} for each image: neither classes, nor detections, nor a map of "
            f"classes{use}; call Predictor.predict() in Python"
        )
    return name


def predictions(
    predictor: Predictor,
    files: Sequence[Path],
    kind: Kind,
    least: float,
    top: int,
    pictures: bool,
    max_overlap: Optional[float] = None,
) -> Iterator[FilePrediction]:
    """What a network says of each file, a few at a time.

    Args:
        predictor: the network.
        files: the images.
        kind: what it predicts.
        least: the least score of a detection.
        top: the most classes of an image.
        pictures: whether to draw pictures.
        max_overlap: of two boxes of a class, see ``Predictor.detect``.

    Raises:
        UserError: the outputs do not fit, there is nothing to draw, or there are no overlaps to bound.
        DataError: an image cannot be read.
    """
    if pictures and kind == "classification":
        raise UserError(f"{predictor.name} tells the class of an image, so there is nothing to draw; leave --draw out")
    if max_overlap is not None and kind != "detection":
        raise UserError(f"{predictor.name} detects nothing; leave out max_overlap (--max-overlap)")
    if kind == "classification":
        for file, best in zip(files, predictor.classify_stream(files, top)):
            yield FilePrediction(file, [{"class": name, "score": score} for name, score in best], None)
        return
    task = predictor.task(kind, max_overlap)
    for file, prediction in zip(files, predictor.task_stream(kind, files, max_overlap)):
        if isinstance(prediction, Detections):
            prediction = above(prediction, least)
            values = _objects(prediction, predictor.labels)
        elif isinstance(prediction, Keypoints):
            values = _joints(prediction)
        else:
            values = _shares(prediction, predictor.labels)[:top]
        picture = task.draw(decode(file, str(file)), prediction) if pictures else None
        yield FilePrediction(file, values, picture)


def _objects(detections: Detections, labels: Sequence[str]) -> list[dict[str, Any]]:
    rows = zip(detections.labels.tolist(), detections.scores.tolist(), detections.boxes.tolist())
    return [{"class": _name(label, labels), "score": score, "box": box} for label, score, box in rows]


def _joints(keypoints: Keypoints) -> list[dict[str, Any]]:
    rows = enumerate(zip(keypoints.scores.tolist(), keypoints.points.tolist()))
    return [{"joint": joint, "score": score, "point": point} for joint, (score, point) in rows]


def _shares(classes: np.ndarray, labels: Sequence[str]) -> list[dict[str, Any]]:
    numbers, counts = np.unique(classes[classes >= 0], return_counts=True)
    pairs = sorted(zip(counts.tolist(), numbers.tolist()), key=lambda pair: (-pair[0], pair[1]))
    return [{"class": _name(number, labels), "share": count / classes.size} for count, number in pairs]


def _name(index: int, labels: Sequence[str]) -> str:
    return labels[index] if index < len(labels) else str(index)
