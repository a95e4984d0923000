"""Boxes in ONNX: decoded from offsets to anchors, and suppressed where they overlap."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from quantkit.formats.onnx.writing.conversion import FLOAT, Conversion, Converter, Operator, refused
from quantkit.ir.graph import Node
from quantkit.ir.operators import flag, integer, number

_NONE = -1.0
"""What MXNet writes in place of suppressed boxes."""


def _box_decode(conversion: Conversion, node: Node) -> None:
    """Girshick et al. 2014, "Rich feature hierarchies": offsets in sizes of anchors, and logarithms of scales."""
    offsets, anchors = map(conversion.read, node.inputs)
    first, last = _columns(conversion, node, "anchor", anchors, 0, 2), _columns(conversion, node, "end", anchors, 2, 4)
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
            _columns(conversion, node, what, offsets, begin, begin + 2),
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


def _box_nms(conversion: Conversion, node: Node) -> None:
    """Boxes by descending score, without those that overlap one before of their class; -1 in what rows are left."""
    shape, data = conversion.shape(node.inputs[0]), conversion.read(node.inputs[0])
    forms = {node.attrs.get(key, "corner") for key in ("in_format", "out_format")}
    if len(shape) != 3 or forms != {"corner"} or integer(node, "background_id", -1) >= 0:
        raise refused(node, "other suppression than of corners in rows of images, with no class for the background")
    least = number(node, "valid_thresh", 0.0)
    if least < 0:
        raise refused(node, "scores below zero")
    known, asked = shape[1], integer(node, "topk", -1)
    count = min(known, asked) if asked > 0 else known
    none = conversion.floats(node, "none", _NONE)
    column = integer(node, "score_index", 1)
    scores = _column(conversion, node, "scores", data, column)
    valid = conversion.step(node, "valid", "Greater", scores, conversion.floats(node, "least", least))
    counted = conversion.step(node, "counted", "Where", valid, scores, none)
    best, rows = _sorted(conversion, node, "best", counted, data, count)
    begin = integer(node, "coord_start", 2)
    boxes = _columns(conversion, node, "boxes", rows, begin, begin + 4)
    class_column = integer(node, "id_index", -1)
    if class_column >= 0 and not flag(node, "force_suppress"):
        boxes = _apart(conversion, node, boxes, _columns(conversion, node, "ids", rows, class_column, class_column + 1))
    marked = _suppressed(conversion, node, boxes, best, count)
    kept = conversion.step(node, "kept", "Greater", marked, conversion.floats(node, "half", 0.5))
    scored = conversion.step(node, "scored", "Where", kept, best, none)
    left, moved = _sorted(conversion, node, "left", scored, rows, count)
    some = conversion.step(node, "some", "Greater", left, conversion.floats(node, "below", _NONE / 2))
    some = conversion.step(node, "rows_kept", "Unsqueeze", some, conversion.integers(node, "last", (2,)))
    if count == known:
        conversion.finish(node, "Where", some, moved, none)
        return
    pads = conversion.integers(node, "pads", (0, 0, 0, 0, known - count, 0))
    conversion.finish(node, "Pad", conversion.step(node, "filled", "Where", some, moved, none), pads, none)


def _suppressed(conversion: Conversion, node: Node, boxes: str, scores: str, count: int) -> str:
    """1 for each box that non-maximum suppression keeps, 0 for the others: (images, boxes)."""
    axis = conversion.integers(node, "middle", (1,))
    chosen = conversion.step(
        node,
        "chosen",
        "NonMaxSuppression",
        boxes,
        conversion.step(node, "by_class", "Unsqueeze", scores, axis),
        conversion.integers(node, "count", (count,)),
        conversion.floats(node, "overlap", number(node, "overlap_thresh", 0.5)),
        conversion.floats(node, "lowest", number(node, "valid_thresh", 0.0)),
    )
    columns = conversion.integers(node, "image_and_box", (0, 2))
    places = conversion.step(node, "places", "Gather", chosen, columns, axis=1)
    # There is one class, of the number 0.
    classes = conversion.step(node, "classes", "Gather", chosen, conversion.constant(node, "one", np.array(1)), axis=1)
    zeros = conversion.step(node, "zeros", "Cast", classes, to=FLOAT)
    marks = conversion.step(node, "marks", "Add", zeros, conversion.floats(node, "mark", 1.0))
    unmarked = conversion.step(node, "unmarked", "Mul", scores, conversion.floats(node, "nothing", 0.0))
    return conversion.step(node, "marked", "ScatterND", unmarked, places, marks)


def _sorted(conversion: Conversion, node: Node, what: str, scores: str, rows: str, count: int) -> tuple[str, str]:
    """The largest of the scores of each image, in descending order, and their rows."""
    values, order = (conversion.names.take(f"{node.name}_{what}{part}") for part in ("", "_order"))
    limit = conversion.integers(node, f"{what}_count", (count,))
    conversion.add(Operator("TopK", values, (scores, limit), (values, order), {"axis": 1}))
    places = conversion.step(
        node, f"{what}_places", "Unsqueeze", order, conversion.integers(node, f"{what}_axis", (2,))
    )
    return values, conversion.step(node, f"{what}_rows", "GatherND", rows, places, batch_dims=1)


def _apart(conversion: Conversion, node: Node, boxes: str, ids: str) -> str:
    """Boxes of different classes moved so far from each other that they do not overlap."""
    largest = conversion.step(node, "largest", "ReduceMax", conversion.step(node, "sizes", "Abs", boxes), keepdims=0)
    twice = conversion.step(node, "twice", "Mul", largest, conversion.floats(node, "two", 2.0))
    distance = conversion.step(node, "distance", "Add", twice, conversion.floats(node, "gap", 1.0))
    return conversion.step(node, "apart", "Add", boxes, conversion.step(node, "shift", "Mul", ids, distance))


def _column(conversion: Conversion, node: Node, what: str, tensor: str, column: int) -> str:
    """One column of the last axis of three, without that axis."""
    place = conversion.constant(node, f"{what}_column", np.array(column))
    return conversion.step(node, what, "Gather", tensor, place, axis=2)


def _columns(conversion: Conversion, node: Node, what: str, tensor: str, begin: int, end: int) -> str:
    """Columns of the last axis."""
    limits = {"starts": begin, "ends": end, "axes": -1}
    arguments = [conversion.integers(node, f"{what}_{limit}", (value,)) for limit, value in limits.items()]
    return conversion.step(node, f"{what}_columns", "Slice", tensor, *arguments)


DETECTION: Mapping[str, Converter] = {
    "_contrib_box_decode": _box_decode,
    "_contrib_box_nms": _box_nms,
}
