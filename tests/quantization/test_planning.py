"""What a plan asks for, refuses, and calls things."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quantkit.calibration.ranges import Range
from quantkit.calibration.table import CalibrationTable
from quantkit.errors import ModelError, UserError
from quantkit.ir.graph import Tensor
from quantkit.quantization.plan import TensorQuantization, operator_name
from quantkit.quantization.planning import calibration_targets, make_plan
from tests.networks import DATA
from tests.quantization.networks import Fuser, concatenated, planned, whole


@pytest.mark.parametrize(
    ("low", "wanted", "dtype"),
    [(0.0, "auto", "uint8"), (-1.0, "auto", "int8"), (0.0, "int8", "int8"), (0.0, "uint8", "uint8")],
)
def test_the_type_of_what_is_quantized(low: float, wanted: str, dtype: Any) -> None:
    b = Fuser()
    plan = planned(whole(b.graph(b.rectified("relu"))), dtype=wanted, data=Range(low, 2.0))
    assert plan.tensors[DATA] == TensorQuantization(Range(low, 2.0), dtype)
    assert plan.dtype == wanted


def test_what_cannot_be_planned() -> None:
    b = Fuser()
    network = whole(b.graph(b.rectified("relu")))
    with pytest.raises(UserError, match=r"^uint8 activations .* 'data' has values down to -2.5; use auto or int8$"):
        planned(network, dtype="uint8", data=Range(-2.5, 1.0))
    with pytest.raises(UserError, match=r"^unknown type of quantized inputs 'int4'; choose one of auto, int8, uint8$"):
        planned(network, dtype="int4")
    empty = CalibrationTable("minmax", 1, "made up", {}, "0" * 64, "0" * 64)
    with pytest.raises(ModelError, match=r"^the calibration table has no range for 'data': .*; calibrate again$"):
        make_plan(network, empty)


def test_what_operators_are_called() -> None:
    b, both = concatenated("relu1", "conv2", "clip3")
    graph = b.graph(both)
    names = {node.name: operator_name(node) for node in graph.nodes}
    assert names == {
        "relu1": "Convolution+relu", "conv2": "Convolution", "clip3": "Convolution+relu6", "both": "Concat",
    }  # fmt: skip


def test_computed_weights_are_not_calibrated() -> None:
    b = Fuser()
    weight = b.op("sin", "computed", b.param("weight", np.ones((4, 8, 1, 1))))
    made = b.op("Convolution", "conv", DATA, weight, b.param("bias", np.ones(4)), kernel=(1, 1))
    assert calibration_targets(b.graph(made)) == (DATA, made)


def test_only_what_a_plan_asks_for_is_calibrated() -> None:
    b, both = concatenated("relu1", "conv2", "sin3", "sin4")
    b.op("elemwise_add", "add", both, b.op("sin", "sin", both))
    b.op("Pooling", "pool", b.layer("last", Tensor("add")), kernel=(2, 2))
    b.dense("dense", Tensor("pool"), 8, 4)
    targets = calibration_targets(b.graph(Tensor("dense")))
    expected = ["data", "relu1", "conv2", "sin3", "sin4", "both", "sin", "add", "last", "pool", "dense"]
    assert [tensor.node for tensor in targets] == expected


def test_the_operand_that_a_layer_adds_is_calibrated_too() -> None:
    b = Fuser()
    other = b.op("sin", "other", DATA)
    b.layer("conv", b.op("cos", "source", DATA))
    total = b.fused("elemwise_add", "sum", other)
    assert calibration_targets(b.graph(total)) == (Tensor("source"), other, total)
