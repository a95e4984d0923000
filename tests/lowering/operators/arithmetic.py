"""Arithmetic, comparisons, reductions and numbers."""

from __future__ import annotations

from quantkit.ir.graph import Tensor
from tests.lowering.operators.build import Build, one
from tests.networks import DATA, Builder


def broadcast(op: str) -> Build:
    return lambda b: b.op(op, "one", DATA, b.op("mean", "mean", DATA, axis=(2, 3), keepdims=True))


def rows_of_numbers(b: Builder) -> Tensor:
    """Numbers that no image decides about have no batch."""
    numbers = b.op("_arange", "numbers", start=3, stop=10, step=0.5)
    return b.op("broadcast_mul", "one", DATA, b.op("Reshape", "row", numbers, shape=(1, 1, 1, -1)))


def by_size(reshaped: bool) -> Build:
    def build(b: Builder) -> Tensor:
        sizes = b.op("Cast", "sizes", b.op("shape_array", "shape", DATA), dtype="float32")
        width = b.op("slice_axis", "width", sizes, axis=0, begin=3, end=4)
        width = b.op("Reshape", "turned", width, shape=(1, 1, 1)) if reshaped else width
        return b.op("broadcast_mul", "one", DATA, width)

    return build


_RELATIONS = ("equal", "greater", "greater_equal", "lesser", "lesser_equal")

CASES: dict[str, Build] = {
    **{
        op: one(op, "data", "exp")
        for op in ("elemwise_add", "_plus", "elemwise_sub", "elemwise_mul", "elemwise_div", "_maximum", "_minimum")
    },
    **{op: broadcast(op) for op in ("broadcast_add", "broadcast_sub", "broadcast_mul", "broadcast_maximum")},
    "add_n": one("add_n", "data", "exp", "data", num_args=3),
    **{
        op: one(op, scalar=1.5)
        for op in (
            "_plus_scalar", "_minus_scalar", "_rminus_scalar", "_mul_scalar", "_div_scalar", "_maximum_scalar",
            "_minimum_scalar",
        )
    },
    "_rdiv_scalar": one("_rdiv_scalar", "exp", scalar=1.5),
    "_power_scalar": one("_power_scalar", "exp", scalar=1.5),
    **{op: one(op) for op in ("relu", "sigmoid", "tanh", "softsign", "abs", "negative", "erf", "square", "_copy")},
    "binary logarithm": one("log2", "exp"),
    "log and sqrt": lambda b: b.op("log", "one", b.op("sqrt", "root", b.op("exp", "exp", DATA))),
    **{f"_{kind}": one(f"_{kind}", "data", "exp") for kind in _RELATIONS},
    **{f"_{kind}_scalar": one(f"_{kind}_scalar", scalar=0.25) for kind in _RELATIONS},
    **{f"broadcast_{kind}": broadcast(f"broadcast_{kind}") for kind in _RELATIONS},
    "numbers along an axis": lambda b: b.op(
        "broadcast_mul", "one", DATA, b.op("_contrib_arange_like", "numbers", DATA, axis=3)
    ),
    "numbers of a size": by_size(reshaped=False),
    "numbers of a size in another shape": by_size(reshaped=True),
    "numbers": rows_of_numbers,
    "mean": one("mean", axis=(2, 3)),
    "mean of the others": one("mean", axis=(0, 1), exclude=True, keepdims=True),
    "sum": one("sum", axis=1),
    "largest": one("max", axis=-1, keepdims=True),
    "smallest": one("min", axis=(1, 2)),
    "ones": lambda b: b.op("broadcast_add", "one", DATA, b.op("ones_like", "ones", DATA)),
    "zeros": lambda b: b.op("broadcast_add", "one", b.op("zeros_like", "zeros", DATA), DATA),
    "power of a tensor": one("broadcast_power", "exp", "data"),
    "_rpower_scalar": one("_rpower_scalar", scalar=1.5),
    **{op: one(op) for op in ("ceil", "floor", "cos", "sin")},
    "reciprocal": one("reciprocal", "exp"),
    "mean of all": lambda b: b.op("broadcast_sub", "one", DATA, b.op("mean", "mean", DATA, keepdims=True)),
    "mean of all, as None says": lambda b: b.op(
        "broadcast_sub", "one", DATA, b.op("mean", "mean", DATA, axis=None, keepdims=True)
    ),
}  # fmt: skip
