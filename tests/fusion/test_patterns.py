"""What MXNet fuses or quantizes by pattern, in quantkit: layers with what may follow them, shared or not.

Each pattern is fused and must compute the same, and quantized and must come as near to it as integers let expect.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.fusion.float_symbol import float_graph
from quantkit.fusion.fuse import fuse
from quantkit.ir.fused_layer import fused_layer_of
from quantkit.ir.graph import Graph, Tensor
from quantkit.lowering.mxnet_int8 import int8_graph
from quantkit.quantization.quantized_graph import QuantizedGraph
from tests.equivalence import as_near_as_simulated, close
from tests.networks import DATA, Builder
from tests.quantization.algorithms.networks import planned
from tests.random_graphs import Network
from tests.skips import installed_engine

pytestmark = pytest.mark.usefixtures("int8_engine")

# What follows a layer, by name: operators in order, each with its attributes.
FOLLOWERS: dict[str, tuple[tuple[str, dict[str, Any]], ...]] = {
    "nothing": (),
    **{kind: (("Activation", {"act_type": kind}),) for kind in ("relu", "sigmoid", "tanh", "softrelu", "softsign")},
    "clip from 0": (("clip", {"a_min": 0, "a_max": 0.9}),),
    "clip": (("clip", {"a_min": -0.4, "a_max": 0.9}),),
    **{kind: (("LeakyReLU", {"act_type": kind}),) for kind in ("leaky", "elu", "selu", "gelu")},
    "exp": (("exp", {}),),
    "square": (("square", {}),),
    "abs": (("abs", {}),),
    "sqrt": (("abs", {}), ("sqrt", {})),
    "relu, relu": (("relu", {}), ("Activation", {"act_type": "relu"})),
    "relu, clip": (("relu", {}), ("clip", {"a_min": 0, "a_max": 0.9})),
}
SHAPE = (3, 8, 7)
READERS = ("alone", "layer read twice", "result read twice", "both leave")


def followed(b: Builder, layer: Tensor, follower: str) -> Tensor:
    for position, (op, attrs) in enumerate(FOLLOWERS[follower]):
        layer = b.op(op, f"after{position}", layer, **attrs)
    return layer


def shared(b: Builder, layer: Tensor, result: Tensor, readers: str) -> Graph:
    """The network with these readers of a layer and of what follows it."""
    if readers == "layer read twice":
        return b.graph(result, b.op("_mul_scalar", "other", layer, scalar=0.5))
    if readers == "result read twice":
        twice = b.op("_plus_scalar", "other", result, scalar=0.25)
        return b.graph(b.op("elemwise_add", "both", result, twice))
    return b.graph(result, layer) if readers == "both leave" and layer != result else b.graph(result)


def check(graph: Graph, shape: tuple[int, ...] = SHAPE) -> None:
    network = Network(graph, np.random.default_rng(1).normal(size=(4, *shape)).astype(np.float32))
    close(network, float_graph(fuse(graph, shape).graph))
    fused, plan = planned(graph, network.data)
    assert "int8" in {decision.precision for decision in plan.decisions.values()}
    as_near_as_simulated(network, run(int8_graph(QuantizedGraph(fused.graph, plan)), {"data": network.data}), 2.0)


@pytest.mark.parametrize(("follower", "normalized", "readers"), product(FOLLOWERS, (False, True), READERS))
def test_convolutions_with_what_follows_them(follower: str, normalized: bool, readers: str) -> None:
    b = Builder()
    layer = b.conv("conv", DATA, 3, 6)
    layer = b.batch_norm("bn", layer, 6) if normalized else layer
    check(shared(b, layer, followed(b, layer, follower), readers))


@pytest.mark.parametrize(("follower", "no_bias", "readers"), product(FOLLOWERS, (False, True), READERS))
def test_dense_layers_with_what_follows_them(follower: str, no_bias: bool, readers: str) -> None:
    b = Builder()
    features = int(np.prod(SHAPE))
    parts = [b.param("w", b.random.normal(size=(5, features)) / np.sqrt(features))]
    parts += [] if no_bias else [b.param("b", b.random.normal(size=5) * 0.1)]
    layer = b.op("FullyConnected", "dense", DATA, *parts, num_hidden=5, no_bias=no_bias)
    check(shared(b, layer, followed(b, layer, follower), readers))


@pytest.mark.parametrize("kernel", [(1, 1), (3, 3), (2, 3)])
@pytest.mark.parametrize("stride", [(1, 1), (2, 2), (2, 1)])
@pytest.mark.parametrize("groups", [1, 4, 2])
@pytest.mark.parametrize("no_bias", [False, True])
def test_convolutions_of_every_geometry(
    kernel: tuple[int, int], stride: tuple[int, int], groups: int, no_bias: bool
) -> None:
    b = Builder()
    stem = b.relu("relu0", b.conv("conv0", DATA, 3, 4))
    shape = (8 if groups < 4 else 4, 4 // groups, *kernel)
    parts = [b.param("w", b.random.normal(size=shape) / np.sqrt(np.prod(shape[1:])))]
    parts += [] if no_bias else [b.param("b", b.random.normal(size=shape[0]) * 0.1)]
    attrs = {"kernel": kernel, "stride": stride, "pad": (kernel[0] // 2, 0), "num_group": groups}
    layer = b.op("Convolution", "conv", stem, *parts, num_filter=shape[0], no_bias=no_bias, **attrs)
    check(b.graph(b.relu("relu", b.batch_norm("bn", layer, shape[0]))))


def test_convolutions_of_clips() -> None:
    """MXNet 1.6 has no fused form for them, and runs them as they are."""
    b = Builder()
    parts = [b.param(f"w{number}", b.random.normal(size=(3, 3, 3, 3, 3)) / 9) for number in range(2)]
    attrs = {"kernel": (3, 3, 3), "pad": (1, 1, 1), "num_filter": 3, "no_bias": True}
    first = b.relu("relu0", b.op("Convolution", "conv0", DATA, parts[0], **attrs))
    second = b.op("Convolution", "conv1", first, parts[1], **attrs)
    graph = b.graph(b.relu("relu1", b.op("elemwise_add", "sum", second, first)))
    network = Network(graph, np.random.default_rng(1).normal(size=(2, 3, 4, 8, 7)).astype(np.float32))
    close(network, float_graph(fuse(graph, network.data.shape[1:]).graph))
    fused, plan = planned(graph, network.data)
    layers = [node for node in fused.graph.nodes if fused_layer_of(node) is not None]
    convolutions = {plan.decisions[node.name].precision for node in layers}
    assert ("int8" in convolutions) == (installed_engine() == "onednn")
    as_near_as_simulated(network, run(int8_graph(QuantizedGraph(fused.graph, plan)), {"data": network.data}), 2.0)


@pytest.mark.parametrize("other", ["input", "convolution", "convolution, relu", "itself", "pooled", "constant"])
@pytest.mark.parametrize("follower", ["nothing", "relu", "clip from 0"])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("readers", READERS)
def test_sums(other: str, follower: str, turned: bool, readers: str) -> None:
    addition = "broadcast_add" if other in ("pooled", "constant") else "elemwise_add"
    b = Builder()
    stem = b.relu("relu0", b.conv("conv0", DATA, 3, 6))
    layer = b.conv("conv", stem, 6, 6)
    second = {
        "input": lambda: stem,
        "convolution": lambda: b.conv("conv2", stem, 6, 6, kernel=1),
        "convolution, relu": lambda: b.relu("relu2", b.conv("conv2", stem, 6, 6, kernel=1)),
        "itself": lambda: layer,
        "pooled": lambda: b.op("Pooling", "pool", stem, global_pool=True, pool_type="avg", kernel=(1, 1)),
        "constant": lambda: b.param("constant", b.random.normal(size=(1, 6, 1, 1))),
    }[other]()
    total = b.op(addition, "total", *((second, layer) if turned else (layer, second)))
    check(shared(b, layer if readers != "result read twice" else total, followed(b, total, follower), readers))
