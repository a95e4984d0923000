"""Resizing."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.formats.onnx.reading.cases.build import Build
from tests.formats.onnx.reading.files import Writer


def resized(*, scales: Any = None, sizes: Any = None, **attributes: Any) -> Build:
    def build(w: Writer) -> str:
        if sizes is not None:
            return w.op("Resize", "x", "", "", np.array(sizes, np.int64), **attributes)
        return w.op("Resize", "x", "", np.array(scales, np.float32), **attributes)

    return build


def kept_proportions(policy: str) -> Build:
    sizes = np.array([18, 21])
    return lambda w: w.op("Resize", "x", "", "", sizes, axes=[2, 3], mode="nearest", keep_aspect_ratio_policy=policy)


NEAREST = {"mode": "nearest"}
LINEAR = {"mode": "linear"}


CASES: dict[str, Build] = {
    "twice as large": resized(
        scales=[1, 1, 2, 2], **NEAREST, coordinate_transformation_mode="asymmetric", nearest_mode="floor"
    ),
    "three times as large": resized(scales=[1, 1, 3, 3], **NEAREST),
    "other size": resized(sizes=[2, 6, 13, 9], **NEAREST),
    **{
        f"nearest, {coordinates}, {rounding}": resized(
            scales=[1, 1, 1.6, 0.7], **NEAREST, coordinate_transformation_mode=coordinates, nearest_mode=rounding
        )
        for coordinates in ("asymmetric", "half_pixel", "align_corners")
        for rounding in ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
    },
    "nearest, of one axis": lambda w: w.op(
        "Resize", w.op("Reshape", "x", np.array([0, 6, -1])), "", np.array([1, 1, 0.4], np.float32), **NEAREST
    ),
    **{
        f"{mode}, {coordinates}": resized(
            scales=[1, 1, 1.6, 0.7], mode=mode, coordinate_transformation_mode=coordinates
        )
        for mode in ("linear", "cubic")
        for coordinates in ("asymmetric", "half_pixel", "pytorch_half_pixel")
    },
    "cubic": resized(sizes=[2, 6, 18, 14], mode="cubic"),
    "cubic, corners aligned": resized(
        sizes=[2, 6, 5, 21], mode="cubic", coordinate_transformation_mode="align_corners"
    ),
    "cubic, nothing outside": resized(sizes=[2, 6, 13, 9], mode="cubic", cubic_coeff_a=-0.5, exclude_outside=1),
    "linear": resized(sizes=[2, 6, 18, 21], **LINEAR),
    "linear, smaller": resized(sizes=[2, 6, 5, 6], **LINEAR, coordinate_transformation_mode="pytorch_half_pixel"),
    "by a scale that float32 rounds": lambda w: w.op(
        "Resize", w.op("Pad", "x", np.array([0, 0, 0, 0, 0, 0, 1, 6])), "", np.array([1, 1, 0.7, 0.7], np.float32),
        **LINEAR,
    ),
    "linear, to one row": resized(sizes=[2, 6, 1, 21], **LINEAR),
    "cubic, to one row": resized(
        sizes=[2, 6, 1, 21], mode="cubic", coordinate_transformation_mode="pytorch_half_pixel"
    ),
    "linear, corners aligned": resized(scales=[1, 1, 2, 3], **LINEAR, coordinate_transformation_mode="align_corners"),
}  # fmt: skip

OTHER_OPSETS: dict[str, tuple[int, Build]] = {
    "upsample 8": (8, lambda w: w.op("Upsample", "x", scales=[1.0, 1.0, 2.0, 2.0])),
    "upsample": (9, lambda w: w.op("Upsample", "x", np.array([1, 1, 2, 2], np.float32))),
    "resize": (10, lambda w: w.op("Resize", "x", np.array([1, 1, 2, 2.5], np.float32))),
    "resize 11": (
        11, lambda w: w.op("Resize", "x", np.zeros(0, np.float32), np.array([1, 1, 2, 2], np.float32))
    ),
    "resize of axes": (18, lambda w: w.op("Resize", "x", "", "", np.array([18, 28]), axes=[2, 3], mode="nearest")),
    "linear, smoothed": (18, resized(sizes=[2, 6, 5, 9], **LINEAR, antialias=1)),
    "cubic, smoothed": (18, resized(sizes=[2, 6, 5, 9], mode="cubic", antialias=1)),
    "resize to at most a size": (18, kept_proportions("not_larger")),
    "resize to at least a size": (18, kept_proportions("not_smaller")),
}  # fmt: skip
