"""What moves, repeats, picks and pads values, and softmax over axes."""

from __future__ import annotations

import numpy as np

from tests.formats.onnx.reading.cases.build import Build, one
from tests.formats.onnx.reading.files import Writer


def split(sizes: list[int], axis: int = 1) -> Build:
    def build(w: Writer) -> str:
        parts = w.op("Split", "x", np.array(sizes), count=len(sizes), axis=axis)
        return w.op("Concat", *reversed(parts), axis=axis)

    return build


CASES: dict[str, Build] = {
    "concat": lambda w: w.op("Concat", "x", w.op("Neg", "x"), axis=-3),
    "flatten": one("Flatten"),
    "flatten behind": lambda w: w.op("Reshape", w.op("Flatten", "x", axis=2), np.array([-1, 6, 126])),
    "reshape": one("Reshape", np.array([0, 2, 3, -1, 7])),
    "reshape of the batch": one("Reshape", np.array([-1, 54, 14])),
    "squeeze": lambda w: w.op("Squeeze", w.op("GlobalMaxPool", "x"), np.array([2, -1])),
    "unsqueeze": one("Unsqueeze", np.array([1, -1])),
    "transpose": one("Transpose", perm=[0, 2, 3, 1]),
    "transpose with the batch": lambda w: w.op(
        "Transpose", w.op("Sigmoid", w.op("Transpose", "x", perm=[2, 0, 3, 1])), perm=[1, 0, 2, 3]
    ),
    "two transposes": lambda w: w.op("Transpose", w.op("Transpose", "x", perm=[0, 2, 3, 1]), perm=[0, 2, 3, 1]),
    "slice": one("Slice", np.array([1]), np.array([2**62]), np.array([3])),
    "slice in steps": one("Slice", np.array([0, 1]), np.array([9, -1]), np.array([2, 3]), np.array([2, 3])),
    "slice backwards": one("Slice", np.array([-1]), np.array([-(2**62)]), np.array([1]), np.array([-1])),
    "slice backwards from before the front": one(
        "Slice", np.array([-100]), np.array([-200]), np.array([1]), np.array([-1])
    ),
    "slice of all": one("Slice", np.array([0]), np.array([2**62]), np.array([0])),
    "split in equal parts": split([2, 2, 2]),
    "split in unequal parts": split([1, 3, 2]),
    "split by default": lambda w: w.op("Concat", *w.op("Split", "x", count=2, axis=3)[::-1], axis=1),
    "gather one": one("Gather", np.array(-1), axis=1),
    "gather": one("Gather", np.array([[3, 1], [0, -1]]), axis=1),
    "expand": lambda w: w.op("Expand", w.op("GlobalMaxPool", "x"), np.array([1, 1, 4, 1])),
    "tile": one("Tile", np.array([1, 2, 1, 3])),
    "pad of one axis": lambda w: w.op(
        "Pad", w.op("Reshape", "x", np.array([0, 6, -1])), np.array([0, 0, 2, 0, 0, 1]), 0.5
    ),
    "pad": one("Pad", np.array([0, 0, 1, 0, 0, 0, 0, 2]), 0.5),
    "pad by mirroring": one("Pad", np.array([0, 0, 1, 0, 0, 0, 0, 2]), mode="reflect"),
    "pad by repeating": one("Pad", np.array([0, 0, 1, 0, 0, 0, 0, 2]), mode="edge"),
    "softmax": one("Softmax"),
    "softmax of channels": one("Softmax", axis=1),
    "log softmax": one("LogSoftmax", axis=1),
    "depth to space": lambda w: w.op("DepthToSpace", w.conv("x", 6, 8), blocksize=2),
    "depth to space, columns first": lambda w: w.op("DepthToSpace", w.conv("x", 6, 8), blocksize=2, mode="CRD"),
    "space to depth": lambda w: w.op("SpaceToDepth", w.op("Concat", "x", "x", axis=2), blocksize=2),
}  # fmt: skip

OTHER_OPSETS: dict[str, tuple[int, Build]] = {
    "pad by attributes": (9, one("Pad", pads=[0, 0, 1, 0, 0, 0, 0, 2], value=0.5)),
    "slice by attributes": (9, one("Slice", starts=[1, 2], ends=[-1, 100], axes=[2, 3])),
    "squeeze by attributes": (9, lambda w: w.op("Squeeze", w.op("GlobalMaxPool", "x"), axes=[2, 3])),
    "unsqueeze by attributes": (9, one("Unsqueeze", axes=[4])),
    "split by attributes": (9, lambda w: w.op("Split", "x", count=2, axis=1, split=[2, 4])[1]),
    "softmax over all behind": (9, one("Softmax", axis=2)),
    "softmax by default": (11, one("Softmax")),
    "softmax of one axis": (9, one("Softmax", axis=3)),
    "log softmax over all behind": (12, one("LogSoftmax", axis=1)),
    "pad of axes": (18, one("Pad", np.array([1, 2]), "", np.array([3]))),
    "split by number": (18, lambda w: w.op("Split", "x", count=3, axis=3, num_outputs=3)[2]),
}  # fmt: skip
