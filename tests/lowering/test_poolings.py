"""Poolings in INT8 on the engine, held against FP32."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lowering.on_engine import largest_error, quantized
from tests.networks import DATA, Builder, images

pytestmark = pytest.mark.usefixtures("int8_engine")


@pytest.mark.parametrize("kind", ["avg", "max"])
@pytest.mark.parametrize("convention", ["valid", "full"])
@pytest.mark.parametrize("count_include_pad", [True, False])
@pytest.mark.parametrize("pad", [0, 1])
def test_pooling_up_to_the_last_row(kind: str, convention: str, count_include_pad: bool, pad: int) -> None:
    b = Builder()
    attrs = {"pool_type": kind, "pooling_convention": convention, "count_include_pad": count_include_pad}
    stem = b.relu("relu", b.conv("conv", DATA, 3, 8))
    graph = b.graph(b.op("Pooling", "pool", stem, kernel=(3, 3), stride=(2, 2), pad=(pad, pad), **attrs))
    assert largest_error(graph, images()) < 0.03


@pytest.mark.requires("onednn")
@pytest.mark.parametrize("attrs", [
    {"kernel": (1, 2, 2), "stride": (1, 2, 2), "pool_type": "max", "layout": "NCDHW"},
    {"kernel": (2, 3, 2), "stride": (2, 2, 1), "pad": (0, 1, 1), "pool_type": "max", "pooling_convention": "full"},
    {"kernel": (3, 3, 3), "pad": (1, 1, 1), "pool_type": "avg", "count_include_pad": False},
    {"kernel": (1, 1, 1), "global_pool": True, "pool_type": "max"},
    {"global_pool": True, "pool_type": "max"},
])  # fmt: skip
def test_pooling_of_clips(attrs: dict[str, object]) -> None:
    b = Builder()
    weight = b.param("conv_weight", b.random.normal(size=(8, 3, 1, 1, 1)))
    layer = b.op("Convolution", "conv", DATA, weight, kernel=(1, 1, 1), num_filter=8, no_bias=True)
    graph = b.graph(b.op("Pooling", "pool", b.relu("relu", layer), **attrs))
    data = np.random.default_rng(1).normal(size=(2, 3, 5, 8, 8)).astype(np.float32)
    assert largest_error(graph, data) < 0.03
    operators = [node.op for node in quantized(graph, data)[2].nodes]
    assert operators.count("_contrib_quantized_pooling") == ("kernel" in attrs)


@pytest.mark.requires("exact-sums")
def test_pooling_of_sequences() -> None:
    b = Builder()
    layer = b.op("FullyConnected", "dense", DATA, b.param("w", b.random.normal(size=(8, 6))), num_hidden=8,
                 no_bias=True, flatten=False)  # fmt: skip
    graph = b.graph(b.op("Pooling", "pool", b.relu("relu", layer), kernel=(2,), stride=(2,), pool_type="max"))
    data = np.random.default_rng(1).normal(size=(2, 4, 6)).astype(np.float32)
    assert largest_error(graph, data) < 0.03


def test_global_max_pooling_without_a_kernel() -> None:
    b = Builder()
    pooled = b.op("Pooling", "pool", b.relu("relu", b.conv("conv", DATA, 3, 8)), global_pool=True, pool_type="max")
    assert largest_error(b.graph(pooled), images()) < 0.03
