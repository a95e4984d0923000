"""What a plan decides for each kind of operator, and why: networks put together by hand, with ranges as given."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
import pytest

from quantkit.calibration.ranges import Range
from quantkit.calibration.table import CalibrationTable
from quantkit.errors import ModelError, UserError
from quantkit.fusion.fuse import Fused
from quantkit.fusion.unit import extended, unit_of
from quantkit.graph.graph import Graph, Node, Tensor
from quantkit.quantization.exclude import excluded_nodes
from quantkit.quantization.mixed import KEPT, int8_layers, kept_in_fp32
from quantkit.quantization.plan import Activation, Plan, calibration_targets, float_plan, make_plan, operator_name
from tests.networks import DATA, Builder

SIGNED, POSITIVE, ZERO = Range(-4.0, 3.0), Range(0.0, 5.0), Range(0.0, 0.0)
MAPS = (1, 8, 16, 16)


class Fuser(Builder):
    """Fuses as it builds."""

    def fused(self, op: str, name: str, *addend: Tensor, **attrs: Any) -> Tensor:
        """Fuse one more operator into the last layer."""
        last = self.nodes.pop()
        unit = unit_of(last)
        assert unit is not None
        strings = {key: str(value) for key, value in attrs.items()}
        self.nodes.append(extended(unit, Node(name, op, (last.output, *addend), strings, (name,)), *addend))
        return Tensor(name)

    def layer(self, name: str, data: Tensor = DATA, channels: int = 8, **attrs: Any) -> Tensor:
        """A convolution of 8 filters, whose attributes can be replaced."""
        self.conv(name, data, channels, 8)
        self.nodes[-1].attrs.update({key: str(value) for key, value in attrs.items()})  # type: ignore[attr-defined]
        return Tensor(name)

    def rectified(self, name: str, data: Tensor = DATA) -> Tensor:
        """A convolution of 8 channels with a ReLU."""
        self.layer(f"{name}_conv", data)
        return self.fused("Activation", name, act_type="relu")


def whole(graph: Graph, **shapes: tuple[int, ...]) -> Fused:
    """The network as if it had been fused; every tensor has the shape ``MAPS`` or that given."""
    tensors = {DATA: MAPS, **{node.output: MAPS for node in graph.nodes}}
    return Fused(graph, graph, {**tensors, **{Tensor(name): shape for name, shape in shapes.items()}}, (), ())


def planned(fused: Fused, *exclude: str, activations: Any = "auto", **ranges: Range) -> Plan:
    """The plan where what is called relu has the range ``POSITIVE`` and all else ``SIGNED``, but as given."""
    names = [tensor.node for tensor in calibration_targets(fused.graph)]
    every = {str(Tensor(name)): POSITIVE if "relu" in name else SIGNED for name in names}
    every.update({str(Tensor(name)): values for name, values in ranges.items()})
    return make_plan(fused, CalibrationTable("minmax", 1, "made up", every, "0" * 64, "0" * 64), exclude, activations)


def reason(plan: Plan, name: str) -> Optional[str]:
    """Why a node stays FP32; None where it runs in INT8."""
    decision = plan.decisions[name]
    assert bool(decision.reason) == (decision.precision == "fp32")
    return decision.reason or None


GROUPS = "the engine's INT8 convolution takes the wrong weight scales for groups of several channels"


@pytest.mark.parametrize(
    ("attrs", "expected"),
    [
        ({}, None),
        ({"kernel": "(3, 3, 3)", "layout": "NCDHW"}, None),
        ({"layout": "NCHW"}, None),
        ({"layout": "None"}, None),
        ({"kernel": "(3,)"}, "the engine's INT8 convolution takes 2-D and 3-D kernels only"),
        ({"kernel": "(3, 3, 3, 3)"}, "the engine's INT8 convolution takes 2-D and 3-D kernels only"),
        ({"layout": "NHWC"}, "the engine's INT8 convolution does not take the layout NHWC"),
        ({"num_group": 1}, None),
        ({"num_group": 8}, None),
        ({"num_group": 4}, GROUPS),
    ],
)
def test_convolutions(attrs: dict[str, Any], expected: Optional[str]) -> None:
    b = Fuser()
    plan = planned(whole(b.graph(b.layer("conv", **attrs))))
    assert reason(plan, "conv") == expected
    integer = Activation(SIGNED, "int8")
    assert plan.activations == ({DATA: integer, Tensor("conv"): integer} if expected is None else {})


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
    assert plan.activations == ({DATA: Activation(SIGNED, "int8")} if expected is None else {})


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
def test_a_layer_needs_values(dead: Optional[str], expected: Optional[str]) -> None:
    b = Fuser()
    other = b.op("sin", "other", DATA)
    b.layer("conv")
    b.fused("elemwise_add", "sum", other)
    b.fused("Activation", "relu", act_type="relu")
    plan = planned(whole(b.graph(Tensor("relu"))), **({dead: ZERO} if dead else {}))
    assert reason(plan, "relu") == expected
    if expected is None:
        assert plan.activations == {
            DATA: Activation(SIGNED, "int8"),
            other: Activation(SIGNED, "int8"),
            Tensor("relu"): Activation(POSITIVE, "uint8"),
        }
    assert plan.decisions["relu"].operator == "Convolution+sum+relu"
    assert plan.decisions["relu"].origin == ("conv", "sum", "relu")


def test_what_a_dense_layer_puts_out_is_no_longer_an_integer() -> None:
    b = Fuser()
    b.dense("first", DATA, 8, 8)
    flat = b.op("Flatten", "flat", b.fused("Activation", "relu", act_type="relu"))
    plan = planned(whole(b.graph(b.dense("last", flat, 8, 4))))
    assert reason(plan, "flat") == "its input is FP32"
    assert plan.activations == {DATA: Activation(SIGNED, "int8"), flat: Activation(SIGNED, "int8")}


GLOBAL = "a mean over whole feature maps falls between 8-bit levels, and costs little"
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
    ],
)
def test_pooling(attrs: dict[str, Any], shape: tuple[int, ...], expected: Optional[str]) -> None:
    b = Fuser()
    pooled = b.op("Pooling", "pool", b.rectified("relu"), kernel=(2, 2), **attrs)
    plan = planned(whole(b.graph(pooled), pool=shape))
    assert reason(plan, "pool") == expected
    # Its values, so its range and type, are those of its input.
    assert plan.activations.get(pooled) == (Activation(POSITIVE, "uint8") if expected is None else None)


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
    assert plan.activations[flat] == Activation(POSITIVE, "uint8")
    assert idle not in plan.activations


def concatenated(*inputs: str, op: str = "Concat", **attrs: Any) -> tuple[Fuser, Tensor]:
    """A concatenation named ``both`` of convolutions (named ``relu…`` with a ReLU, ``clip…`` with a clip),
    parameters (``param…``) or other tensors."""
    b = Fuser()
    tensors = []
    for name in inputs:
        if name.startswith("param"):
            tensors.append(b.param(name, np.ones(MAPS)))
        elif name.startswith("sin"):
            tensors.append(b.op("sin", name, DATA))
        elif name.startswith("dense"):
            tensors.append(b.dense(name, DATA, 8, 8))
        elif name.startswith("relu"):
            tensors.append(b.rectified(name))
        elif name.startswith("clip"):
            b.layer(f"{name}_conv")
            tensors.append(b.fused("clip", name, a_min=0.0, a_max=6.0))
        else:
            tensors.append(b.layer(name))
    return b, b.op(op, "both", *tensors, num_args=len(tensors), **attrs)


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
    ],
)
def test_concatenations(
    op: str, inputs: tuple[str, ...], attrs: dict[str, Any], ranges: dict[str, Range], expected: Optional[str]
) -> None:
    b, both = concatenated(*inputs, op=op, **attrs)
    plan = planned(whole(b.graph(both)), **ranges)
    assert reason(plan, "both") == expected
    assert (both in plan.activations) == (expected is None)


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
    joint = Activation(result, "uint8" if set(types) <= set("uc") else "int8")
    assert plan.activations[both] == joint
    for name, kind in zip(inputs, types):
        alone = Activation(ranges[name], "uint8" if kind in "uc" else "int8")
        shares = kind not in "cf" and alone.dtype == joint.dtype
        assert plan.activations[Tensor(name)] == (joint if shares else alone)


def test_an_input_that_others_read_keeps_its_scale() -> None:
    b, both = concatenated("relu1", "relu2")
    b.layer("reader", Tensor("relu1"))
    plan = planned(whole(b.graph(both, Tensor("reader"))), relu1=Range(0.0, 2.0), relu2=Range(0.0, 7.0))
    assert plan.activations[Tensor("relu1")] == Activation(Range(0.0, 2.0), "uint8")
    assert plan.activations[Tensor("relu2")] == plan.activations[both] == Activation(Range(0.0, 7.0), "uint8")


def test_a_concatenation_in_fp32_shares_nothing() -> None:
    b, both = concatenated("relu1", "relu2")
    # A second concatenation, which is INT8, after one that is not.
    other = b.op("Concat", "other", both, b.rectified("relu3"), num_args=2, dim=1)
    fp32 = planned(whole(b.graph(other)), "both", relu1=Range(0.0, 2.0), relu3=Range(0.0, 1.0))
    assert fp32.activations[Tensor("relu1")] == Activation(Range(0.0, 2.0), "uint8")
    assert fp32.activations[other] == Activation(SIGNED, "int8")
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
    assert plan.activations.get(total) == (Activation(SIGNED, dtype) if dtype else None)


def test_operators_without_kernels() -> None:
    b = Fuser()
    first = b.batch_norm("normal", DATA, 8)
    later = b.batch_norm("later", b.op("sin", "sin", first), 8)
    plan = planned(whole(b.graph(later)))
    assert reason(plan, "normal") == "it normalises the network's input, before there are integers"
    assert reason(plan, "later") == "BatchNorm has no INT8 kernel"
    assert reason(plan, "sin") == "sin has no INT8 kernel"


@pytest.mark.parametrize(
    ("low", "wanted", "dtype"),
    [(0.0, "auto", "uint8"), (-1.0, "auto", "int8"), (0.0, "int8", "int8"), (0.0, "uint8", "uint8")],
)
def test_the_type_of_what_is_quantized(low: float, wanted: str, dtype: Any) -> None:
    b = Fuser()
    plan = planned(whole(b.graph(b.rectified("relu"))), activations=wanted, data=Range(low, 2.0))
    assert plan.activations[DATA] == Activation(Range(low, 2.0), dtype)
    assert plan.activation_type == wanted


def test_what_cannot_be_planned() -> None:
    b = Fuser()
    network = whole(b.graph(b.rectified("relu")))
    with pytest.raises(UserError, match=r"^uint8 activations .* 'data' has values down to -2.5; use auto or int8$"):
        planned(network, activations="uint8", data=Range(-2.5, 1.0))
    with pytest.raises(UserError, match=r"^unknown activation type 'int4'; choose one of auto, int8, uint8$"):
        planned(network, activations="int4")
    empty = CalibrationTable("minmax", 1, "made up", {}, "0" * 64, "0" * 64)
    with pytest.raises(ModelError, match=r"^the calibration table has no range for 'data': .*; calibrate again$"):
        make_plan(network, empty)


def test_convolutions_of_one_group_need_not_say_so() -> None:
    b = Fuser()
    b.layer("conv")
    del b.nodes[-1].attrs["num_group"]  # type: ignore[attr-defined]
    assert reason(planned(whole(b.graph(Tensor("conv")))), "conv") is None


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


def test_everything_can_stay_fp32() -> None:
    b, both = concatenated("relu1", "conv2")
    graph = b.graph(both)
    plan = float_plan(whole(graph))
    assert list(plan.decisions) == [node.name for node in graph.nodes]
    for node in graph.nodes:
        decision = plan.decisions[node.name]
        assert (decision.node, decision.operator, decision.origin) == (node.name, operator_name(node), node.origin)
        assert (decision.precision, decision.reason) == ("fp32", "the network was fused, not quantized")
    assert (plan.activations, plan.exclude, plan.activation_type, plan.before_sums) == ({}, (), "auto", {})


def test_excluded_nodes_keep_the_first_pattern_that_names_them() -> None:
    b = Fuser()
    second = b.rectified("relu2", b.rectified("relu1"))
    network = whole(b.graph(b.op("Pooling", "pool", second)))
    # A network's own operators are what the user knows.
    original = Builder()
    for name, op in (("relu1_conv", "Convolution"), ("relu2_conv", "Convolution"), ("pool", "Pooling")):
        original.op(op, name, DATA)
    network = Fused(original.graph(Tensor("pool")), network.graph, network.shapes, (), ())
    assert excluded_nodes(network, []) == {}
    assert excluded_nodes(network, ["relu2*", "Convolution", "Pooling"]) == {
        "relu2": "relu2*", "relu1": "Convolution", "pool": "Pooling",
    }  # fmt: skip
    plan = planned(network, "relu1", "Pooling")
    assert reason(plan, "relu1") == "excluded by 'relu1'"
    assert plan.exclude == ("relu1", "Pooling")
    with pytest.raises(
        UserError, match="the exclusion 'Poolin' matches no node or operator type; nearest: Pooling, pool, "
    ):
        excluded_nodes(network, ["Poolin"])
    with pytest.raises(UserError, match=r"nearest: relu2_conv, relu1_conv$"):
        excluded_nodes(network, ["relu3_conv"])
    many = Builder()
    for number in range(6):
        many.relu(f"layer{number}", DATA)
    with pytest.raises(UserError, match=r"nearest: (layer\d, ){3}layer\d$"):
        excluded_nodes(whole(many.graph(Tensor("layer5"))), ["layer"])
    with pytest.raises(UserError, match=r"nearest: see quantkit explain for the names$"):
        excluded_nodes(network, ["#"])


def mixed_network() -> tuple[Graph, Plan]:
    """Two layers side by side, concatenated, pooled, then a third, whose sum with the pooling stays alone."""
    b, both = concatenated("sin", "relu1", "relu2")
    pooled = b.op("Pooling", "pool", both, kernel=(2, 2))
    last = b.rectified("relu3", pooled)
    graph = b.graph(b.op("elemwise_add", "add", last, pooled))
    return graph, planned(whole(graph))


def test_layers_in_int8() -> None:
    graph, plan = mixed_network()
    assert int8_layers(graph, plan) == ("relu1", "relu2", "relu3")
    assert int8_layers(graph, kept_in_fp32(graph, plan, ["relu2"])) == ("relu1", "relu3")


@pytest.mark.parametrize(
    ("layers", "along"),
    [([], []), (["relu1"], []), (["relu3"], []), (["relu1", "relu2"], ["both", "pool"]),
     (["relu1", "relu2", "relu3"], ["both", "pool", "add"])],
)  # fmt: skip
def test_what_returns_to_fp32(layers: list[str], along: list[str]) -> None:
    graph, plan = mixed_network()
    mixed = kept_in_fp32(graph, plan, layers)
    reasons = {name: decision.reason for name, decision in mixed.decisions.items() if decision.precision == "fp32"}
    assert reasons == {
        **dict.fromkeys(layers, KEPT),
        **dict.fromkeys(along, "all that it reads is FP32"),
        "sin": "sin has no INT8 kernel",
    }
    for name, decision in mixed.decisions.items():
        was = plan.decisions[name]
        assert (decision.node, decision.operator, decision.origin) == (was.node, was.operator, was.origin)
    assert (mixed.activations, mixed.exclude) == (plan.activations, plan.exclude)


def test_what_is_no_int8_layer_cannot_return_to_fp32() -> None:
    graph, plan = mixed_network()
    for stranger in ("pool", "sin", "nothing"):
        message = f"^'{stranger}' is no layer that runs in INT8, so it cannot be returned to FP32$"
        with pytest.raises(UserError, match=message):
            kept_in_fp32(graph, plan, ["relu1", stranger])
