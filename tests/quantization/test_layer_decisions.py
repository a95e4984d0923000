"""Which layers run in INT8, and why others do not."""

from __future__ import annotations

from typing import Any, Optional

import pytest

from quantkit.backends.mxnet import capabilities
from quantkit.calibration.ranges import Range
from quantkit.ir.graph import Tensor
from quantkit.quantization import obstacles
from quantkit.quantization.plan import TensorQuantization
from tests.networks import DATA
from tests.quantization.networks import POSITIVE, SIGNED, TINY, ZERO, Fuser, planned, reason, whole


@pytest.mark.parametrize(
    ("attrs", "expected"),
    [
        ({}, None),
        ({"layout": "NCHW"}, None),
        ({"layout": "None"}, None),
        ({"kernel": "(3,)"}, "the engine's INT8 convolution takes 2-D and 3-D kernels only"),
        ({"kernel": "(3, 3, 3, 3)"}, "the engine's INT8 convolution takes 2-D and 3-D kernels only"),
        ({"layout": "NHWC"}, "the engine's INT8 convolution does not take the layout NHWC"),
        ({"num_group": 1}, None),
        ({"num_group": 8}, None),
    ],
)
def test_convolutions(attrs: dict[str, Any], expected: Optional[str]) -> None:
    b = Fuser()
    plan = planned(whole(b.graph(b.layer("conv", **attrs))))
    assert reason(plan, "conv") == expected
    integer = TensorQuantization(SIGNED, "int8")
    assert plan.tensors == ({DATA: integer, Tensor("conv"): integer} if expected is None else {})


SIGNED_GROUPS = "the INT8 convolution of MXNet before 1.9 takes no groups of several channels of signed input"
GROUPS_OF_PIXELS = (
    "the INT8 convolution of MXNet before 1.9 is wrong for groups of several channels with 1x1 kernels, stride 1 "
    "and no padding"
)


@pytest.mark.parametrize(
    ("groups", "attrs", "values", "dtype", "expected"),
    [
        (4, {}, SIGNED, "auto", SIGNED_GROUPS),
        (4, {}, POSITIVE, "auto", None),
        (4, {}, POSITIVE, "int8", SIGNED_GROUPS),
        (4, {"kernel": "(1, 1)", "pad": "(0, 0)"}, POSITIVE, "auto", GROUPS_OF_PIXELS),
        (4, {"kernel": "(1, 1)", "stride": "(1, 2)", "pad": "(0, 0)"}, POSITIVE, "auto", None),
        (4, {"kernel": "(1, 1)", "pad": "(0, 1)"}, POSITIVE, "auto", None),
        (8, {"kernel": "(1, 1)", "pad": "(0, 0)"}, POSITIVE, "auto", None),
        (1, {}, SIGNED, "auto", None),
        (8, {}, SIGNED, "auto", None),
    ],
)
@pytest.mark.parametrize("newer", [True, False])
def test_groups_of_several_channels(
    groups: int,
    attrs: dict[str, str],
    values: Range,
    dtype: str,
    expected: Optional[str],
    newer: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(obstacles, "quantizes_all_groups", lambda: newer)
    b = Fuser()
    graph = b.graph(b.layer("conv", num_group=groups, **attrs))
    plan = planned(whole(graph), data=values, dtype=dtype)
    assert reason(plan, "conv") == (None if newer else expected)


@pytest.mark.parametrize("newer", [True, False])
def test_convolutions_of_clips(newer: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capabilities, "has_3d_kernels", lambda: newer)
    b = Fuser()
    plan = planned(whole(b.graph(b.layer("conv", kernel="(3, 3, 3)", layout="NCDHW"))))
    expected = None if newer else "the fused convolution of MXNet before 1.9 takes 2-D kernels only"
    assert reason(plan, "conv") == expected


def test_groups_of_several_channels_of_a_signed_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(obstacles, "quantizes_all_groups", lambda: False)
    b = Fuser()
    plan = planned(whole(b.graph(b.layer("last", b.layer("conv"), num_group=4))))
    assert (reason(plan, "conv"), reason(plan, "last")) == (None, SIGNED_GROUPS)


@pytest.mark.parametrize(
    ("attrs", "activation", "expected"),
    [
        ({}, None, None),
        ({}, ("Activation", {"act_type": "relu"}), None),
        ({}, ("clip", {"a_min": 0.0, "a_max": 6.0}), None),
        ({}, ("Activation", {"act_type": "tanh"}), "its activation has no INT8 kernel"),
        ({"flatten": True}, None, None),
        ({"flatten": False}, None, "a dense layer over the last axis only has no INT8 form here"),
    ],
)
def test_dense_layers(
    attrs: dict[str, Any], activation: Optional[tuple[str, dict[str, Any]]], expected: Optional[str]
) -> None:
    b = Fuser()
    b.dense("dense", DATA, 8, 4)
    b.nodes[-1].attrs.update({key: str(value) for key, value in attrs.items()})  # type: ignore[attr-defined]
    last = b.fused(activation[0], "activation", **activation[1]) if activation else Tensor("dense")
    plan = planned(whole(b.graph(last)))
    assert reason(plan, last.node) == expected
    # What it puts out is FP32.
    assert plan.tensors == ({DATA: TensorQuantization(SIGNED, "int8")} if expected is None else {})


@pytest.mark.parametrize("position", [1, 2])
@pytest.mark.parametrize("layer", ["conv", "dense"])
def test_computed_weights_and_biases(layer: str, position: int) -> None:
    b = Fuser()
    made = b.conv("layer", DATA, 8, 8) if layer == "conv" else b.dense("layer", DATA, 8, 4)
    node = b.nodes.pop()
    inputs = list(node.inputs)
    inputs[position] = b.op("sin", "computed", inputs[position])
    b.op(node.op, "layer", *inputs, **node.attrs)
    plan = planned(whole(b.graph(made)))
    assert reason(plan, "layer") == f"its {'weights are' if position == 1 else 'bias is'} computed, not constant"


@pytest.mark.parametrize(
    ("dead", "expected"),
    [
        ("data", "its input is 0 in every sample"),
        ("relu", "its result is 0 in every sample"),
        ("other", "what it adds is 0 in every sample"),
        (None, None),
    ],
)
@pytest.mark.parametrize("values", [ZERO, TINY])
def test_a_layer_needs_values(dead: Optional[str], expected: Optional[str], values: Range) -> None:
    b = Fuser()
    other = b.op("sin", "other", DATA)
    b.layer("conv")
    b.fused("elemwise_add", "sum", other)
    b.fused("Activation", "relu", act_type="relu")
    plan = planned(whole(b.graph(Tensor("relu"))), **({dead: values} if dead else {}))
    assert reason(plan, "relu") == expected
    if expected is None:
        assert plan.tensors == {
            DATA: TensorQuantization(SIGNED, "int8"),
            other: TensorQuantization(SIGNED, "int8"),
            Tensor("relu"): TensorQuantization(POSITIVE, "uint8"),
        }
    assert plan.decisions["relu"].operator == "Convolution+sum+relu"
    assert plan.decisions["relu"].origin == ("conv", "sum", "relu")


def test_what_a_dense_layer_puts_out_is_no_longer_an_integer() -> None:
    b = Fuser()
    b.dense("first", DATA, 8, 8)
    flat = b.op("Flatten", "flat", b.fused("Activation", "relu", act_type="relu"))
    plan = planned(whole(b.graph(b.dense("last", flat, 8, 4))))
    assert reason(plan, "flat") == "its input is FP32"
    assert plan.tensors == {DATA: TensorQuantization(SIGNED, "int8"), flat: TensorQuantization(SIGNED, "int8")}


def test_convolutions_of_one_group_need_not_say_so() -> None:
    b = Fuser()
    b.layer("conv")
    del b.nodes[-1].attrs["num_group"]  # type: ignore[attr-defined]
    assert reason(planned(whole(b.graph(Tensor("conv")))), "conv") is None
