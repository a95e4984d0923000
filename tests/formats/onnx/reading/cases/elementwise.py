"""Arithmetic of two and more tensors, and of one type with another."""

from __future__ import annotations

from onnx import TensorProto

from tests.formats.onnx.reading.cases.build import Build, one, positive, typed
from tests.formats.onnx.reading.files import Writer


def with_mean(op: str, turned: bool = False) -> Build:
    def build(w: Writer) -> str:
        mean = w.op("Exp", w.op("GlobalAveragePool", "x"))
        return w.op(op, mean, "x") if turned else w.op(op, "x", mean)

    return build


CASES: dict[str, Build] = {
    "square": one("Pow", 2.0),
    "power": positive("Pow", 0.3),
    "power of a constant": lambda w: w.op("Pow", 1.5, "x"),
    **{f"{op} scalar": one(op, 1.5) for op in ("Add", "Sub", "Mul", "Div", "Max", "Min")},
    **{f"scalar {op}": lambda w, op=op: w.op(op, 1.5, w.op("Exp", "x")) for op in ("Sub", "Div", "Min")},
    **{f"{op} same": lambda w, op=op: w.op(op, "x", w.op("Exp", "x")) for op in ("Add", "Sub", "Mul", "Div", "Max")},
    **{f"{op} mean": with_mean(op) for op in ("Add", "Sub", "Mul", "Div", "Min")},
    **{f"mean {op}": with_mean(op, True) for op in ("Sub", "Div", "Pow")},
    "channels": lambda w: w.op("Mul", "x", w.normal(6, 1, 1)),
    "columns": lambda w: w.op("Sub", w.normal(14), "x"),
    "sum of many": lambda w: w.op("Sum", "x", w.op("Exp", "x"), w.op("GlobalMaxPool", "x"), "x"),
    "mean of many": lambda w: w.op("Mean", 0.5, "x", w.op("GlobalMaxPool", "x"), "x"),
    "maximum of a constant": lambda w: w.op("Max", w.normal(14), "x", 0.1),
    "maximum of many": lambda w: w.op("Max", "x", w.op("Neg", "x"), 0.5),
    "cast": typed(TensorProto.DOUBLE, one("Cast", to=TensorProto.DOUBLE)),
}  # fmt: skip

OTHER_OPSETS: dict[str, tuple[int, Build]] = {
    "sum 8": (8, lambda w: w.op("Sum", "x", w.op("GlobalMaxPool", "x"))),
}  # fmt: skip
