"""The simulated INT8 network against the engine's own integers."""

from __future__ import annotations

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.calibration.ranges import Range
from quantkit.ir.graph import Graph, Tensor
from quantkit.lowering.mxnet_int8 import int8_graph
from quantkit.progress import silent
from quantkit.quantization.algorithms.apply import apply_algorithms
from quantkit.quantization.arithmetic import activation_params
from quantkit.quantization.plan import TensorQuantization
from quantkit.quantization.ptq_config import PTQConfig
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.quantization.simulation.rounding import rounded, rounded_sum
from tests.networks import DATA, Builder, images, inverted_residual, residual_v1, residual_v2
from tests.quantization.algorithms.networks import planned, simulated


def signed_sum_of_unsigned() -> Graph:
    """A sum without activation, whose shortcut is unsigned and so must be made signed first."""
    b = Builder()
    stem = b.relu("relu", b.conv("stem", DATA, 3, 16))
    total = b.op("elemwise_add", "add", b.conv("body", stem, 16, 16), stem)
    return b.graph(b.relu("last_relu", b.conv("last", total, 16, 16)))


NETWORKS = {
    "v1": residual_v1(),
    "v1, signed shortcut": residual_v1(signed_shortcut=True),
    "v2": residual_v2(),
    "signed sum": signed_sum_of_unsigned(),
    "inverted residual": inverted_residual(),
}


@pytest.mark.usefixtures("int8_engine")
@pytest.mark.requires("vnni")
@pytest.mark.parametrize("name", NETWORKS)
def test_the_engine_computes_the_same_integers(name: str) -> None:
    data = images()
    fused, plan = planned(NETWORKS[name], data)
    adjusted = apply_algorithms(
        QuantizedGraph(fused.graph, plan), fused.original, [data], "minmax", PTQConfig(bias=True), silent
    )
    int8 = int8_graph(QuantizedGraph(adjusted.network.graph, adjusted.network.plan))
    names = {node.name for node in int8.nodes}
    tensors = [tensor for tensor in adjusted.network.plan.tensors if f"quantized_{tensor.node}" in names]
    assert len(tensors) >= 3
    found = run(int8.with_outputs([Tensor(f"quantized_{tensor.node}") for tensor in tensors]).pruned(), {"data": data})
    scales = {tensor: stored_scale(int8, tensor, adjusted.network.plan.tensors[tensor]) for tensor in tensors}
    given = {tensor: integers * np.float32(scales[tensor]) for tensor, integers in zip(tensors, found)}
    wanted = simulated(adjusted.network.graph, adjusted.network.plan, data, given)
    for tensor in tensors:
        difference = np.abs(given[tensor] - wanted[tensor]) / scales[tensor]
        # A sum on the edge between two integers may fall to either side.
        assert difference.max() < 1.01, tensor
        assert (difference > 0.5).mean() < 0.005, tensor


def stored_scale(int8: Graph, tensor: Tensor, form: TensorQuantization) -> float:
    """The real value of one step of the integers that stand for a tensor."""
    attrs = int8.by_name[f"quantized_{tensor.node}"].attrs
    high = float(attrs.get("max_calib_range", form.range.largest))
    return activation_params(Range(0.0, high), form.dtype).scale


def test_a_sum_in_place_of_signed_integers_has_seven_bits() -> None:
    unsigned = TensorQuantization(Range(0.0, 10.0), "uint8")
    signed = TensorQuantization(Range(-3.0, 3.0), "int8")
    values = np.linspace(0, 12, 1000).astype(np.float32)
    coarse = rounded_sum(values, unsigned, signed)
    assert len(np.unique(coarse)) == 128
    assert coarse.max() == pytest.approx(127 * 20 / 255.5)
    assert len(np.unique(rounded_sum(values, unsigned, unsigned))) == 256
    np.testing.assert_array_equal(rounded_sum(values, signed, signed), rounded(values, signed))


@pytest.mark.usefixtures("engine")
def test_parts_of_a_split_are_followed_apart() -> None:
    b = Builder()
    split = b.op("SliceChannel", "split", b.relu("relu", b.conv("conv", DATA, 3, 8)), num_outputs=2, axis=1)
    fused, plan = planned(b.graph(b.conv("last", Tensor(split.node, 1), 4, 4, kernel=1), split), images())
    found = simulated(fused.graph, plan, images(), {})
    for index, part in enumerate(np.split(found[Tensor("relu")], 2, axis=1)):
        np.testing.assert_array_equal(found[Tensor("split", index)], part)


@pytest.mark.usefixtures("engine")
def test_operators_in_int8_put_out_integers() -> None:
    b = Builder()
    data = b.relu("relu", b.conv("conv", DATA, 3, 8))
    pooled = b.op("Pooling", "pool", data, kernel=(2, 2), stride=(2, 2), pool_type="avg")
    fused, plan = planned(b.graph(b.conv("last", pooled, 8, 8)), images())
    assert plan.decisions["pool"].precision == "int8"
    found = simulated(fused.graph, plan, images(), {})
    form = plan.tensors[Tensor("pool")]
    steps = found[Tensor("pool")] / activation_params(form.range, form.dtype).scale
    np.testing.assert_allclose(steps, np.rint(steps), atol=1e-3)
    exact = found[Tensor("relu")].reshape(4, 8, 8, 2, 8, 2).mean(axis=(3, 5))
    assert np.abs(found[Tensor("pool")] - exact).max() <= 0.51 * activation_params(form.range, form.dtype).scale
