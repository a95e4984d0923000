"""What INT8 operators become in training graphs: the engine's integers, and those of the integer interpreter."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.ir.graph import Graph, Tensor
from quantkit.lowering.mxnet_int8 import int8_symbol
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.training.simulated.training_graph import training_graph
from tests.lowering.networks import NETWORKS, quantized
from tests.networks import DATA, Builder, images
from tests.quantization.algorithms.networks import planned, simulated
from tests.training.simulated.on_engine import trained

pytestmark = pytest.mark.usefixtures("engine")


def integers(network: QuantizedGraph, data: np.ndarray) -> dict[Tensor, np.ndarray]:
    """The integers that INT8 operators put out in the training graph, in training, by tensor."""
    graph = training_graph(network, data.shape[1:]).graph
    names = {tensor: f"{tensor.stem}_integers" for tensor in network.plan.tensors}
    tensors = [tensor for tensor, name in names.items() if name in graph.by_name]
    found, _ = trained(graph.with_outputs([Tensor(names[tensor]) for tensor in tensors]).pruned(), data)
    return dict(zip(tensors, found))


def engine_integers(network: QuantizedGraph, data: np.ndarray) -> dict[Tensor, np.ndarray]:
    """Those of the lowered network."""
    symbol = int8_symbol(network)
    tensors = list(symbol.integers)
    found = run(
        symbol.graph.with_outputs([symbol.integers[tensor].tensor for tensor in tensors]).pruned(), {"data": data}
    )
    return dict(zip(tensors, found))


def check(found: Mapping[Tensor, np.ndarray], wanted: Mapping[Tensor, np.ndarray]) -> None:
    assert found
    for tensor, values in found.items():
        np.testing.assert_array_equal(values, wanted[tensor], str(tensor))


@pytest.mark.usefixtures("int8_engine")
@pytest.mark.requires("vnni")
@pytest.mark.parametrize("preset", ["none", "best"])
@pytest.mark.parametrize("name", NETWORKS)
def test_integers_are_those_of_the_engine(name: str, preset: str) -> None:
    network = quantized(name, preset)
    check(integers(network, images(16)), engine_integers(network, images(16)))


@pytest.mark.parametrize("preset", ["none", "best"])
@pytest.mark.parametrize("name", NETWORKS)
def test_integers_are_about_those_of_the_interpreter(name: str, preset: str) -> None:
    network = quantized(name, preset)
    found = integers(network, images())
    made = [node.output for node in network.graph.nodes if network.computes_integers(node)]
    steps = {tensor: int8_step(network, tensor) for tensor in made}
    real = {tensor: (found[tensor] * steps[tensor]).astype(np.float32) for tensor in made}
    # Each operator is compared alone: the interpreter reads what those before compute in the training graph.
    wanted = simulated(network.graph, network.plan, images(), real)
    for tensor in made:
        difference = np.abs(real[tensor] - wanted[tensor]) / steps[tensor]
        # Kernels round biases, which the interpreter does not: a sum on the edge may fall to either side.
        assert difference.max() < 1.01, tensor
        assert (difference > 0.25).sum() <= 1 + 0.005 * difference.size, tensor


def int8_step(network: QuantizedGraph, tensor: Tensor) -> np.float32:
    """The real value of one step of what the kernel puts out, which may have 7 bits."""
    return np.float32(int8_symbol(network).integers[tensor].form.params.scale)


def averaged(data: Tensor, b: Builder, **attrs: object) -> Graph:
    return b.graph(b.op("Pooling", "pool", data, pool_type="avg", **attrs))


def rectified(b: Builder) -> Tensor:
    return b.relu("relu", b.conv("conv", DATA, 3, 8))


def signed(b: Builder) -> Tensor:
    return b.conv("relu", DATA, 3, 8)


def sum_of_seven_bits(b: Builder) -> Tensor:
    stem = b.relu("stem", b.conv("conv0", DATA, 3, 8))
    total = b.op("elemwise_add", "add", b.conv("conv1", stem, 8, 8), b.conv("conv2", stem, 8, 8, kernel=1))
    return b.relu("relu", total)


POOLINGS = {
    "halves": {"kernel": (2, 2), "stride": (2, 2)},
    "padded": {"kernel": (3, 3), "pad": (1, 1)},
    "without padding": {"kernel": (3, 3), "pad": (1, 1), "count_include_pad": False},
    "overhang": {"kernel": (3, 3), "stride": (2, 2), "pooling_convention": "full", "count_include_pad": False},
    "padded overhang": {"kernel": (4, 3), "stride": (3, 2), "pad": (1, 1), "pooling_convention": "full",
                        "count_include_pad": False},
}  # fmt: skip


@pytest.mark.usefixtures("int8_engine")
@pytest.mark.requires("vnni")
@pytest.mark.parametrize("source", [rectified, signed, sum_of_seven_bits])
@pytest.mark.parametrize("pooling", POOLINGS)
def test_means_are_rounded_as_by_the_engine(pooling: str, source: Callable[[Builder], Tensor]) -> None:
    b = Builder()
    fused, plan = planned(averaged(source(b), b, **POOLINGS[pooling]), images())
    assert plan.decisions["pool"].is_int8
    network = QuantizedGraph(fused.graph, plan)
    check(integers(network, images()), engine_integers(network, images()))


@pytest.mark.parametrize("pooling", POOLINGS)
def test_means_are_rounded_half_to_even(pooling: str) -> None:
    b = Builder()
    fused, plan = planned(averaged(rectified(b), b, **POOLINGS[pooling]), images())
    found = integers(QuantizedGraph(fused.graph, plan), images())
    relu, pool = found[Tensor("relu")], found[Tensor("pool")]
    kernel, stride, pad = (POOLINGS[pooling].get(name, (1, 1)) for name in ("kernel", "stride", "pad"))
    pad = pad if "pad" in POOLINGS[pooling] else (0, 0)
    for row, column in np.ndindex(*pool.shape[2:]):
        window = tuple(
            slice(max(0, place * step - border), place * step - border + extent)
            for place, step, border, extent in zip((row, column), stride, pad, kernel)
        )
        seen = relu[(..., *window)]
        inside = np.prod(seen.shape[2:]) if "count_include_pad" in POOLINGS[pooling] else np.prod(kernel)
        mean = seen.sum(axis=(2, 3), dtype=np.float64) / inside
        np.testing.assert_array_equal(pool[..., row, column], np.rint(mean))


@pytest.mark.requires("onednn", "vnni")
def test_dense_layers_that_hand_on_integers() -> None:
    b = Builder()
    hidden = DATA
    for name, features, units in (("dense0", 12, 40), ("dense1", 40, 30)):
        hidden = b.relu(f"{name}_relu", b.dense(name, hidden, features, units))
    graph = b.graph(b.dense("dense2", b.dense("dense3", hidden, 30, 20), 20, 10))
    data = np.random.default_rng(0).normal(size=(50, 12)).astype(np.float32)
    fused, plan = planned(graph, data)
    network = QuantizedGraph(fused.graph, plan)
    assert [network.computes_integers(node) for node in network.graph.nodes] == [True, True, True, False]
    found = integers(network, data)
    assert len(found) == 4
    check(found, engine_integers(network, data))
