from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.backends.mxnet.shapes import infer_shapes
from quantkit.fusion.float_symbol import float_graph
from quantkit.ir.graph import Graph, Tensor
from quantkit.lowering.subsampling import with_subsampling
from quantkit.quantization.plan import Decision
from quantkit.quantization.quantized_graph import QuantizedGraph
from tests.networks import DATA, Builder, images
from tests.quantization.algorithms.networks import planned
from tests.quantized import parts_of

pytestmark = pytest.mark.usefixtures("engine")

STRIDED = {"kernel": (1, 1), "stride": (2, 2), "num_filter": 8}


def strided(b: Builder, name: str, data: Tensor, **attrs: object) -> Tensor:
    weight = b.param(f"{name}_weight", b.random.normal(size=(8, 8, *attrs.get("kernel", (1, 1)))))  # type: ignore[misc]
    bias = b.param(f"{name}_bias", b.random.normal(size=8))
    return b.op("Convolution", name, data, weight, bias, **{**STRIDED, **attrs})


def downsampling() -> Graph:
    """ResNet v1's: both branches read a tensor with stride 2."""
    b = Builder()
    stem = b.relu("stem", b.conv("conv", DATA, 3, 8))
    body = b.conv("body", b.relu("left", strided(b, "narrow", stem)), 8, 8)
    return b.graph(b.relu("out", b.op("elemwise_add", "add", body, strided(b, "shortcut", stem))))


def one_reader(**attrs: object) -> Graph:
    """A convolution of single values with nothing fused into it, with stride 2 if not these parameters."""
    b = Builder()
    return b.graph(strided(b, "shortcut", b.relu("stem", b.conv("conv", DATA, 3, 8)), **attrs))


def two_readers(**attrs: object) -> Graph:
    """One convolution of single values with stride 2, and another of these parameters."""
    b = Builder()
    stem = b.relu("stem", b.conv("conv", DATA, 3, 8))
    return b.graph(strided(b, "shortcut", stem), strided(b, "other", stem, **attrs))


def also_read_whole() -> Graph:
    b = Builder()
    stem = b.relu("stem", b.conv("conv", DATA, 3, 8))
    return b.graph(strided(b, "shortcut", stem), b.conv("body", stem, 8, 8))


def put_out() -> Graph:
    b = Builder()
    stem = b.relu("stem", b.conv("conv", DATA, 3, 8))
    return b.graph(strided(b, "shortcut", stem), stem)


def parts_of_a_split() -> Graph:
    """Both parts are read with stride 2, and so is a tensor that is called like the second."""
    b = Builder()
    other = b.relu("split_1", b.conv("other", DATA, 3, 8))
    split = b.op("SliceChannel", "split", b.relu("stem", b.conv("conv", DATA, 3, 16)), num_outputs=2, axis=1)
    parts = (split, Tensor("split", 1), other)
    return b.graph(*(strided(b, name, part) for name, part in zip(("first", "second", "third"), parts)))


@pytest.mark.parametrize("size", [16, 15])
@pytest.mark.parametrize(("build", "count"), [(downsampling, 1), (one_reader, 1), (parts_of_a_split, 3)])
def test_it_computes_the_same_with_each_tensor_subsampled_once(
    build: Callable[[], Graph], count: int, size: int
) -> None:
    data = images(size=size)
    fused, plan = planned(build(), data)
    shapes = infer_shapes(float_graph(fused.graph), {"data": data.shape})
    made, known = with_subsampling(QuantizedGraph(fused.graph, plan), shapes)
    graph, complete = parts_of(made)
    pools = [node for node in graph.nodes if node.op == "Pooling"]
    assert len(pools) == count
    for expected, found in zip(*(run(float_graph(each), {"data": data}) for each in (fused.graph, graph))):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * np.abs(expected).max())
    again = infer_shapes(float_graph(graph), {"data": data.shape})
    assert known == again
    for pool in pools:
        assert complete.tensors[pool.output] == plan.tensors[pool.inputs[0]]
        assert complete.decisions[pool.name] == Decision(pool.name, "Pooling", (), "int8")


@pytest.mark.parametrize(
    "build",
    [
        also_read_whole,
        put_out,
        lambda: one_reader(stride=(1, 1)),
        lambda: two_readers(kernel=(3, 3), pad=(1, 1)),
        lambda: two_readers(stride=(4, 4)),
        lambda: two_readers(pad=(1, 1)),
    ],
)
def test_other_tensors_are_left_alone(build: Callable[[], Graph]) -> None:
    data = images()
    fused, plan = planned(build(), data)
    shapes = infer_shapes(float_graph(fused.graph), {"data": data.shape})
    made, known = with_subsampling(QuantizedGraph(fused.graph, plan), shapes)
    found, complete = parts_of(made)
    assert [node.op for node in found.nodes] == [node.op for node in fused.graph.nodes]
    assert complete.decisions == plan.decisions
    assert known == dict(shapes)


def test_layers_in_fp32_keep_their_stride() -> None:
    data = images()
    fused, plan = planned(downsampling(), data, "shortcut")
    shapes = infer_shapes(float_graph(fused.graph), {"data": data.shape})
    found, _ = with_subsampling(QuantizedGraph(fused.graph, plan), shapes)
    assert not any(node.op == "Pooling" for node in found.graph.nodes)
