"""Operators that move, cut, join and repeat values."""

from __future__ import annotations

from quantkit.ir.graph import Tensor
from tests.lowering.operators.build import Build, one
from tests.networks import DATA, Builder


def split(squeeze: bool) -> Build:
    def build(b: Builder) -> Tensor:
        b.op("SliceChannel", "parts", DATA, num_outputs=6 if squeeze else 3, axis=1, squeeze_axis=squeeze)
        return b.op("elemwise_sub", "one", Tensor("parts", 2), Tensor("parts", 0))

    return build


def cut_like(b: Builder) -> Tensor:
    """Of constants, as anchors are, by the size of a map."""
    constant = b.param("constant", b.random.normal(size=(1, 1, 20, 20)))
    return b.op("broadcast_add", "one", DATA, b.op("slice_like", "cut", constant, DATA, axes=(2, 3)))


def repeated(*reps: int) -> Build:
    """Of a tensor with as many axes, or with one less; then the batch comes second until it is moved."""

    def build(b: Builder) -> Tensor:
        tiled = b.op("tile", "one", DATA, reps=reps)
        return b.op("transpose", "turned", tiled, axes=(1, 0, 2, 3, 4)) if len(reps) > 4 else tiled

    return build


def rows_of_all(b: Builder) -> Tensor:
    """As dense layers of Gluon read sequences."""
    rows = b.op("Reshape", "rows", DATA, shape=(-1, 14))
    return b.op("Reshape", "one", rows, shape=(-4, -1, 54, 0))


def in_one_row(b: Builder) -> Tensor:
    """As in R-CNN: regions of all images, after each other and apart again."""
    rows = b.op("Reshape", "rows", DATA, shape=(-3, 0, 0))
    squares = b.op("square", "squares", b.op("Reshape", "flat", rows, shape=(0, -1)))
    return b.op("Reshape", "one", squares, shape=(-4, -1, 6, 0))


def like_another(b: Builder) -> Tensor:
    return b.op("reshape_like", "one", b.op("Reshape", "rows", DATA, shape=(0, 0, -1)), DATA)


def like_the_sides_of_another(b: Builder) -> Tensor:
    """As in DANet: all but the first axes."""
    rows = b.op("square", "squares", b.op("Reshape", "rows", DATA, shape=(0, 0, -1)))
    return b.op("reshape_like", "one", rows, DATA, lhs_begin=2, rhs_begin=2)


def like_rows_of_all(b: Builder) -> Tensor:
    """Like a tensor whose second axis is the batch."""
    turned = b.op("transpose", "turned", DATA, axes=(1, 0, 2, 3))
    rows = b.op("square", "squares", b.op("Reshape", "rows", turned, shape=(-1, 14)))
    return b.op("transpose", "one", b.op("reshape_like", "like", rows, turned), axes=(1, 0, 2, 3))


CASES: dict[str, Build] = {
    "reshape like a tensor with the batch second": like_rows_of_all,
    "reshape like another": like_another,
    "reshape like the sides of another": like_the_sides_of_another,
    "stack": one("stack", "data", "exp", num_args=2, axis=2),
    "rows of all images": rows_of_all,
    "images in one row": in_one_row,
    "constants cut to size": cut_like,
    "repeated values": one("repeat", repeats=3, axis=2),
    "repeated values along the last axis": one("repeat", repeats=2, axis=-1),
    "repetition": repeated(1, 2, 1, 3),
    "repetition along the last axes": repeated(2, 3),
    "repetition along an axis more": repeated(2, 1, 1, 1, 1),
    "flatten": one("Flatten"),
    **{
        f"reshape {codes}": one("Reshape", shape=codes)
        for codes in ((0, -1), (-1, 756), (0, 0, -3), (0, -4, 2, -1, -2), (0, 2, 3, 9, 14), (-2, 1))
    },
    "concat": one("Concat", "data", "exp", num_args=2, dim=2),
    "concat by default": one("Concat", "data", "exp", num_args=2),
    "transpose": one("transpose", axes=(0, 2, 3, 1)),
    "swapped axes": one("SwapAxis", dim1=1, dim2=3),
    "one more axis": one("expand_dims", axis=2),
    "one axis less": lambda b: b.op("squeeze", "one", b.op("expand_dims", "more", DATA, axis=-1), axis=-1),
    "slice": one("slice_axis", axis=2, begin=2, end=-1),
    "slice to the end": one("slice_axis", axis=-1, begin=3, end=None),
    "split": split(False),
    "split and squeezed": split(True),
    "padding": one("Pad", mode="constant", pad_width=(0, 0, 0, 0, 1, 2, 3, 4), constant_value=0.5),
    "reflection": one("Pad", mode="reflect", pad_width=(0, 0, 0, 0, 1, 2, 3, 4)),
    "edge": one("Pad", mode="edge", pad_width=(0, 0, 0, 0, 1, 2, 3, 4)),
    "slice of all axes": one("slice", begin="(None, 1, 2, None)", end="(None, 5, None, 9)"),
    "slice in steps": one(
        "slice", begin="(None, None, None, None)", end="(None, None, None, None)", step="(1, 1, 2, -3)"
    ),
    "slice of nothing": one("slice", begin="(None, None)", end="(None, None)"),
    "spread": lambda b: b.op(
        "broadcast_axis", "one", b.op("mean", "mean", DATA, axis=(2, 3), keepdims=True), axis=(2, 3), size=(5, 7)
    ),
    "depth to space": lambda b: b.op(
        "depth_to_space", "one", b.op("Concat", "wide", DATA, DATA, num_args=2), block_size=2
    ),
    "space to depth": lambda b: b.op(
        "space_to_depth", "one", b.op("slice_axis", "even", DATA, axis=2, begin=0, end=8), block_size=2
    ),
    "spread like another": lambda b: b.op(
        "broadcast_like", "one", b.op("mean", "mean", DATA, axis=(2, 3), keepdims=True), DATA
    ),
    "swapped axes by default": one("SwapAxis"),
    "split by default": lambda b: b.op("SliceChannel", "one", DATA, num_outputs=2),
    "split of rows": one("SliceChannel", num_outputs=3, axis=2),
    "padding by default": one("Pad", mode="constant", pad_width=(0, 0, 0, 0, 1, 2, 3, 4)),
    "axes turned round, twice": lambda b: b.op("transpose", "one", b.op("transpose", "turned", DATA)),
}  # fmt: skip
