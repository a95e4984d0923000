"""What each rule returns where its pattern matches: the reason that ``explain`` prints, or nothing at all."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from quantkit.fusion.fuse import RULES, fuse
from quantkit.fusion.rewriting.rule import Applied, Rejection, Rule
from quantkit.fusion.rules.activation import ACTIVATION
from quantkit.fusion.rules.batch_norm import BATCH_NORM_AS_CONVOLUTION, FOLD_BATCH_NORM
from quantkit.fusion.rules.drop_identity import DROP_IDENTITY
from quantkit.fusion.rules.pointwise_dense import POINTWISE_DENSE
from quantkit.fusion.rules.residual_sum import RESIDUAL_SUM
from quantkit.ir.graph import Tensor
from tests.networks import DATA, Builder, residual_v1

pytestmark = pytest.mark.usefixtures("engine")

SHAPE = (3, 16, 16)


def computed_convolution(b: Builder, name: str = "conv", bias: bool = False) -> Tensor:
    """A convolution whose weight, or whose bias, is computed from a parameter."""
    kept = b.param("kept", b.random.normal(size=(8, 3, 3, 3)))
    base = b.param("base", b.random.normal(size=8)) if bias else kept
    twice = b.op("_mul_scalar", "twice", base, scalar=2)
    inputs = (kept, twice) if bias else (twice,)
    return b.op("Convolution", name, DATA, *inputs, kernel=(3, 3), pad=(1, 1), num_filter=8, no_bias=not bias)


def clip(b: Builder, name: str, data: Tensor, **attrs: float) -> Tensor:
    return b.op("clip", name, data, **{"a_min": 0.0, "a_max": 6.0, **attrs})


def normalized_axis(b: Builder) -> Tensor:
    return b.batch_norm("bn", b.conv("conv", DATA, 3, 8), 16, axis=2)


def computed_gamma(b: Builder, data: Tensor, channels: int) -> Tensor:
    """A batch normalization, one of whose parameters an operator computes."""
    ones = b.op("_ones", "ones", shape=(channels,))
    rest = [b.param(f"bn_{name}", np.ones(channels)) for name in ("beta", "mean", "var")]
    return b.op("BatchNorm", "bn", data, ones, *rest, fix_gamma=False)


def deep_dense(b: Builder) -> Tensor:
    weight, bias = b.param("w", b.random.normal(size=(5, 16))), b.param("b", b.random.normal(size=5))
    dense = b.op("FullyConnected", "dense", DATA, weight, bias, num_hidden=5, flatten=False)
    return b.batch_norm("bn", dense, 3)


def twice_read(b: Builder) -> Tensor:
    conv = b.conv("conv", DATA, 3, 8)
    return b.op("elemwise_mul", "both", b.relu("act", conv), b.op("tanh", "other", conv))


def summed(b: Builder, first: Tensor, second: Tensor, op: str = "elemwise_add") -> Tensor:
    return b.op(op, "add", first, second)


REFUSED: dict[str, tuple[tuple[Rule, ...], Callable[[Builder], Tensor], str, str]] = {
    "kind": (
        (ACTIVATION,),
        lambda b: b.op("Activation", "act", b.conv("conv", DATA, 3, 8), act_type="tanh"),
        "act",
        "the engine's INT8 layers have no tanh",
    ),
    "computed weights, activation": (
        (ACTIVATION,),
        lambda b: b.relu("act", computed_convolution(b)),
        "act",
        "the weights of conv are computed, not constant",
    ),
    "computed bias, activation": (
        (ACTIVATION,),
        lambda b: b.relu("act", computed_convolution(b, bias=True)),
        "act",
        "the weights of conv are computed, not constant",
    ),
    "two activations": (
        (ACTIVATION,),
        lambda b: b.relu("second", b.relu("first", b.conv("conv", DATA, 3, 8))),
        "second",
        "first already ends in an activation",
    ),
    "clip after sum": (
        (RESIDUAL_SUM, ACTIVATION),
        lambda b: clip(b, "act", summed(b, b.conv("conv", DATA, 3, 3), DATA)),
        "act",
        "the engine cannot clip after a fused sum",
    ),
    "readers": (
        (ACTIVATION,),
        twice_read,
        "act",
        "the result of conv has 2 readers: act, other",
    ),
    "another axis": (
        (FOLD_BATCH_NORM,),
        normalized_axis,
        "bn",
        "it normalises axis 2, not the channels",
    ),
    "computed parameter": (
        (FOLD_BATCH_NORM,),
        lambda b: computed_gamma(b, b.conv("conv", DATA, 3, 8), 8),
        "bn",
        "its parameters or the weights before it are not constants",
    ),
    "computed weights, normalized": (
        (FOLD_BATCH_NORM,),
        lambda b: b.batch_norm("bn", computed_convolution(b), 8),
        "bn",
        "its parameters or the weights before it are not constants",
    ),
    "computed bias, normalized": (
        (FOLD_BATCH_NORM,),
        lambda b: b.batch_norm("bn", computed_convolution(b, bias=True), 8),
        "bn",
        "its parameters or the weights before it are not constants",
    ),
    "dense with axes": (
        (FOLD_BATCH_NORM,),
        deep_dense,
        "bn",
        "the dense layer before it keeps further axes",
    ),
    "input": (
        (BATCH_NORM_AS_CONVOLUTION,),
        lambda b: b.batch_norm("bn", DATA, 3),
        "bn",
        "it normalises the network's input, which is not quantized yet",
    ),
    "lone, computed": (
        (BATCH_NORM_AS_CONVOLUTION,),
        lambda b: computed_gamma(b, b.relu("relu", DATA), 3),
        "bn",
        "its parameters are not constants",
    ),
    "sum of computed weights": (
        (RESIDUAL_SUM,),
        lambda b: summed(b, computed_convolution(b), b.op("tanh", "other", b.conv("wide", DATA, 3, 8))),
        "add",
        "the weights of conv are computed, not constant",
    ),
    "sum of a sum": (
        (RESIDUAL_SUM,),
        lambda b: b.op("elemwise_add", "again", summed(b, b.conv("conv", DATA, 3, 3), DATA), DATA),
        "again",
        "add already ends in a sum",
    ),
    "sum with a constant": (
        (RESIDUAL_SUM,),
        lambda b: summed(b, b.conv("conv", DATA, 3, 8), b.param("offset", np.ones((1, 8, 16, 16))), "broadcast_add"),
        "add",
        "offset does not depend on the network's input, so it has no batch of its own",
    ),
    "shapes": (
        (RESIDUAL_SUM,),
        lambda b: summed(
            b,
            b.op("Pooling", "mean", b.relu("relu", DATA), global_pool=True, pool_type="avg", kernel=(1, 1)),
            b.conv("conv", DATA, 3, 3),
            "broadcast_add",
        ),
        "add",
        "the shapes (1, 3, 16, 16) and (1, 3, 1, 1) differ",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_must_not_fuse_says_why(case: str) -> None:
    rules, build, node, reason = REFUSED[case]
    b = Builder()
    fused = fuse(b.graph(build(b)), SHAPE, rules)
    # All rejections of the rule: a sum may be rejected once, whichever of its inputs is looked at first.
    assert Rejection(rules[-1].name, node, reason) in fused.rejected
    assert (rules[-1].name, node) not in {(each.rule, each.node) for each in fused.applied}


def test_an_output_of_the_network_stays() -> None:
    b = Builder()
    conv = b.conv("conv", DATA, 3, 8)
    fused = fuse(b.graph(b.relu("act", conv), conv), SHAPE, (ACTIVATION,))
    assert fused.rejected == (Rejection(ACTIVATION.name, "act", "the result of conv is also an output of the network"),)


def test_one_convolution_of_a_sum_is_enough() -> None:
    """The first is read twice, so the second adds, although it comes earlier; nothing is rejected."""
    b = Builder()
    second = b.conv("second", DATA, 3, 8)
    first = b.conv("first", DATA, 3, 8)
    total = summed(b, first, second)
    fused = fuse(b.graph(b.op("elemwise_mul", "both", total, b.op("tanh", "other", first))), SHAPE, (RESIDUAL_SUM,))
    assert fused.graph.by_name["add"].inputs[-1] == first
    assert fused.applied == (Applied(RESIDUAL_SUM.name, "add", ("second", "add")),)
    assert not fused.rejected


SILENT: dict[str, tuple[Rule, Callable[[Builder], Tensor]]] = {
    "activation of the input": (ACTIVATION, lambda b: b.relu("act", DATA)),
    "other operators": (ACTIVATION, lambda b: b.op("Flatten", "flat", b.conv("conv", DATA, 3, 8))),
    "activation of an activation": (ACTIVATION, lambda b: b.relu("act", b.op("tanh", "tanh", DATA))),
    "normalized sum": (
        FOLD_BATCH_NORM,
        lambda b: b.batch_norm("bn", b.op("elemwise_add", "add", DATA, b.conv("conv", DATA, 3, 3)), 3),
    ),
    "another axis alone": (BATCH_NORM_AS_CONVOLUTION, lambda b: b.batch_norm("bn", b.relu("relu", DATA), 16, axis=2)),
    "a matrix": (
        BATCH_NORM_AS_CONVOLUTION,
        lambda b: b.batch_norm("bn", b.relu("relu", b.dense("dense", DATA, 768, 8)), 8),
    ),
    "two dense layers": (
        RESIDUAL_SUM,
        lambda b: summed(b, b.dense("first", DATA, 768, 8), b.dense("second", DATA, 768, 8)),
    ),
    "product": (RESIDUAL_SUM, lambda b: b.op("elemwise_mul", "product", b.conv("conv", DATA, 3, 3), DATA)),
    "map": (POINTWISE_DENSE, lambda b: b.conv("conv", DATA, 3, 8, kernel=1)),
    "dropout": (DROP_IDENTITY, lambda b: b.op("Dropout", "drop", DATA, mode="always")),
}


@pytest.mark.parametrize("case", SILENT)
def test_rules_without_their_pattern_say_nothing(case: str) -> None:
    rule, build = SILENT[case]
    b = Builder()
    graph = b.graph(build(b))
    fused = fuse(graph, SHAPE, (rule,))
    assert (fused.applied, fused.rejected) == ((), ())
    assert fused.graph.nodes == graph.nodes


def one_pixel(b: Builder, **attrs: object) -> Tensor:
    """A convolution over one pixel, or over a map that its padding makes of one."""
    weight = b.param("w", b.random.normal(size=(6, 3 // int(str(attrs.get("num_group", 1))), 1, 1)))
    pixel = b.op("Pooling", "pixel", DATA, global_pool=True, pool_type="avg", kernel=(1, 1))
    return b.op("Convolution", "conv", pixel, weight, **{"kernel": (1, 1), "num_filter": 6, "no_bias": True, **attrs})


def test_one_pixel_with_padding_or_groups_is_no_matrix_product() -> None:
    for attrs in ({"pad": (1, 1)}, {"pad": (0, 1)}, {"num_group": 3}):
        b = Builder()
        assert not fuse(b.graph(one_pixel(b, **attrs)), SHAPE, (POINTWISE_DENSE,)).applied
    b = Builder()
    big = b.op(
        "Convolution",
        "conv",
        b.op("Pooling", "pixel", DATA, global_pool=True, pool_type="avg", kernel=(1, 1)),
        b.param("w", b.random.normal(size=(6, 3, 3, 3))),
        kernel=(3, 3), pad=(1, 1), num_filter=6, no_bias=True,
    )  # fmt: skip
    assert not fuse(b.graph(big), SHAPE, (POINTWISE_DENSE,)).applied


def test_dropout_and_what_is_left_out_are_told_apart() -> None:
    for mode, left in (("training", ["tanh"]), ("always", ["Dropout", "tanh"])):
        b = Builder()
        graph = b.graph(b.op("tanh", "tanh", b.op("Dropout", "drop", DATA, mode=mode)))
        assert [node.op for node in fuse(graph, SHAPE, (DROP_IDENTITY,)).graph.nodes] == left


def test_fused_layers_survive_what_is_left_out_around_them() -> None:
    b = Builder()
    graph = b.graph(b.op("_copy", "copy", b.relu("relu", b.conv("conv", DATA, 3, 3))))
    fused = fuse(graph, SHAPE, (ACTIVATION, DROP_IDENTITY)).graph
    assert [(node.name, node.op) for node in fused.nodes] == [("relu", "fused_convolution")]
    assert fused.nodes[0].body is not None


def test_one_pixel_without_groups_is_a_matrix_product_but_not_its_pooling() -> None:
    b = Builder()
    again = b.op("Pooling", "again", one_pixel(b), pool_type="max", kernel=(1, 1))
    fused = fuse(b.graph(again), SHAPE, (POINTWISE_DENSE,))
    assert fused.applied == (Applied(POINTWISE_DENSE.name, "conv", ("conv",)),)
    assert not fused.rejected


def test_computed_weights_of_one_pixel_stay() -> None:
    b = Builder()
    pixel = b.op("Pooling", "pixel", DATA, global_pool=True, pool_type="avg", kernel=(1, 1))
    ones = b.op("_ones", "ones", shape=(6, 3, 1, 1))
    conv = b.op("Convolution", "conv", pixel, ones, kernel=(1, 1), num_filter=6, no_bias=True)
    assert not fuse(b.graph(conv), SHAPE, (POINTWISE_DENSE,)).applied


def test_what_was_done_is_told_in_the_users_names() -> None:
    fused = fuse(residual_v1(signed_shortcut=True), SHAPE)
    assert set(fused.applied) == {
        *(Applied(FOLD_BATCH_NORM.name, f"bn{n}", (f"conv{n}", f"bn{n}")) for n in range(4)),
        Applied(RESIDUAL_SUM.name, "add", ("conv3", "bn3", "add")),
        *(Applied(ACTIVATION.name, f"relu{n}", (f"conv{n}", f"bn{n}", f"relu{n}")) for n in range(2)),
        Applied(ACTIVATION.name, "relu2", ("conv3", "bn3", "add", "relu2")),
    }
    assert not fused.rejected
    b = Builder()
    left_out = b.op("identity", "second", b.op("_copy", "first", b.op("Dropout", "drop", b.relu("relu", DATA))))
    fused = fuse(b.graph(left_out), SHAPE)
    assert fused.applied == tuple(Applied(DROP_IDENTITY.name, "relu", (name,)) for name in ("drop", "first", "second"))
    assert fused.graph.outputs == (Tensor("relu"),)


def test_every_way_of_writing_an_addition_fuses() -> None:
    for op in ("elemwise_add", "broadcast_add", "_plus", "_Plus", "broadcast_plus"):
        b = Builder()
        fused = fuse(b.graph(summed(b, DATA, b.conv("conv", DATA, 3, 3), op)), SHAPE, RULES)
        assert [node.op for node in fused.graph.nodes] == ["fused_convolution"]
