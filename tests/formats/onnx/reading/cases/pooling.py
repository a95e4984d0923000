"""Poolings."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.formats.onnx.reading.cases.build import Build, one


def windowed(op: str, **attributes: Any) -> Build:
    """A pooling of values far from zero, so that what it pads matters."""
    return lambda w: w.op(op, w.op("Sub", "x", 9.0), **{"kernel_shape": [3, 3], **attributes})


CASES: dict[str, Build] = {
    "max": windowed("MaxPool", strides=[2, 2], pads=[1, 1, 1, 1]),
    "max, overhanging": windowed("MaxPool", strides=[2, 2], ceil_mode=1),
    "max, overhanging and padded": windowed("MaxPool", strides=[2, 3], ceil_mode=1, pads=[1, 0, 1, 0]),
    "max, window in the padding": windowed(
        "MaxPool", kernel_shape=[1, 2], strides=[4, 3], ceil_mode=1, pads=[0, 1, 0, 1]
    ),
    "max, other padding behind": windowed("MaxPool", strides=[2, 2], pads=[0, 0, 1, 2]),
    "max, other padding before": windowed("MaxPool", pads=[2, 1, 0, 1]),
    "max, as TensorFlow": windowed("MaxPool", strides=[2, 2], auto_pad="SAME_UPPER"),
    "max, same lower": windowed("MaxPool", kernel_shape=[2, 2], auto_pad="SAME_LOWER"),
    "average": windowed("AveragePool", strides=[2, 2], pads=[1, 1, 1, 1]),
    "average with padding": windowed("AveragePool", pads=[1, 1, 1, 1], count_include_pad=1),
    "average, overhanging": windowed("AveragePool", strides=[2, 2], ceil_mode=1),
    "average, other padding behind": windowed("AveragePool", strides=[2, 2], pads=[0, 0, 1, 1]),
    "average with other padding behind": windowed(
        "AveragePool", strides=[2, 2], pads=[0, 1, 1, 1], count_include_pad=1
    ),
    "average, other padding before": windowed("AveragePool", pads=[2, 1, 0, 1]),
    "average, as TensorFlow": windowed("AveragePool", strides=[1, 2], auto_pad="SAME_UPPER"),
    "average, same lower": windowed("AveragePool", kernel_shape=[2, 2], auto_pad="SAME_LOWER"),
    "global average": one("GlobalAveragePool"),
    "global max": one("GlobalMaxPool"),
    "max of one axis, other padding behind": lambda w: w.op(
        "MaxPool", w.op("Reshape", "x", np.array([0, 6, -1])), kernel_shape=[3], strides=[2], pads=[0, 2]
    ),
    "max, dilated": windowed("MaxPool", dilations=[2, 1], pads=[1, 1, 0, 1], strides=[1, 2]),
}  # fmt: skip

OTHER_OPSETS: dict[str, tuple[int, Build]] = {
    "max with indices that nothing reads": (
        10, lambda w: w.op("MaxPool", "x", count=2, kernel_shape=[3, 3], strides=[2, 2])[0]
    ),
    "average, overhanging and padded": (
        19, windowed("AveragePool", strides=[2, 2], ceil_mode=1, pads=[1, 1, 1, 1], count_include_pad=1)
    ),
    "average, dilated": (
        19, windowed("AveragePool", dilations=[2, 3], pads=[2, 1, 2, 0], strides=[1, 2])
    ),
    "average, dilated, with padding": (
        19, windowed("AveragePool", dilations=[1, 2], pads=[1, 2, 0, 2], count_include_pad=1, strides=[2, 1])
    ),
}  # fmt: skip
