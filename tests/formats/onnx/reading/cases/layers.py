"""Convolutions and dense layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.formats.onnx.reading.cases.build import Build
from tests.formats.onnx.reading.files import Writer


def conv(**attributes: Any) -> Build:
    return lambda w: w.conv("x", 6, 8, **attributes)


def transposed(groups: int = 1, kernel: int = 3, **attributes: Any) -> Build:
    return lambda w: w.op(
        "ConvTranspose", "x", w.normal(6, 4, kernel, kernel), w.normal(4 * groups), group=groups, **attributes
    )


def deformable(places: int, mask: str, bias: bool, sets: int = 1, **attributes: Any) -> Build:
    """With places and masks of another convolution's result, some of the places beyond the border."""

    def build(w: Writer) -> str:
        channels = 6 // attributes.get("group", 1)
        where = w.op("Conv", "x", w.normal(3 * places * sets, channels, 3, 3), **attributes)
        offsets, half = w.op("Split", where, np.array([2 * places * sets, places * sets]), axis=1, count=2)
        inputs = ["x", w.normal(8, channels, 3, 3), offsets]
        masks = {
            "computed": lambda: w.op("Sigmoid", half),
            "constant": lambda: w.op("Expand", 0.75, w.op("Shape", half)),
            "": lambda: "",
        }
        more = [w.normal(8) if bias else "", masks[mask]()]
        return w.op("DeformConv", *inputs, *more, offset_group=sets, **attributes)

    return build


def gemm(features: int = 6, units: int = 5, turned: bool = True, bias: Any = (5,), **attributes: Any) -> Build:
    def build(w: Writer) -> str:
        flat = w.op("Flatten", w.op("GlobalAveragePool", "x"))
        weight = w.normal(*((units, features) if turned else (features, units)))
        return w.op(
            "Gemm", flat, weight, *([] if bias is None else [w.normal(*bias)]), transB=int(turned), **attributes
        )

    return build


def product(bias: bool, first: bool = False) -> Build:
    def build(w: Writer) -> str:
        result = w.op("MatMul", "x", w.normal(14, 5))
        if not bias:
            return result
        return w.op("Add", w.normal(5), result) if first else w.op("Add", result, w.normal(5))

    return build


CASES: dict[str, Build] = {
    "conv": conv(bias=False),
    "conv with everything": conv(groups=2, strides=[2, 1], dilations=[1, 2], pads=[1, 2, 1, 2], kernel=3),
    "conv, other padding behind": conv(pads=[0, 0, 1, 1], strides=[2, 2]),
    "conv, as TensorFlow": conv(auto_pad="SAME_UPPER", strides=[2, 2]),
    "conv, same lower": conv(auto_pad="SAME_LOWER", kernel=2),
    "conv, valid": conv(auto_pad="VALID"),
    "conv, padding wider than its window": conv(kernel=1, pads=[1, 2, 0, 2]),
    "conv after padding": lambda w: w.conv(w.op("Pad", "x", np.array([0, 0, 1, 1, 0, 0, 1, 1])), 6, 8),
    "conv after padding of ones": lambda w: w.conv(w.op("Pad", "x", np.array([0, 0, 1, 1, 0, 0, 1, 1]), 1.0), 6, 8),
    "conv after padding behind": lambda w: w.conv(
        w.op("Pad", "x", np.array([0, 0, 0, 0, 0, 0, 1, 1])), 6, 8, pads=[1, 1, 0, 0]
    ),
    "conv of one axis": lambda w: w.op(
        "Conv", w.op("Reshape", "x", np.array([0, 6, -1])), w.normal(4, 6, 5), pads=[2, 2]
    ),
    "conv of three axes": lambda w: w.op(
        "Conv", w.op("Reshape", "x", np.array([0, 3, 2, 9, 14])), w.normal(4, 3, 2, 3, 3)
    ),
    "conv and a constant": lambda w: w.op("Add", w.conv("x", 6, 8, bias=False), w.normal(1, 8, 1, 1)),
    "conv and a constant, read twice": lambda w: w.op(
        "Concat", (c := w.conv("x", 6, 8, bias=False)), w.op("Add", c, w.normal(8, 1, 1)), axis=1
    ),
    "conv and a constant image": lambda w: w.op("Add", w.conv("x", 6, 1, bias=False), w.normal(1, 1, 7, 12)),
    "transposed conv": transposed(),
    "transposed conv with everything": transposed(
        groups=2, strides=[2, 3], pads=[1, 0, 1, 0], output_padding=[1, 0], dilations=[1, 2]
    ),
    "transposed conv, other padding behind": transposed(strides=[2, 2], pads=[0, 0, 1, 1]),
    "transposed conv of a size": transposed(strides=[2, 2], output_shape=[18, 28]),
    "transposed conv, same": transposed(strides=[2, 2], auto_pad="SAME_UPPER"),
    "transposed conv and a constant": lambda w: w.op(
        "Add", w.op("ConvTranspose", "x", w.normal(6, 4, 2, 2)), w.normal(4, 1, 1)
    ),
    "gemm": gemm(),
    "gemm without bias": gemm(bias=None),
    "gemm with everything": gemm(turned=False, alpha=0.5, beta=2.0, bias=(1, 5)),
    "gemm with one bias": gemm(bias=(1,)),
    "gemm in a batch of one": lambda w: w.op(
        "Gemm", w.op("Flatten", w.op("GlobalMaxPool", "x")), w.normal(1, 6), w.normal(1), transB=1
    ),
    "product": product(False),
    "product and bias": product(True),
    "bias and product": product(True, first=True),
    "products of two": lambda w: w.op(
        "MatMul", (r := w.op("Reshape", "x", np.array([0, 6, -1]))), w.op("Transpose", w.op("Tanh", r), perm=[0, 2, 1])
    ),
    "products of two, several for an image": lambda w: w.op(
        "MatMul", w.op("Transpose", w.op("Tanh", "x"), perm=[0, 1, 3, 2]), "x"
    ),
}  # fmt: skip

OTHER_OPSETS: dict[str, tuple[int, Build]] = {
    "gemm 7": (7, gemm()),
    "deformable conv": (19, deformable(9, "computed", False)),
    "deformable conv with everything": (
        19, deformable(9, "computed", True, sets=2, group=2, pads=[1, 2, 1, 2], strides=[2, 1], dilations=[1, 2])
    ),
    "deformable conv with one share everywhere": (19, deformable(9, "constant", True, pads=[1, 1, 1, 1])),
    "deformable conv without mask, other padding behind": (19, deformable(9, "", True, pads=[0, 0, 1, 2])),
}  # fmt: skip
