"""The walk over an INT8 network against a reference that computes in integers, operator by operator, in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from quantkit.ir.fused_layer import fused_layer_of
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.progress import silent
from quantkit.quantization.algorithms.own_params import with_own_params
from quantkit.quantization.algorithms.reconstruction import reconstruct
from quantkit.quantization.arithmetic import activation_params, quantize
from quantkit.quantization.plan import QuantizationPlan
from quantkit.quantization.ptq_config import PTQConfig
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.quantization.simulation.constants import with_constants_folded
from quantkit.quantization.simulation.simulator import SideBySide, int8_network
from quantkit.quantization.weights import engine_integers, per_channel_int8
from tests import numpy_engine
from tests.networks import DATA, Builder, fire, images, inverted_residual, residual_v1, residual_v2
from tests.quantization.algorithms.networks import computed_weights, planned, simulated

pytestmark = pytest.mark.usefixtures("engine")


def one(node: Node, values: dict[Tensor, np.ndarray], params: dict[str, np.ndarray]) -> dict[Tensor, np.ndarray]:
    """What one operator makes of these values."""
    named = {f"in{index}": values[each] if each in values else params[each.node]
             for index, each in enumerate(node.inputs)}  # fmt: skip
    alone = Graph((replace(node, inputs=tuple(map(Tensor, named))),), tuple(named), (node.output,))
    return {each: value for each, value in numpy_engine.tensors(alone, named).items() if each.node == node.name}


def in_integers(graph: Graph, plan: QuantizationPlan, data: np.ndarray) -> dict[Tensor, np.ndarray]:
    """Every tensor of the INT8 network in real numbers; convolutions multiply and add integers."""
    values = {Tensor("data"): data}
    params = dict(graph.params)
    for node in graph.nodes:
        layer, form = fused_layer_of(node), plan.tensors.get(node.output)
        if layer is None or layer.weight.node not in params or plan.decisions[node.name].precision == "fp32":
            values.update(one(node, values, params))
            if form is not None and plan.is_int8(node):
                step = activation_params(form.range, form.dtype)
                values[node.output] = quantize(values[node.output], step) * np.float32(step.scale)
            continue
        step = activation_params(plan.tensors[layer.data].range, plan.tensors[layer.data].dtype)
        weight = params[layer.weight.node]
        integers, scales = (
            engine_integers(weight, groups=layer.groups) if layer.is_convolution else per_channel_int8(weight)
        )
        core = replace(layer.core, inputs=(Tensor("x"), Tensor("w")), attrs={**layer.core.attrs, "no_bias": "True"})
        products = one(core, {Tensor("x"): quantize(values[layer.data], step)}, {"w": integers})[core.output]
        per_channel = (-1, *(1,) * (products.ndim - 2))
        result = np.rint(products).astype(np.int64) * (scales.astype(np.float64) * step.scale).reshape(per_channel)
        if layer.bias is not None:
            result = result + params[layer.bias.node].reshape(per_channel)
        if layer.addend is not None and form is not None:
            other = plan.tensors[layer.addend]
            if form.dtype == "int8":
                other = replace(other, dtype="int8")
            other_step = activation_params(other.range, other.dtype)
            result = result + quantize(values[layer.addend], other_step) * other_step.scale
        if layer.activation_kind is not None:
            result = np.maximum(result, 0)
        if layer.activation_kind == "relu6" and layer.activation is not None:
            result = np.minimum(result, float(layer.activation.attrs["a_max"]))
        if layer.is_convolution:
            assert form is not None
            own = activation_params(form.range, form.dtype)
            coarse = layer.addend is not None and (form.dtype, other.dtype) == ("uint8", "int8")
            # Eight bits to add signed integers in place, of which a ReLU leaves seven.
            result = (
                np.clip(np.rint(result / (2 * own.scale)), 0, 127) * 2 * own.scale
                if coarse
                else quantize(result, own) * own.scale
            )
        values[node.output] = np.asarray(result, np.float32)
    return values


def clipped_dense() -> Graph:
    """Dense layers with ReLU and without, the last without bias, after a clipped 1x1 convolution."""
    b = Builder()
    data = b.op("clip", "clip", b.conv("conv", DATA, 3, 4, kernel=1), a_min=0.0, a_max=0.7)
    first = b.relu("relu", b.dense("first", b.op("Flatten", "flat", data), 1024, 12))
    weight = b.param("w", b.random.normal(size=(5, 12)))
    return b.graph(b.op("FullyConnected", "second", first, weight, num_hidden=5, no_bias=True))


def signed_sum() -> Graph:
    """A sum without activation of an unsigned shortcut."""
    b = Builder()
    stem = b.relu("relu", b.conv("stem", DATA, 3, 8))
    total = b.op("elemwise_add", "add", b.conv("body", stem, 8, 8), stem)
    return b.graph(b.relu("last_relu", b.conv("last", total, 8, 8, groups=2)))


CASES: dict[str, tuple[Callable[[], Graph], tuple[str, ...]]] = {
    "v1": (residual_v1, ()),
    "v1, signed shortcut": (lambda: residual_v1(signed_shortcut=True), ()),
    "v2": (residual_v2, ()),
    "inverted": (inverted_residual, ()),
    "fire": (fire, ()),
    "dense": (clipped_dense, ()),
    "signed sum": (signed_sum, ()),
    "computed weights": (computed_weights, ()),
    "sum in FP32": (residual_v1, ("conv2",)),
    "first in FP32": (residual_v2, ("conv0", "dense")),
}


@pytest.mark.parametrize("case", CASES)
def test_every_tensor_is_that_of_the_integers(case: str) -> None:
    build, exclude = CASES[case]
    data = images(9)
    fused, plan = planned(build(), data, *exclude)
    graph = with_constants_folded(fused.graph)
    wanted = in_integers(graph, plan, data)
    found = simulated(graph, plan, data, wanted)
    assert len(found) >= len(graph.nodes)
    for tensor, values in found.items():
        form = plan.tensors.get(tensor)
        step = activation_params(form.range, form.dtype).scale if form else np.abs(values).max() * 1e-5
        difference = np.abs(values - wanted[tensor]) / step
        # A sum on the edge between two integers may fall to either side: of a coarse one that is two steps.
        assert difference.max() < 2.01, tensor
        assert (difference > 0.5).mean() < 0.005, tensor


@pytest.mark.parametrize("case", CASES)
def test_beside_it_runs_the_exact_network(case: str) -> None:
    """It keeps no more than what is still to be read, and in the end the network's results."""
    build, exclude = CASES[case]
    data = images(9)
    fused, plan = planned(build(), data, *exclude)
    graph = with_constants_folded(fused.graph)
    both = SideBySide(graph, int8_network(QuantizedGraph(graph, plan)), data)
    left = list(graph.nodes)
    for node in both.run():
        assert node is left.pop(0)
        read = {tensor for other in (node, *left) for tensor in other.inputs} | set(graph.outputs)
        assert both.exact.keys() <= read
        assert both.quantized.keys() == both.exact.keys()
    assert both.exact.keys() == set(graph.outputs)
    wanted = numpy_engine.run(fused.original, {"data": data})
    for tensor, values in zip(fused.original.outputs, wanted):
        np.testing.assert_allclose(both.exact[tensor], values, atol=1e-5 * np.abs(values).max())
        assert np.abs(both.quantized[tensor] - values).max() > 1e-4 * np.abs(values).max()


def error(graph: Graph, plan: QuantizationPlan, reference: Graph, data: np.ndarray) -> float:
    """The mean squared error of the network's first result in integers."""
    (exact, *_) = numpy_engine.run(reference, {"data": data})
    return float(np.square(in_integers(graph, plan, data)[reference.outputs[0]] - exact).mean())


@pytest.mark.parametrize("technique", ["refit", "bias"])
@pytest.mark.parametrize("build", [residual_v1, clipped_dense])
def test_each_technique_brings_integers_nearer_on_other_images(technique: str, build: Callable[[], Graph]) -> None:
    seen, unseen = images(16, seed=3), images(16, seed=9)
    fused, plan = planned(build(), seen)
    # Narrow ranges, so that much is clipped and there is something to make up for.
    forms = {
        tensor: replace(form, range=replace(form.range, low=form.range.low * 0.5, high=form.range.high * 0.5))
        for tensor, form in plan.tensors.items()
    }
    plan = replace(plan, tensors=forms)
    own = with_own_params(QuantizedGraph(fused.graph, plan)).graph
    found = reconstruct(QuantizedGraph(own, plan), seen, PTQConfig(**{technique: True}), silent).graph
    assert error(found, plan, fused.original, unseen) < 0.95 * error(own, plan, fused.original, unseen)
    assert found.nodes == own.nodes
    assert found.params.keys() == own.params.keys()


def test_the_walk_is_shown_operator_by_operator() -> None:
    shown: list[tuple[list[Any], int, str]] = []

    def progress(stream: Iterable[Any], total: int, title: str) -> Iterable[Any]:
        shown.append((list(stream), total, title))
        return shown[-1][0]

    fused, plan = planned(residual_v1(), images())
    reconstruct(QuantizedGraph(fused.graph, plan), images(), PTQConfig(bias=True), progress)
    assert shown == [(list(fused.graph.nodes), len(fused.graph.nodes), "adapting weights and biases")]
