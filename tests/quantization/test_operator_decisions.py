"""Which operators between layers run in INT8, with which scales, and why others do not."""

from __future__ import annotations

from typing import Any, Optional

import pytest

from quantkit.calibration.ranges import Range
from quantkit.ir.graph import Tensor
from quantkit.quantization import obstacles
from quantkit.quantization.plan import TensorQuantization
from tests.networks import DATA
from tests.quantization.networks import POSITIVE, SIGNED, TINY, ZERO, Fuser, concatenated, planned, reason, whole

GLOBAL = "a mean over whole feature maps falls between 8-bit levels, and costs little"
NO_KERNEL = "the engine's INT8 pooling needs a kernel of two or three extents"
BEYOND = "the engine's INT8 average counts elements beyond the last row and column"


@pytest.mark.parametrize(
    ("attrs", "shape", "expected"),
    [
        ({}, (1, 8, 8, 8), None),
        ({}, (1, 8, 1, 1), None),
        ({"pool_type": "max"}, (1, 8, 1, 1), None),
        ({"pool_type": "avg"}, (1, 8, 8, 8), None),
        ({"pool_type": "avg"}, (1, 8, 1, 8), None),
        ({"pool_type": "avg"}, (1, 8, 8, 1), None),
        ({"pool_type": "avg"}, (1, 8, 1, 1), GLOBAL),
        ({"pool_type": "sum"}, (1, 8, 8, 8), "this kind of pooling has no INT8 kernel"),
        ({"pool_type": "avg", "pooling_convention": "valid"}, (1, 8, 8, 8), None),
        ({"pool_type": "avg", "pooling_convention": "full"}, (1, 8, 8, 8), BEYOND),
        ({"pool_type": "avg", "pooling_convention": "full", "count_include_pad": False}, (1, 8, 8, 8), None),
        ({"pool_type": "max", "pooling_convention": "full"}, (1, 8, 8, 8), None),
        ({"layout": "NCHW"}, (1, 8, 8, 8), None),
        ({"layout": "NHWC"}, (1, 8, 8, 8), "the engine's INT8 pooling does not take the layout NHWC"),
        ({"kernel": ()}, (1, 8, 1, 1), NO_KERNEL),
        ({"kernel": (2,)}, (1, 8, 8), NO_KERNEL),
        ({"kernel": (2, 2)}, (1, 8, 8, 8, 8), NO_KERNEL),
        ({"kernel": (2, 2, 2, 2)}, (1, 8, 8, 8, 8, 8), NO_KERNEL),
    ],
)
def test_pooling(attrs: dict[str, Any], shape: tuple[int, ...], expected: Optional[str]) -> None:
    b = Fuser()
    pooled = b.op("Pooling", "pool", b.rectified("relu"), **{"kernel": (2, 2), **attrs})
    plan = planned(whole(b.graph(pooled), pool=shape))
    assert reason(plan, "pool") == expected
    # Its values, so its range and type, are those of its input.
    assert plan.tensors.get(pooled) == (TensorQuantization(POSITIVE, "uint8") if expected is None else None)


@pytest.mark.parametrize("newer", [True, False])
def test_pooling_of_clips(newer: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(obstacles, "has_3d_kernels", lambda: newer)
    b = Fuser()
    pooled = b.op("Pooling", "pool", b.rectified("relu"), kernel=(1, 2, 2), layout="NCDHW")
    expected = None if newer else "the INT8 pooling of MXNet before 1.9 takes 2-D kernels only"
    assert reason(planned(whole(b.graph(pooled), pool=(1, 8, 4, 8, 8))), "pool") == expected


def test_pooling_of_fp32_stays_fp32() -> None:
    b = Fuser()
    b.layer("conv", b.op("Pooling", "pool", DATA, kernel=(2, 2)))
    plan = planned(whole(b.graph(Tensor("conv"))))
    assert reason(plan, "pool") == "its input is FP32"
    assert reason(plan, "conv") is None


@pytest.mark.parametrize("op", ["Flatten", "flatten"])
def test_flattening_goes_along_with_a_layer_that_reads_it(op: str) -> None:
    b = Fuser()
    first = b.rectified("relu")
    flat, idle = b.op(op, "flat", first), b.op(op, "idle", first)
    network = whole(b.graph(b.dense("dense", flat, 8, 4), b.op("sin", "sin", flat), b.op("sin", "sin2", idle)))
    plan = planned(network)
    assert reason(plan, "flat") is None
    assert reason(plan, "idle") == "no INT8 layer reads its result"
    assert plan.tensors[flat] == TensorQuantization(POSITIVE, "uint8")
    assert idle not in plan.tensors


@pytest.mark.parametrize("op", ["Concat", "concat"])
@pytest.mark.parametrize(
    ("inputs", "attrs", "ranges", "expected"),
    [
        (("relu1", "relu2"), {}, {}, None),
        (("relu1", "relu2"), {"dim": 1}, {}, None),
        (("relu1", "sin1"), {}, {}, None),
        (("sin1", "sin2"), {}, {}, "all its inputs are FP32"),
        (("relu1", "param1"), {}, {}, "one of its inputs is a parameter"),
        (("relu1", "relu2"), {"dim": 2}, {}, "the engine's INT8 concatenation is tested along the channels only"),
        (("relu1", "relu2"), {}, {"both": ZERO}, "its result is 0 in every sample"),
        (("relu1", "sin1"), {}, {"sin1": ZERO}, "one of its inputs is 0 in every sample"),
        (("relu1", "sin1"), {}, {"sin1": TINY}, "one of its inputs is 0 in every sample"),
        (("relu1", "sin1"), {}, {"sin1": Range(0.0, 2e-30)}, None),
    ],
)
def test_concatenations(
    op: str, inputs: tuple[str, ...], attrs: dict[str, Any], ranges: dict[str, Range], expected: Optional[str]
) -> None:
    b, both = concatenated(*inputs, op=op, **attrs)
    plan = planned(whole(b.graph(both)), **ranges)
    assert reason(plan, "both") == expected
    assert (both in plan.tensors) == (expected is None)


@pytest.mark.parametrize(
    ("inputs", "ranges", "result", "types"),
    [
        # Two of a type round to the scale of the whole at once.
        (("relu1", "relu2"), {"relu1": Range(0.0, 2.0), "relu2": Range(0.0, 7.0)}, Range(0.0, 7.0), "uu"),
        (("conv1", "conv2"), {"conv1": Range(-1.0, 9.0), "conv2": Range(-3.0, 2.0)}, Range(-3.0, 9.0), "ss"),
        # Of two types, the signed one only.
        (("relu1", "conv2"), {"relu1": Range(0.0, 9.0), "conv2": Range(-3.0, 2.0)}, Range(-3.0, 9.0), "us"),
        # What clips saturates at its own range.
        (("clip1", "relu2"), {"clip1": Range(0.0, 6.0), "relu2": Range(0.0, 9.0)}, Range(0.0, 9.0), "cu"),
        (
            ("clip1", "relu2", "relu3"),
            {"clip1": Range(0.0, 6.0), "relu2": Range(0.0, 2.0), "relu3": Range(0.0, 9.0)},
            Range(0.0, 9.0),
            "cuu",
        ),
        # What was quantized from FP32 is no convolution's result.
        (("sin1", "conv2"), {"sin1": Range(-1.0, 1.0), "conv2": Range(-3.0, 2.0)}, Range(-3.0, 2.0), "fs"),
        (("dense1", "conv2"), {"dense1": Range(-1.0, 1.0), "conv2": Range(-3.0, 2.0)}, Range(-3.0, 2.0), "fs"),
    ],
)
def test_inputs_of_a_concatenation_round_to_its_scale_where_they_can(
    inputs: tuple[str, ...], ranges: dict[str, Range], result: Range, types: str
) -> None:
    b, both = concatenated(*inputs)
    plan = planned(whole(b.graph(both)), **ranges)
    joint = TensorQuantization(result, "uint8" if set(types) <= set("uc") else "int8")
    assert plan.tensors[both] == joint
    for name, kind in zip(inputs, types):
        alone = TensorQuantization(ranges[name], "uint8" if kind in "uc" else "int8")
        shares = kind not in "cf" and alone.dtype == joint.dtype
        assert plan.tensors[Tensor(name)] == (joint if shares else alone)


def test_what_is_pooled_before_a_concatenation_rounds_to_its_scale() -> None:
    b = Fuser()
    first, second, third = (b.rectified(name) for name in ("relu1", "relu2", "relu3"))
    smooth = b.op("sin", "sin", DATA)
    most, mean, other, floats = (
        b.op("Pooling", name, tensor, kernel=(2, 2), pool_type=kind)
        for name, tensor, kind in (
            ("most", first, "max"),
            ("mean", second, "avg"),
            ("other", third, "max"),
            ("floats", smooth, "max"),
        )
    )
    both = b.op("Concat", "both", most, mean, other, floats, num_args=4, dim=1)
    b.layer("reader", third)
    ranges = {"relu1": Range(0.0, 2.0), "relu2": Range(0.0, 3.0), "relu3": Range(0.0, 4.0), "floats": Range(0.0, 7.0)}
    plan = planned(whole(b.graph(both, Tensor("reader"))), **ranges)
    joint = TensorQuantization(Range(0.0, 7.0), "uint8")
    assert plan.tensors[both] == plan.tensors[most] == plan.tensors[first] == joint
    # A mean is finer than its input's levels, and the third has another reader.
    assert plan.tensors[mean] == plan.tensors[second] == TensorQuantization(Range(0.0, 3.0), "uint8")
    assert plan.tensors[other] == plan.tensors[third] == TensorQuantization(Range(0.0, 4.0), "uint8")
    assert reason(plan, "floats") == "its input is FP32"


def test_an_input_that_others_read_keeps_its_scale() -> None:
    b, both = concatenated("relu1", "relu2")
    b.layer("reader", Tensor("relu1"))
    plan = planned(whole(b.graph(both, Tensor("reader"))), relu1=Range(0.0, 2.0), relu2=Range(0.0, 7.0))
    assert plan.tensors[Tensor("relu1")] == TensorQuantization(Range(0.0, 2.0), "uint8")
    assert plan.tensors[Tensor("relu2")] == plan.tensors[both] == TensorQuantization(Range(0.0, 7.0), "uint8")


def test_a_concatenation_in_fp32_shares_nothing() -> None:
    b, both = concatenated("relu1", "relu2")
    # A second concatenation, which is INT8, after one that is not.
    other = b.op("Concat", "other", both, b.rectified("relu3"), num_args=2, dim=1)
    fp32 = planned(whole(b.graph(other)), "both", relu1=Range(0.0, 2.0), relu3=Range(0.0, 1.0))
    assert fp32.tensors[Tensor("relu1")] == TensorQuantization(Range(0.0, 2.0), "uint8")
    assert fp32.tensors[other] == TensorQuantization(SIGNED, "int8")
    assert reason(fp32, "other") is None


@pytest.mark.parametrize(
    ("inputs", "shapes", "ranges", "expected", "dtype"),
    [
        (("relu1", "relu2"), {}, {}, None, "uint8"),
        (("conv1", "conv2"), {}, {}, None, "int8"),
        (("relu1", "conv2"), {}, {}, None, "int8"),
        (("relu1", "sin2"), {}, {}, "one of its inputs is FP32", None),
        (("relu1", "relu2"), {"relu2": (1, 8, 1, 1)}, {}, "the engine's INT8 addition does not broadcast", None),
        (("relu1", "relu2"), {}, {"add": ZERO}, "its result is 0 in every sample", None),
        (("relu1", "relu2"), {}, {"add": TINY}, "its result is 0 in every sample", None),
    ],
)
def test_additions(
    inputs: tuple[str, str],
    shapes: dict[str, tuple[int, ...]],
    ranges: dict[str, Range],
    expected: Optional[str],
    dtype: Any,
) -> None:
    b, _ = concatenated(*inputs)
    b.nodes.pop()
    total = b.op("broadcast_add", "add", *map(Tensor, inputs))
    plan = planned(whole(b.graph(total), **shapes), **ranges)
    assert reason(plan, "add") == expected
    assert plan.tensors.get(total) == (TensorQuantization(SIGNED, dtype) if dtype else None)


def test_operators_without_kernels() -> None:
    b = Fuser()
    first = b.batch_norm("normal", DATA, 8)
    later = b.batch_norm("later", b.op("sin", "sin", first), 8)
    plan = planned(whole(b.graph(later)))
    assert reason(plan, "normal") == "it normalises the network's input, before there are integers"
    assert reason(plan, "later") == "BatchNorm has no INT8 kernel"
    assert reason(plan, "sin") == "sin has no INT8 kernel"
