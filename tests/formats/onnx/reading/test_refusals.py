"""What the engine computes otherwise than ONNX, or cannot compute, is refused when the file is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.formats.onnx.reading.files import Writer, save
from tests.formats.onnx.reading.hostile import refused


def _for_every_two(w: Writer) -> str:
    """Expanded to (N, N, 1, 1)."""
    count = w.op("Shape", "x", start=0, end=1)
    ones = w.constant(np.array([1, 1]))
    single = w.op("GlobalMaxPool", w.conv("x", 3, 1))
    return str(w.op("Expand", single, w.op("Concat", count, count, ones, axis=0)))


REFUSED: dict[str, tuple[Callable[[Writer], str], str]] = {
    "exponential of what it divides by a negative number": (
        lambda w: w.op("Celu", "x", alpha=-0.7), "alpha of -0.69"
    ),
    "normalization of one axis": (
        lambda w: w.op("LRN", w.op("Flatten", "x"), size=3), "the engine images alone"
    ),
    "pooling of nothing but padding": (
        lambda w: w.op("MaxPool", "x", kernel_shape=[2, 2], pads=[0, 2, 0, 0]), "as large as its window"
    ),
    "images made of others": (
        lambda w: w.op("Resize", "x", "", np.array([2, 1, 1, 1], np.float32)), "another number of images"
    ),
    "a value for every two images": (_for_every_two, "pairs the images of a batch"),
    "differences of all images": (
        lambda w: w.op("Sub", w.op("Unsqueeze", "x", np.array([0])), w.op("Unsqueeze", "x", np.array([1]))),
        "pairs the images of a batch",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, tmp_path: Path) -> None:
    build, told = REFUSED[name]
    w = Writer(shape=("N", 3, 8, 8))
    assert told in refused(save(w.model(build(w)), tmp_path / "net.onnx"))
