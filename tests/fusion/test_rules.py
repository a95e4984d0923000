"""Each rewrite: it fires, it must not fire, and what it makes computes the same to 1e-5."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.fusion.float_symbol import float_graph
from quantkit.fusion.fuse import Fused, fuse
from quantkit.fusion.rewriting.rule import Rule
from quantkit.fusion.rules.activation import ACTIVATION
from quantkit.fusion.rules.batch_norm import BATCH_NORM_AS_CONVOLUTION, FOLD_BATCH_NORM
from quantkit.fusion.rules.drop_identity import DROP_IDENTITY
from quantkit.fusion.rules.pointwise_dense import POINTWISE_DENSE
from quantkit.fusion.rules.residual_sum import RESIDUAL_SUM
from quantkit.ir.graph import Graph, Tensor
from tests.networks import DATA, Builder, images

pytestmark = pytest.mark.usefixtures("engine")


def fused_by(graph: Graph, *rules: Rule) -> Fused:
    """Apply the rules and hold the result against the original on the engine."""
    result = fuse(graph, (3, 16, 16), rules)
    expected = run(graph, {"data": images()})
    for form in (
        (result.graph, float_graph(result.graph)) if not _composites(result.graph) else (float_graph(result.graph),)
    ):
        for a, b in zip(expected, run(form, {"data": images()})):
            np.testing.assert_allclose(b, a, atol=1e-5 * np.abs(a).max())
    return result


def _composites(graph: Graph) -> bool:
    return any(node.body is not None for node in graph.nodes)


def ops(fused: Fused) -> list[str]:
    return [node.op for node in fused.graph.nodes]


def network(build: Callable[[Builder], Tensor]) -> Graph:
    b = Builder()
    return b.graph(build(b))


def test_batch_norm_folds_into_a_convolution() -> None:
    fused = fused_by(network(lambda b: b.batch_norm("bn", b.conv("conv", DATA, 3, 8), 8)), FOLD_BATCH_NORM)
    assert ops(fused) == ["Convolution"]
    (node,) = fused.graph.nodes
    assert (node.name, node.origin) == ("bn", ("conv", "bn"))


def test_batch_norm_folds_into_a_dense_layer() -> None:
    fused = fused_by(network(lambda b: b.batch_norm("bn", b.dense("dense", DATA, 768, 8), 8)), FOLD_BATCH_NORM)
    assert ops(fused) == ["FullyConnected"]


def test_folding_honours_a_fixed_gamma_and_epsilon() -> None:
    fused_by(
        network(lambda b: b.batch_norm("bn", b.conv("conv", DATA, 3, 8, bias=False), 8, fix_gamma=True, eps=0.1)),
        FOLD_BATCH_NORM,
    )


def test_batch_norm_does_not_fold_into_a_shared_convolution() -> None:
    def build(b: Builder) -> Tensor:
        conv = b.conv("conv", DATA, 3, 8)
        return b.op("elemwise_add", "add", b.batch_norm("bn", conv, 8), conv)

    fused = fused_by(network(build), FOLD_BATCH_NORM)
    assert "BatchNorm" in ops(fused)
    assert "2 readers" in fused.rejected[0].reason


def test_batch_norm_does_not_fold_into_an_output() -> None:
    b = Builder()
    conv = b.conv("conv", DATA, 3, 8)
    fused = fused_by(b.graph(b.batch_norm("bn", conv, 8), conv), FOLD_BATCH_NORM)
    assert "output of the network" in fused.rejected[0].reason


def test_batch_norm_does_not_fold_into_computed_weights() -> None:
    def build(b: Builder) -> Tensor:
        conv = b.conv("conv", DATA, 3, 8)
        doubled = b.op("_mul_scalar", "doubled", Tensor("conv_weight"), scalar=2)
        b.nodes[0], b.nodes[1] = b.nodes[1], b.nodes[0]
        b.nodes[1] = type(b.nodes[1])(
            "conv", "Convolution", (DATA, doubled, Tensor("conv_bias")), b.nodes[1].attrs, ("conv",)
        )
        return b.batch_norm("bn", conv, 8)

    fused = fused_by(network(build), FOLD_BATCH_NORM)
    assert "not constants" in fused.rejected[0].reason


def test_a_lone_batch_norm_becomes_a_depthwise_convolution() -> None:
    fused = fused_by(network(lambda b: b.batch_norm("bn", b.relu("relu", DATA), 3)), BATCH_NORM_AS_CONVOLUTION)
    assert ops(fused) == ["Activation", "Convolution"]


def test_the_input_batch_norm_stays() -> None:
    fused = fused_by(network(lambda b: b.batch_norm("bn", DATA, 3)), BATCH_NORM_AS_CONVOLUTION)
    assert ops(fused) == ["BatchNorm"]
    assert "input" in fused.rejected[0].reason


@pytest.mark.parametrize("activation", ["relu", "relu6"])
def test_activations_fuse(activation: str) -> None:
    def build(b: Builder) -> Tensor:
        conv = b.conv("conv", DATA, 3, 8)
        return b.relu("act", conv) if activation == "relu" else b.op("clip", "act", conv, a_min=0, a_max=1)

    fused = fused_by(network(build), ACTIVATION)
    assert ops(fused) == ["fused_convolution"]
    assert fused.graph.nodes[0].name == "act"


@pytest.mark.parametrize("kind", ["sigmoid", "tanh"])
def test_activations_without_an_int8_form_do_not_fuse(kind: str) -> None:
    fused = fused_by(
        network(lambda b: b.op("Activation", "act", b.conv("conv", DATA, 3, 8), act_type=kind)), ACTIVATION
    )
    assert ops(fused) == ["Convolution", "Activation"]
    assert kind in fused.rejected[0].reason


def test_a_clip_from_below_zero_is_no_relu6() -> None:
    fused = fused_by(network(lambda b: b.op("clip", "act", b.conv("conv", DATA, 3, 8), a_min=-1, a_max=1)), ACTIVATION)
    assert ops(fused) == ["Convolution", "clip"]


def test_an_activation_of_a_shared_convolution_does_not_fuse() -> None:
    def build(b: Builder) -> Tensor:
        conv = b.conv("conv", DATA, 3, 8)
        return b.op("elemwise_add", "add", b.relu("relu", conv), conv)

    assert "Activation" in ops(fused_by(network(build), ACTIVATION))


def test_dense_with_relu_fuses() -> None:
    assert ops(fused_by(network(lambda b: b.relu("relu", b.dense("dense", DATA, 768, 8))), ACTIVATION)) == [
        "fused_dense"
    ]


def test_the_later_convolution_takes_the_sum() -> None:
    def build(b: Builder) -> Tensor:
        first, second = b.conv("first", DATA, 3, 8), b.conv("second", DATA, 3, 8)
        return b.relu("relu", b.op("elemwise_add", "add", first, second))

    fused = fused_by(network(build), RESIDUAL_SUM, ACTIVATION)
    assert ops(fused) == ["Convolution", "fused_convolution"]
    assert fused.graph.by_name["relu"].origin == ("second", "add", "relu")


def test_a_sum_of_shared_convolutions_does_not_fuse() -> None:
    def build(b: Builder) -> Tensor:
        first, second = b.conv("first", DATA, 3, 8), b.conv("second", DATA, 3, 8)
        total = b.op("elemwise_add", "add", first, second)
        return b.op("elemwise_add", "again", total, b.op("elemwise_mul", "product", first, second))

    fused = fused_by(network(build), RESIDUAL_SUM)
    assert "fused_convolution" not in ops(fused)


def test_a_broadcast_sum_does_not_fuse() -> None:
    def build(b: Builder) -> Tensor:
        conv = b.conv("conv", DATA, 3, 8)
        mean = b.op("Pooling", "mean", b.relu("relu", DATA), global_pool=True, pool_type="avg", kernel=(1, 1))
        return b.op("broadcast_add", "add", conv, b.conv("wide", mean, 3, 8, kernel=1))

    fused = fused_by(network(build), RESIDUAL_SUM)
    assert "fused_convolution" not in ops(fused)
    assert "differ" in fused.rejected[0].reason


def test_twice_the_same_tensor_does_not_fuse() -> None:
    def build(b: Builder) -> Tensor:
        conv = b.conv("conv", DATA, 3, 8)
        return b.op("elemwise_add", "add", conv, conv)

    assert ops(fused_by(network(build), RESIDUAL_SUM)) == ["Convolution", "elemwise_add"]


def test_what_does_nothing_is_left_out() -> None:
    def build(b: Builder) -> Tensor:
        return b.op("Dropout", "drop", b.op("BlockGrad", "block", b.conv("conv", DATA, 3, 8)), p=0.5)

    assert ops(fused_by(network(build), DROP_IDENTITY)) == ["Convolution"]


def test_dropout_that_is_always_on_stays() -> None:
    b = Builder()
    graph = b.graph(b.op("Dropout", "drop", b.conv("conv", DATA, 3, 8), p=0.5, mode="always"))
    assert "Dropout" in ops(fuse(graph, (3, 16, 16), (DROP_IDENTITY,)))


def test_a_1x1_convolution_over_one_pixel_becomes_dense() -> None:
    def build(b: Builder) -> Tensor:
        mean = b.op("Pooling", "mean", DATA, global_pool=True, pool_type="avg", kernel=(1, 1))
        return b.conv("conv", mean, 3, 8, kernel=1)

    assert ops(fused_by(network(build), POINTWISE_DENSE)) == ["Pooling", "FullyConnected", "Reshape"]


def test_a_1x1_convolution_over_a_map_stays() -> None:
    assert ops(fused_by(network(lambda b: b.conv("conv", DATA, 3, 8, kernel=1)), POINTWISE_DENSE)) == ["Convolution"]


def test_a_sum_with_something_computed_from_parameters_does_not_fuse() -> None:
    def build(b: Builder) -> Tensor:
        doubled = b.op("_mul_scalar", "doubled", b.param("offset", np.ones((1, 8, 16, 16))), scalar=2)
        return b.op("broadcast_add", "add", b.conv("conv", DATA, 3, 8), doubled)

    fused = fused_by(network(build), RESIDUAL_SUM)
    assert "fused_convolution" not in ops(fused)
    assert "does not depend on the network's input" in fused.rejected[0].reason


@pytest.mark.parametrize("folded", [True, False])
def test_parameters_that_are_not_given_have_the_engines_defaults(folded: bool) -> None:
    """Of a batch normalization: gamma fixed at 1, and 0.001 for epsilon."""

    def build(b: Builder) -> Tensor:
        statistics = {"gamma": 3.0, "beta": 0.5, "mean": 0.1, "var": 0.02}
        params = [b.param(f"bn_{key}", np.full(3, value)) for key, value in statistics.items()]
        return b.op("BatchNorm", "bn", b.conv("conv", DATA, 3, 3) if folded else b.relu("relu", DATA), *params)

    assert "BatchNorm" not in ops(fused_by(network(build), FOLD_BATCH_NORM, BATCH_NORM_AS_CONVOLUTION))


@pytest.mark.parametrize("bias", [True, False])
def test_a_1x1_convolution_over_one_pixel_keeps_or_lacks_its_bias(bias: bool) -> None:
    def build(b: Builder) -> Tensor:
        mean = b.op("Pooling", "mean", DATA, global_pool=True, pool_type="avg", kernel=(1, 1))
        return b.relu("relu", b.conv("conv", mean, 3, 8, kernel=1, bias=bias))

    fused = fused_by(network(build), POINTWISE_DENSE)
    assert ops(fused) == ["Pooling", "FullyConnected", "Reshape", "Activation"]
    dense, shaped = fused.graph.nodes[1:3]
    assert dense.attrs == {"num_hidden": "8", "no_bias": str(not bias), "flatten": "True"}
    assert (dense.name, dense.origin, shaped.name) == ("conv_dense", ("conv",), "conv")
    assert fused.graph.params["conv_dense_weight"].shape == (8, 3)
    assert run(fused.graph, {"data": images()})[0].shape == (4, 8, 1, 1)


def test_what_stands_for_a_batch_norm_has_the_attributes_that_the_engine_reads() -> None:
    b = Builder()
    conv = b.conv("conv", DATA, 3, 3, bias=False)
    graph = b.graph(b.batch_norm("last", b.relu("relu", b.batch_norm("bn", conv, 3)), 3))
    folded, _, lone = fused_by(graph, FOLD_BATCH_NORM, BATCH_NORM_AS_CONVOLUTION).graph.nodes
    assert folded.attrs == {
        "kernel": "(3, 3)",
        "pad": "(1, 1)",
        "num_filter": "3",
        "num_group": "1",
        "no_bias": "False",
    }
    assert lone.attrs == {"kernel": "(1, 1)", "num_filter": "3", "num_group": "3", "no_bias": "False"}


def test_folding_rounds_once() -> None:
    """Of parameters that float32 holds, what is folded is the nearest float32 to what it should be."""
    b = Builder()
    graph = b.graph(b.batch_norm("bn", b.conv("conv", DATA, 3, 8), 8))
    exact = {name: value.astype(np.float64) for name, value in graph.params.items()}
    scale = exact["bn_gamma"] / np.sqrt(exact["bn_moving_var"] + 1e-5)
    folded = fuse(graph, (3, 16, 16), (FOLD_BATCH_NORM,)).graph.params
    weight = (exact["conv_weight"] * scale[:, None, None, None]).astype(np.float32)
    bias = exact["bn_beta"] + (exact["conv_bias"] - exact["bn_moving_mean"]) * scale
    np.testing.assert_array_equal(folded["bn_weight"], weight)
    np.testing.assert_array_max_ulp(folded["bn_bias"], bias.astype(np.float32), 1)


def test_the_original_and_its_shapes_stay_at_hand() -> None:
    graph = network(lambda b: b.relu("relu", b.batch_norm("bn", b.conv("conv", DATA, 3, 8), 8)))
    fused = fuse(graph, [3, 16, 16])
    assert fused.original is graph
    assert {fused.shapes[Tensor(name)] for name in ("conv", "bn", "relu")} == {(1, 8, 16, 16)}
    assert fused.shapes[DATA] == (1, 3, 16, 16)
