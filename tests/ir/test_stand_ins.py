"""Integers that are pooled or normalized in a network, and FP32 in their place."""

from __future__ import annotations

import pytest

from quantkit.backends.mxnet.shapes import infer_shapes
from quantkit.errors import EngineError
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.stand_ins import float_stand_in, integer_problem

DATA, LOW, HIGH = Tensor("data"), Tensor("low"), Tensor("high")
RANGE = {"low": (1,), "high": (1,)}


def pooled(kernel: int = 2) -> Graph:
    """Integers that are pooled, normalized and pooled again; everything comes with the ends of a range."""
    attrs = {"kernel": f"({kernel}, {kernel})", "stride": "(2, 2)", "pool_type": "max"}
    statistics = tuple(Tensor(name) for name in ("gamma", "beta", "mean", "var"))
    first = Node("first", "_contrib_quantized_pooling", (DATA, LOW, HIGH), attrs)
    norm = Node(
        "norm",
        "_contrib_quantized_batch_norm",
        (Tensor("first"), *statistics, Tensor("first", 1), Tensor("first", 2)),
        {"min_calib_range": "-1", "max_calib_range": "1"},
    )
    last = Node("last", "_contrib_quantized_pooling", tuple(Tensor("norm", each) for each in range(3)), attrs)
    names = ("data", "low", "high", *(tensor.node for tensor in statistics))
    return Graph((first, norm, last), names, tuple(Tensor("last", each) for each in range(3)), {})


def test_the_stand_in_reads_no_integers() -> None:
    stand_in = float_stand_in(pooled())
    assert stand_in is not None
    assert [(node.op, node.inputs) for node in stand_in.nodes] == [
        ("Pooling", (DATA,)),
        ("_copy", (Tensor("first"),)),
        ("Pooling", (Tensor("norm"),)),
    ]
    assert stand_in.outputs == (DATA, *(Tensor(name) for name in ("first", "first", "norm", "norm", "last")))


def test_networks_without_such_integers_need_none() -> None:
    assert float_stand_in(Graph((Node("pool", "Pooling", (DATA,), {}),), ("data",), (Tensor("pool"),), {})) is None


@pytest.mark.parametrize(
    ("shapes", "node"),
    [
        ({DATA: (2, 4, 8, 8), Tensor("first"): (2, 4, 4, 4), Tensor("norm"): (2, 4, 4, 4)}, None),
        ({DATA: (4, 8, 8)}, "first"),
        ({DATA: (), Tensor("first"): (4,)}, "norm"),
        ({Tensor("norm"): (2, 4, 4)}, "last"),
    ],
)
def test_integers_have_four_axes(shapes: dict[Tensor, tuple[int, ...]], node: str | None) -> None:
    problem = integer_problem(pooled(), shapes)
    assert (problem is None) if node is None else (problem or "").startswith(f"node '{node}' (")


@pytest.mark.parametrize(("shape", "kernel"), [((4, 8, 8), 2), ((8,), 2), ((2, 4, 1, 1), 2), ((2, 4, 8, 8), 9)])
def test_the_engine_refuses_other_shapes(engine: None, shape: tuple[int, ...], kernel: int) -> None:
    statistics = dict.fromkeys(("gamma", "beta", "mean", "var"), (4,))
    with pytest.raises(EngineError):
        infer_shapes(pooled(kernel), {"data": shape, **RANGE, **statistics})


def test_the_engine_takes_what_fits(engine: None) -> None:
    statistics = dict.fromkeys(("gamma", "beta", "mean", "var"), (4,))
    found = infer_shapes(pooled(), {"data": (2, 4, 8, 8), **RANGE, **statistics})
    assert found[Tensor("last")] == (2, 4, 2, 2)
