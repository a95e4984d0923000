"""The suite of face detectors: its images, and how it counts what a form of the network finds."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

from quantkit.tasks.detections import Detections

IMAGE = np.zeros((100, 100, 3), np.uint8)


def seen(*boxes: tuple[float, float, float, float], score: float = 0.9) -> Detections:
    count = len(boxes)
    return Detections(
        np.array(boxes, np.float64).reshape(-1, 4), np.full(count, score, np.float64), np.zeros(count, np.int64)
    )


def test_images_are_portraits_windows_and_four_of_them() -> None:
    from face_detectors import windows

    images = windows()
    assert len(images) == 200
    assert all(each.dtype == np.uint8 and each.shape[2] == 3 for each in images)
    assert sum(each.shape == (480, 640, 3) for each in images) == 99
    assert all(np.array_equal(a, b) for a, b in zip(images[:20], windows()[:20]))


def test_what_is_found_missed_and_false() -> None:
    from face_detectors import _row

    first, second = (10, 10, 30, 30), (60, 60, 90, 90)
    exact = [seen(first, second), seen(), seen(first, score=0.3)]
    found = [seen((10, 10, 30, 40), score=0.8), seen(first), seen(first)]
    row = _row("file", "INT8", "3 of 3", [IMAGE] * 3, exact, found)
    # The first is found with a third more of its height; where FP32 is unsure, nothing is false.
    assert (row.images, row.faces, row.found, row.false) == (3, 2, 1, 1)
    assert round(row.overlap, 4) == round(2 / 3, 4)
    assert round(row.scores, 4) == 0.1
    assert 0 < row.agreement < 1


def test_calibration_sees_no_face() -> None:
    from face_detectors import _calibration

    assert len(_calibration()) == 32


def test_a_weak_detection_finds_nothing() -> None:
    from face_detectors import _row

    first, second = (10, 10, 30, 30), (60, 60, 90, 90)
    exact, found = [seen(first), seen(second)], [seen(first, score=0.2), seen(second)]
    assert _row("file", "INT8", "3 of 3", [IMAGE] * 2, exact, found).found == 1


def test_the_page_shows_the_picture() -> None:
    from face_detectors import Row, page

    row = Row("net", "INT8 in MXNet", "3 of 4", 200, 400, 399, 2, 0.995, 0.97, 0.05)
    text = page({"command": "python x", "host": {"cpu": "y"}, "rows": [asdict(row)]})
    assert "what net detects in FP32; below, in INT8](face-detectors.jpg)" in text
    assert "| net | INT8 in MXNet | 3 of 4 | 200 | 400 | 399 | 2 | 99.50 | 0.970 | 0.050 |" in text
