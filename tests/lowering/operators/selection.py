"""Choices by value, order or place, and boxes."""

from __future__ import annotations

from typing import Any

import numpy as np

from quantkit.ir.graph import Tensor
from tests.lowering.operators.build import Build, one
from tests.networks import DATA, Builder


def chosen_row(b: Builder) -> Tensor:
    rows, place = b.param("rows", b.random.normal(size=(4, 6, 1, 1))), b.param("place", np.array([-2]))
    return b.op("broadcast_add", "one", DATA, b.op("take", "row", rows, place))


def decoded(**attrs: Any) -> Build:
    def build(b: Builder) -> Tensor:
        offsets = b.op("Reshape", "offsets", DATA, shape=(0, -1, 4))
        anchors = b.random.uniform(1, 5, size=(1, 189, 4)) + np.array([0, 0, 5, 5])
        stds = {f"std{column}": 0.1 + 0.1 * column for column in range(4)}
        return b.op("_contrib_box_decode", "one", offsets, b.param("anchors", anchors), **stds, **attrs)

    return build


def suppressed(numbers: str = "whole", lists: int = 1, **attrs: Any) -> Build:
    """Of 126 boxes for each image, of three classes, with scores of both signs.

    The numbers of the classes are whole, fractions, or whole ones of both signs. Boxes are one list, or several.
    """

    def build(b: Builder) -> Tensor:
        rows = b.op("Reshape", "rows", DATA, shape=(0, -1, 6) if lists == 1 else (0, lists, -1, 6))

        def columns(begin: int, end: int) -> Tensor:
            return b.op("slice_axis", f"from{begin}", rows, axis=-1, begin=begin, end=end)

        ids = columns(0, 1) if numbers == "signed" else b.op("abs", "positive", columns(0, 1))
        ids = b.op("clip", "classes", ids, a_min=-2, a_max=2)
        ids = ids if numbers == "fractions" else b.op("floor", "ids", ids)
        first = b.op("_mul_scalar", "first", columns(2, 4), scalar=3.0)
        size = b.op("_plus_scalar", "size", b.op("abs", "extent", columns(4, 6)), scalar=2.0)
        parts = (ids, columns(1, 2), first, b.op("broadcast_add", "last", first, size))
        boxes = b.op("Concat", "boxes", *parts, num_args=4, dim=-1)
        given = {"id_index": 0, "overlap_thresh": 0.2, "valid_thresh": 0.01, **attrs}
        return b.op("_contrib_box_nms", "one", boxes, **given)

    return build


def largest_of_both(b: Builder) -> Tensor:
    b.op("topk", "best", DATA, k=4, ret_typ="both", axis=2)
    return b.op("elemwise_add", "one", Tensor("best"), Tensor("best", 1))


def by_index(b: Builder) -> Tensor:
    """As in CenterNet: of each image the values at its largest ones."""
    numbers = b.op("slice_like", "numbers", b.op("_arange", "many", start=0, stop=256), DATA, axes=(0,))
    images = b.op("tile", "images", b.op("expand_dims", "column", numbers, axis=1), reps=(1, 5))
    flat = b.op("Reshape", "flat", DATA, shape=(0, -1))
    where = b.op("stack", "where", images, b.op("topk", "best", flat, k=5), num_args=2, axis=0)
    return b.op("gather_nd", "one", flat, where)


def by_order(b: Builder) -> Tensor:
    """As in Mask R-CNN: of each image the largest values, by an order of all."""
    flat = b.op("Reshape", "flat", DATA, shape=(0, -1))
    best = b.op("slice_axis", "best", b.op("argsort", "order", flat, axis=1, is_ascend=False), axis=1, begin=0, end=5)
    numbers = b.op("_contrib_arange_like", "numbers", best, axis=0)
    images = b.op("tile", "images", b.op("expand_dims", "column", numbers, axis=1), reps=(1, 5))
    return b.op("gather_nd", "one", flat, b.op("stack", "where", images, best, num_args=2, axis=0))


CASES: dict[str, Build] = {
    "choice by truth": lambda b: b.op(
        "where", "one", b.op("_greater_scalar", "truth", DATA, scalar=0.5), DATA, b.op("exp", "exp", DATA)
    ),
    "largest values": one("topk", k=3, ret_typ="value"),
    "order": one("argsort"),
    "order along an axis, the largest first": one("argsort", axis=1, is_ascend=False),
    "places of the largest": one("topk", k=3, axis=1),
    "largest and their places": largest_of_both,
    "values by index": by_index,
    "values by order": by_order,
    "boxes from centres": decoded(format="center"),
    "boxes from what is taken for centres": decoded(),
    "boxes from corners": decoded(format="corner", clip=0.1),
    "suppression by class": suppressed(),
    "suppression across classes": suppressed(force_suppress=True),
    "suppression without classes": suppressed(id_index=-1),
    "suppression of the best": suppressed(topk=20),
    "suppression with a background": suppressed("signed"),
    "suppression with a background among the classes": suppressed(background_id=1),
    "suppression across classes with a background": suppressed("signed", force_suppress=True, background_id=0),
    "suppression by parts of numbers": suppressed("fractions"),
    "suppression of none": suppressed(overlap_thresh=2.0),
    "suppression in several lists": suppressed(lists=3),
    "suppression of the best of each list": suppressed(lists=3, topk=15, id_index=-1),
    "choice": lambda b: b.op("take", "one", DATA, b.param("places", np.array([3, 0, 99, 3])), axis=2, mode="clip"),
    "largest's place": one("argmax", axis=1),
    "largest's place, kept": one("argmax", axis=-1, keepdims=True),
    "choice of rows by default": chosen_row,
}  # fmt: skip
