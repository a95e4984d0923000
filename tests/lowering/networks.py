"""Networks that hold between them all that lowering distinguishes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from quantkit.ir.graph import Graph, Tensor
from quantkit.progress import silent
from quantkit.quantization.algorithms.apply import apply_algorithms
from quantkit.quantization.ptq_config import PRESETS
from quantkit.quantization.quantized_graph import QuantizedGraph
from tests.networks import DATA, Builder, images, inverted_residual, residual_v1, residual_v2
from tests.quantization.algorithms.networks import planned


def signed_sum() -> Graph:
    """A signed sum adds an unsigned tensor, which exists in both types."""
    b = Builder()
    stem = b.relu("relu", b.conv("conv0", DATA, 3, 8))
    return b.graph(b.conv("last", b.op("elemwise_add", "add", b.conv("conv1", stem, 8, 8), stem), 8, 8), stem)


def branches() -> Graph:
    """Concatenation of both types, pooling, flattening, two dense layers, one of them clipped."""
    b = Builder()
    left, right = b.relu("left", b.conv("conv0", DATA, 3, 8)), b.conv("conv1", DATA, 3, 8, bias=False)
    both = b.op("Concat", "concat", left, right, dim=1, num_args=2)
    pooled = b.op("Pooling", "pool", both, global_pool=True, pool_type="max")
    hidden = b.op(
        "clip", "hidden_clip", b.dense("hidden", b.op("Flatten", "flatten", pooled), 16, 12), a_min=0, a_max=1
    )
    return b.graph(b.dense("dense", hidden, 12, 10))


def rectified_concatenation() -> Graph:
    """Parts of different ranges, one of them read by more than the concatenation, and a ReLU that stands alone."""
    b = Builder()
    left, right = b.conv("left", DATA, 3, 8), b.conv("right", DATA, 3, 8)
    both = b.op("Concat", "concat", left, right, dim=1, num_args=2)
    return b.graph(b.conv("last", b.relu("relu", both), 16, 8), b.conv("other", right, 8, 4))


def concatenation_read_twice() -> Graph:
    """As the one before, but a convolution reads the concatenation itself, too."""
    b = Builder()
    both = b.op("Concat", "concat", b.conv("left", DATA, 3, 8), b.conv("right", DATA, 3, 8), dim=1, num_args=2)
    return b.graph(b.conv("last", b.relu("relu", both), 16, 8), b.conv("other", both, 16, 4))


def squeezed() -> Graph:
    """A branch that squeezes maps to a pixel and weighs channels by it, and a dense layer with a ReLU at the end."""
    b = Builder()
    stem = b.relu("relu", b.conv("conv", DATA, 3, 16))
    pixel = b.op("Pooling", "pool", stem, global_pool=True, pool_type="avg", kernel=(1, 1))
    few = b.relu("few", b.conv("squeeze", pixel, 16, 8, kernel=1))
    weights = b.op("Activation", "share", b.conv("excite", few, 8, 16, kernel=1), act_type="sigmoid")
    weighed = b.op("broadcast_mul", "weighed", stem, weights)
    last = b.op("Pooling", "last_pool", b.conv("last", weighed, 16, 8), global_pool=True, pool_type="avg")
    return b.graph(b.relu("rectified", b.dense("dense", b.op("Flatten", "flatten", last), 8, 10)))


def addition() -> Graph:
    b = Builder()
    first, second = b.relu("first", b.conv("conv0", DATA, 3, 8)), b.conv("second", DATA, 3, 8)
    return b.graph(
        b.conv("last", b.op("broadcast_add", "add", b.op("Pooling", "pool", first, kernel=(1, 1)), second), 8, 8)
    )


def dead_channels() -> Graph:
    graph = residual_v1()
    weight = graph.params["conv1_weight"].copy()
    weight[3], weight[5] = 0.0, weight[5] * np.float32(1e-25)
    return replace(graph, params={**graph.params, "conv1_weight": weight})


def two_readers_of_a_dense_layer() -> Graph:
    """The dense layer's activation is no part of it."""
    b = Builder()
    dense = b.dense("dense", b.relu("stem", b.conv("conv", DATA, 3, 4)), 1024, 10)
    return b.graph(b.relu("relu", dense), dense)


def parts_of_a_split() -> Graph:
    b = Builder()
    split = b.op("SliceChannel", "split", b.op("relu", "relu", b.conv("conv", DATA, 3, 8)), num_outputs=2, axis=1)
    return b.graph(b.conv("pointwise", Tensor(split.node, 1), 4, 4, kernel=1), split)


def pointwise() -> Graph:
    """A depthwise 1x1 convolution of unsigned input, as a batch normalization after a ReLU makes one."""
    b = Builder()
    stem = b.relu("relu", b.conv("conv", DATA, 3, 8))
    return b.graph(b.relu("last", b.conv("pointwise", stem, 8, 8, kernel=1, groups=8)))


def row_after_a_dense_layer() -> Graph:
    """A dense layer without bias, and an addition of the user's that looks like one."""
    b = Builder()
    row = b.param("row", b.random.normal(size=(1, 10)))
    weight = b.param("weight", b.random.normal(size=(10, 768)))
    dense = b.op("FullyConnected", "dense", DATA, weight, num_hidden=10, no_bias=True)
    return b.graph(b.op("broadcast_add", "add", dense, row))


def centre_only() -> Graph:
    """A 3x3 depthwise convolution of signed input that is zero around its centre by itself."""
    b = Builder()
    graph = b.graph(b.conv("conv", DATA, 3, 3, groups=3))
    weight = graph.params["conv_weight"] * np.pad(np.ones((1, 1), np.float32), 1)
    return replace(graph, params={**graph.params, "conv_weight": weight})


def addend_first() -> Graph:
    """A tensor that is quantized as a signed addend first, and as unsigned input later."""
    b = Builder()
    stem = b.relu("relu", b.conv("conv0", DATA, 3, 8))
    total = b.op("elemwise_add", "add", b.conv("conv1", DATA, 3, 8), stem)
    return b.graph(b.conv("last", stem, 8, 8), b.conv("other", total, 8, 8))


def shared_weights() -> Graph:
    """Two dense layers with the same weights."""
    b = Builder()
    features = b.op("Pooling", "pool", b.conv("conv", DATA, 3, 8), global_pool=True, pool_type="avg", kernel=(1, 1))
    first = b.op("Activation", "tanh", b.dense("first", b.op("Flatten", "flatten", features), 8, 8), act_type="tanh")
    shared = Tensor("first_weight")
    second = b.op("FullyConnected", "second", first, shared, num_hidden=8, no_bias=True)
    return b.graph(second)


def grouped() -> Graph:
    """Two grouped convolutions, one of them with a sum, whose channels differ in size."""
    b = Builder()
    stem = b.relu("relu0", b.conv("conv0", DATA, 3, 8))
    inner = b.relu("relu1", b.conv("wide", stem, 8, 16, groups=4))
    total = b.op("elemwise_add", "add", b.conv("narrow", inner, 16, 8, groups=2), stem)
    graph = b.graph(b.dense("dense", b.op("Flatten", "flatten", b.relu("relu2", total)), 8 * 16 * 16, 10))
    scaled = dict(graph.params)
    for name in ("wide", "narrow"):
        weight = scaled[f"{name}_weight"]
        scaled[f"{name}_weight"] = weight * np.exp(b.random.normal(size=(len(weight), 1, 1, 1))).astype(np.float32)
    return replace(graph, params=scaled)


NETWORKS: dict[str, Callable[[], Graph]] = {
    "v1": residual_v1,
    "signed shortcut": lambda: residual_v1(signed_shortcut=True),
    "v2": residual_v2,
    "inverted residual": inverted_residual,
    "signed sum": signed_sum,
    "branches": branches,
    "rectified concatenation": rectified_concatenation,
    "concatenation read twice": concatenation_read_twice,
    "squeezed": squeezed,
    "addition": addition,
    "dead channels": dead_channels,
    "two readers": two_readers_of_a_dense_layer,
    "split": parts_of_a_split,
    "pointwise": pointwise,
    "row after dense": row_after_a_dense_layer,
    "centre only": centre_only,
    "addend first": addend_first,
    "shared weights": shared_weights,
    "grouped": grouped,
}


def quantized(name: str, preset: str = "none", *exclude: str) -> QuantizedGraph:
    """A network, calibrated to the largest values of some images, with algorithms applied."""
    data = images()
    fused, plan = planned(NETWORKS[name](), data, *exclude)
    network = QuantizedGraph(fused.graph, plan)
    return apply_algorithms(network, fused.original, [data], "minmax", PRESETS[preset], silent).network
