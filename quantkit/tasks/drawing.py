"""Pictures of predictions."""

from __future__ import annotations

import numpy as np

from quantkit.tasks.detections import Detections

_LINE_SHARE = 200
_DOT_SHARE = 60
_TEXT_SHARE = 30
_SMALLEST_TEXT = 10
_TINT = 0.55


def colour(index: int) -> tuple[int, int, int]:
    """The colour of a class, as in VOC's palette: the bits of the index, spread over red, green and blue."""
    channels = [0, 0, 0]
    for bit in range(8):
        for channel in range(3):
            channels[channel] |= (index >> (3 * bit + channel) & 1) << (7 - bit)
    red, green, blue = channels
    return red, green, blue


def with_boxes(image: np.ndarray, detections: Detections, classes: tuple[str, ...]) -> np.ndarray:
    """An image with a frame around each detection, its class and its score.

    Args:
        image: uint8 of shape (height, width, 3), RGB.
        detections: in the image's coordinates.
        classes: the names of the classes; empty to write their indices.
    """
    from PIL import Image, ImageDraw, ImageFont

    picture = Image.fromarray(image)
    pen = ImageDraw.Draw(picture)
    short = min(image.shape[:2])
    line = max(1, short // _LINE_SHARE)
    font = ImageFont.load_default(max(_SMALLEST_TEXT, short // _TEXT_SHARE))
    # The best are drawn last, over the others.
    rows = [*zip(detections.boxes.tolist(), detections.scores.tolist(), detections.labels.tolist())]
    for (left, top, right, bottom), score, label in reversed(rows):
        paint = colour(label + 1)
        name = classes[label] if label < len(classes) else str(label)
        pen.rectangle((left, top, max(left, right - 1), max(top, bottom - 1)), outline=paint, width=line)
        text = f"{name} {score:.2f}"
        place = pen.textbbox((left, top), text, font)
        pen.rectangle(place, fill=paint)
        pen.text((left, top), text, fill="white" if sum(paint) < 384 else "black", font=font)
    return np.array(picture)


def with_classes(image: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """An image tinted by the class of each pixel; the class 0, the background, and pixels of no class stay.

    Args:
        image: uint8 of shape (height, width, 3), RGB.
        classes: integers of shape (height, width); negative where there is none.
    """
    palette = np.array([colour(index) for index in range(max(1, int(classes.max()) + 1))], np.float64)
    painted = classes > 0
    tinted = image.astype(np.float64)
    tinted[painted] = (1 - _TINT) * tinted[painted] + _TINT * palette[classes[painted]]
    return np.rint(tinted).astype(np.uint8)


def with_points(image: np.ndarray, points: np.ndarray, shown: np.ndarray) -> np.ndarray:
    """An image with a dot at each of the points that are shown, each in a colour of its own.

    Args:
        image: uint8 of shape (height, width, 3), RGB.
        points: x and y in pixels, of shape (points, 2).
        shown: booleans of shape (points,).
    """
    from PIL import Image, ImageDraw

    picture = Image.fromarray(image)
    pen = ImageDraw.Draw(picture)
    radius = max(1, min(image.shape[:2]) // _DOT_SHARE)
    for index in np.flatnonzero(shown).tolist():
        x, y = points[index].tolist()
        pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=colour(index + 1))
    return np.array(picture)
