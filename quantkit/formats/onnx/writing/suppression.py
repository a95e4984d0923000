"""Non-maximum suppression in ONNX, with its results in the rows in which MXNet has them.

ONNX's operator gives the places of the boxes that stay. Engines differ in which of two equal scores comes first, and in
whether an overlap of exactly the threshold is too much. So boxes are sorted with an order among equal scores, and the
operator reads ranks instead of scores, and a threshold that no overlap is likely to have.
"""

from __future__ import annotations

import numpy as np

from quantkit.formats.onnx.writing.conversion import FLOAT, INT64, Conversion, Operator, refused
from quantkit.ir.graph import Node
from quantkit.ir.operators import flag, integer, number

_NONE = -1.0
"""What MXNet writes in place of suppressed boxes."""

# OpenVINO has integers of 32 bits only.
_LARGEST_KEY = 2**31 - 1

_LARGEST_CLASS = 2**30


def box_nms(conversion: Conversion, node: Node) -> None:
    """Boxes by descending score, without those that overlap one before of their class; -1 in what rows are left."""
    shape, rows = conversion.shape(node.inputs[0]), conversion.read(node.inputs[0])
    if len(shape) < 3 or {node.attrs.get(key, "corner") for key in ("in_format", "out_format")} != {"corner"}:
        raise refused(node, "other suppression than of corners in rows of images")
    overlap = number(node, "overlap_thresh", 0.5)
    if overlap < 0 or number(node, "valid_thresh", 0.0) < 0:
        raise refused(node, "scores or overlaps below zero")
    if len(shape) > 3:
        # Each image may have several lists.
        lists = conversion.integers(node, "lists", (-1, *shape[-2:]))
        rows = conversion.step(node, "flat", "Reshape", rows, lists)
    known, asked = shape[-2], integer(node, "topk", -1)
    count = min(known, asked) if asked > 0 else known
    none = conversion.floats(node, "none", _NONE)
    scores = _valid_scores(conversion, node, rows, none)
    best, rows = _sorted_stably(conversion, node, scores, rows, known, count)
    valid = conversion.step(node, "valid", "Greater", best, conversion.floats(node, "invalid", _NONE / 2))
    descending = conversion.constant(node, "ranks", np.arange(count, 0, -1, dtype=np.float32)[None])
    ranks = conversion.step(node, "ranked", "Where", valid, descending, none)
    # No overlap is larger than 1.
    if overlap < 1:
        kept = _kept(conversion, node, rows, ranks, none, count)
        left = conversion.step(node, "unsuppressed", "Where", kept, ranks, none)
        ranks, rows = _sorted(conversion, node, "left", left, rows, count)
    zero, last = conversion.floats(node, "zero", 0.0), conversion.integers(node, "last", (2,))
    some = conversion.step(node, "some", "Unsqueeze", conversion.step(node, "full", "Greater", ranks, zero), last)
    filled = conversion.step(node, "filled", "Where", some, rows, none)
    if count < known:
        pads = conversion.integers(node, "pads", (0, 0, 0, 0, known - count, 0))
        filled = conversion.step(node, "padded", "Pad", filled, pads, none)
    conversion.finish(node, "Reshape", filled, conversion.integers(node, "shape", (-1, *shape[1:])))


def _valid_scores(conversion: Conversion, node: Node, rows: str, none: str) -> str:
    """The scores of all boxes; -1 of those that are too small, or of the background."""
    scores = column_of(conversion, node, "scores", rows, integer(node, "score_index", 1))
    least = conversion.floats(node, "least", number(node, "valid_thresh", 0.0))
    # In OpenVINO a score that is no number is greater than any, but none is less than it.
    high = conversion.step(node, "high", "Less", least, scores)
    scores = conversion.step(node, "high_scores", "Where", high, scores, none)
    if (column := integer(node, "id_index", -1)) < 0:
        return scores
    ids = column_of(conversion, node, "all_ids", rows, column)
    number_of_it = conversion.floats(node, "background", integer(node, "background_id", -1))
    background = conversion.step(node, "of_background", "Equal", ids, number_of_it)
    return conversion.step(node, "valid_scores", "Where", background, none, scores)


def _kept(conversion: Conversion, node: Node, rows: str, ranks: str, none: str, count: int) -> str:
    """Whether non-maximum suppression keeps each box: (images, boxes)."""
    overlap = np.nextafter(np.float32(number(node, "overlap_thresh", 0.5)), np.float32(1))
    # OpenVINO takes what follows 0 for 0, and no overlap for as much.
    overlap = np.maximum(overlap, np.finfo(np.float32).tiny)
    chosen = conversion.step(
        node,
        "chosen",
        "NonMaxSuppression",
        _corners(conversion, node, rows),
        _by_class(conversion, node, rows, ranks, none),
        conversion.integers(node, "count", (count,)),
        # ONNX's evaluator reads no scalars here.
        conversion.constant(node, "overlap", overlap[None]),
        conversion.constant(node, "lowest", np.zeros(1, np.float32)),
    )
    columns = conversion.integers(node, "image_and_box", (0, 2))
    places = conversion.step(node, "places", "Gather", chosen, columns, axis=1)
    # As many marks as places: classes are counted from 0 on, so that each number with 1 added is above 0.
    column = conversion.constant(node, "class_column", np.array(1))
    numbers = conversion.step(node, "class_numbers", "Gather", chosen, column, axis=1)
    numbers = conversion.step(node, "numbers", "Cast", numbers, to=FLOAT)
    marks = conversion.step(node, "marks", "Add", numbers, conversion.floats(node, "mark", 1.0))
    nothing = conversion.floats(node, "nothing", 0.0)
    unmarked = conversion.step(node, "unmarked", "Mul", ranks, nothing)
    marked = conversion.step(node, "marked", "ScatterND", unmarked, places, marks)
    return conversion.step(node, "kept", "Greater", marked, nothing)


def _corners(conversion: Conversion, node: Node, rows: str) -> str:
    """The corners of the boxes: (images, boxes, 4).

    Where a second corner lies before the first, MXNet has no area, and ONNX would have the corners exchanged.
    """
    begin = integer(node, "coord_start", 2)
    first = columns_of(conversion, node, "corner", rows, begin, begin + 2)
    second = columns_of(conversion, node, "opposite", rows, begin + 2, begin + 4)
    beyond = conversion.step(node, "beyond", "Max", first, second)
    return conversion.step(node, "boxes", "Concat", first, beyond, axis=-1)


def _by_class(conversion: Conversion, node: Node, rows: str, ranks: str, none: str) -> str:
    """The ranks of the boxes of each class, -1 for those of others: (images, classes, boxes).

    As in MXNet, classes are whole numbers. All boxes are of one class where they suppress each other anyway.
    """
    axis = conversion.integers(node, "middle", (1,))
    of_all = conversion.step(node, "of_all", "Unsqueeze", ranks, axis)
    column = integer(node, "id_index", -1)
    if column < 0 or flag(node, "force_suppress"):
        return of_all
    zero = conversion.floats(node, "no_class", 0.0)
    ranked = conversion.step(node, "has_class", "Greater", ranks, zero)
    # What is no box may have any number.
    ids = column_of(conversion, node, "ids", rows, column)
    ids = conversion.step(node, "ids_of_boxes", "Where", ranked, ids, zero)
    ids = conversion.step(node, "whole_ids", "Cast", ids, to=INT64)
    ends = (
        conversion.constant(node, f"{name}_class", np.array(sign * _LARGEST_CLASS))
        for name, sign in (("least", -1), ("most", 1))
    )
    ids = conversion.step(node, "classes", "Clip", ids, *ends)
    # Those that occur, however far apart their numbers are.
    every = conversion.step(node, "every", "Unique", ids)
    ids = conversion.step(node, "of_boxes", "Unsqueeze", ids, axis)
    own = conversion.step(node, "own", "Equal", ids, conversion.step(node, "of_classes", "Unsqueeze", every, axis))
    return conversion.step(node, "by_class", "Where", own, of_all, none)


def _sorted(conversion: Conversion, node: Node, what: str, scores: str, rows: str, count: int) -> tuple[str, str]:
    """The largest of the scores of each image, in descending order, and their rows."""
    values, order = _largest(conversion, node, what, scores, count)
    return values, _ordered(conversion, node, what, rows, order)


def _sorted_stably(
    conversion: Conversion, node: Node, scores: str, rows: str, known: int, count: int
) -> tuple[str, str]:
    """The same, with the rows of equal scores in the order in which they came.

    Which of the boxes that have the last of the scores come with them is left to the engine.
    """
    values, order = _largest(conversion, node, "best", scores, count)
    rows = _ordered(conversion, node, "best", rows, order)
    if not 1 < count <= _LARGEST_KEY // known:
        return values, rows
    # Numbers that grow with each smaller score, and among equal ones with the place that they came from.
    first = columns_of(conversion, node, "first", values, 0, 1)
    others = columns_of(conversion, node, "others", values, 0, count - 1)
    before = conversion.step(node, "before", "Concat", first, others, axis=1)
    smaller = conversion.step(node, "smaller", "Cast", conversion.step(node, "falls", "Less", values, before), to=INT64)
    level = conversion.step(node, "level", "CumSum", smaller, conversion.constant(node, "along", np.array(1)))
    base = conversion.step(node, "base", "Mul", level, conversion.constant(node, "known", np.array(known)))
    keys = conversion.step(node, "keys", "Add", base, order)
    _, order = _largest(conversion, node, "stable", keys, count, largest=0)
    return values, _ordered(conversion, node, "stable", rows, order)


def _largest(
    conversion: Conversion, node: Node, what: str, values: str, count: int, largest: int = 1
) -> tuple[str, str]:
    """The largest values of each image, or the smallest ones, the first of these first; and their places."""
    names = tuple(conversion.names.take(f"{node.name}_{what}{part}") for part in ("", "_order"))
    limit = conversion.integers(node, f"{what}_count", (count,))
    conversion.add(Operator("TopK", names[0], (values, limit), names, {"axis": 1, "largest": largest}))
    return names[0], names[1]


def _ordered(conversion: Conversion, node: Node, what: str, rows: str, order: str) -> str:
    """Rows of each image by their places."""
    axis = conversion.integers(node, f"{what}_axis", (2,))
    places = conversion.step(node, f"{what}_places", "Unsqueeze", order, axis)
    return conversion.step(node, f"{what}_rows", "GatherND", rows, places, batch_dims=1)


def column_of(conversion: Conversion, node: Node, what: str, tensor: str, column: int) -> str:
    """One column of the last axis of three, without that axis."""
    place = conversion.constant(node, f"{what}_column", np.array(column))
    return conversion.step(node, what, "Gather", tensor, place, axis=2)


def columns_of(conversion: Conversion, node: Node, what: str, tensor: str, begin: int, end: int) -> str:
    """Columns of the last axis."""
    limits = {"starts": begin, "ends": end, "axes": -1}
    arguments = [conversion.integers(node, f"{what}_{limit}", (value,)) for limit, value in limits.items()]
    return conversion.step(node, f"{what}_columns", "Slice", tensor, *arguments)
