"""Reductions over axes, and the places of extremes."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from tests.formats.onnx.reading.cases.build import Build, one, positive, typed

CASES: dict[str, Build] = {
    **{
        f"{op} {axes} {keep}": one(op, axes=axes, keepdims=keep)
        for op in ("ReduceMean", "ReduceMax", "ReduceMin")
        for axes, keep in (([2, 3], 1), ([2, 3], 0), ([-1], 0), ([1], 1))
    },
    "sum of axes": one("ReduceSum", np.array([2, -1]), keepdims=0),
    "sum of no axes": one("ReduceSum", noop_with_empty_axes=1),
    **{
        f"{op} {axes} {keep}": positive(op, axes=axes, keepdims=keep)
        for op in ("ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp")
        for axes, keep in (([2, 3], 1), ([-1], 0))
    },
    "logarithm of a sum of large exponentials": lambda w: w.op("ReduceLogSumExp", w.op("Add", "x", 100.0), axes=[1]),
    "greatest, the last of equals": typed(
        TensorProto.INT64, lambda w: w.op("ArgMax", w.op("Floor", "x"), axis=3, select_last_index=1)
    ),
    "greatest, the first of equals": typed(TensorProto.INT64, lambda w: w.op("ArgMax", w.op("Floor", "x"), axis=3)),
    "least": typed(TensorProto.INT64, one("ArgMin", axis=1)),
    "least, the last of equals": typed(
        TensorProto.INT64, lambda w: w.op("ArgMin", w.op("Floor", "x"), axis=2, keepdims=0, select_last_index=1)
    ),
    "greatest": typed(TensorProto.INT64, one("ArgMax", axis=1)),
    "greatest without its axis": typed(
        TensorProto.INT32, lambda w: w.op("Cast", w.op("ArgMax", "x", axis=-1, keepdims=0), to=TensorProto.INT32)
    ),
}  # fmt: skip

OTHER_OPSETS: dict[str, tuple[int, Build]] = {
    "sum by attributes": (11, one("ReduceSum", axes=[1], keepdims=0)),
    "mean by axes as input": (18, one("ReduceMean", np.array([2, 3]), keepdims=0)),
    "max by axes as input": (20, one("ReduceMax", np.array([1]), keepdims=1)),
}  # fmt: skip
