"""Boxes in ONNX: decoded from offsets to anchors, suppressed where they overlap, and maps sampled in them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from quantkit.formats.onnx.writing.conversion import Conversion, Converter, OpsetTooOld
from quantkit.formats.onnx.writing.suppression import box_nms, columns_of
from quantkit.ir.graph import Node
from quantkit.ir.operators import number

# The opset of the operator that samples, and that from which on its mode has another name.
_SAMPLED_FROM, _SAMPLED_LINEARLY_FROM = 16, 20


def _box_decode(conversion: Conversion, node: Node) -> None:
    """Girshick et al. 2014, "Rich feature hierarchies": offsets in sizes of anchors, and logarithms of scales."""
    offsets, anchors = map(conversion.read, node.inputs)
    first, last = (
        columns_of(conversion, node, "anchor", anchors, 0, 2),
        columns_of(conversion, node, "end", anchors, 2, 4),
    )
    half = conversion.floats(node, "half", 0.5)
    if node.attrs.get("format", "center") == "corner":
        size = conversion.step(node, "size", "Sub", last, first)
        centre = conversion.step(node, "middle", "Mul", conversion.step(node, "sum", "Add", first, last), half)
    else:
        centre, size = first, last
    stds = [number(node, f"std{column}", 1.0) for column in range(4)]
    by, grown = (
        conversion.step(
            node,
            f"{what}_scaled",
            "Mul",
            columns_of(conversion, node, what, offsets, begin, begin + 2),
            conversion.constant(node, f"{what}_stds", np.array(stds[begin : begin + 2], np.float32)),
        )
        for what, begin in (("shift", 0), ("growth", 2))
    )
    if (most := number(node, "clip", -1.0)) > 0:
        grown = conversion.step(node, "clipped", "Min", grown, conversion.floats(node, "most", most))
    place = conversion.step(node, "place", "Add", conversion.step(node, "moved", "Mul", by, size), centre)
    wide = conversion.step(node, "wide", "Mul", conversion.step(node, "factor", "Exp", grown), size)
    reach = conversion.step(node, "reach", "Mul", wide, half)
    corners = [conversion.step(node, f"corner{op}", op, place, reach) for op in ("Sub", "Add")]
    conversion.finish(node, "Concat", *corners, axis=-1)


def _bilinear_sampler(conversion: Conversion, node: Node) -> None:
    """In MXNet the first axis after the images holds x and y, in ONNX the last one; what lies outside is 0 in both."""
    if conversion.opset < _SAMPLED_FROM:
        raise OpsetTooOld(node, "maps are sampled at given places", _SAMPLED_FROM)
    data, places = map(conversion.read, node.inputs)
    turned = conversion.step(node, "places", "Transpose", places, perm=(0, 2, 3, 1))
    mode = "linear" if conversion.opset >= _SAMPLED_LINEARLY_FROM else "bilinear"
    conversion.finish(node, "GridSample", data, turned, mode=mode, padding_mode="zeros", align_corners=1)


DETECTION: Mapping[str, Converter] = {
    "_contrib_box_decode": _box_decode,
    "_contrib_box_nms": box_nms,
    "BilinearSampler": _bilinear_sampler,
}
