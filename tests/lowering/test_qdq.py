"""INT8 networks as ONNX writes them, in ONNX Runtime, held against the simulation of MXNet's kernels."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.backends.mxnet.shapes import infer_shapes
from quantkit.calibration.ranges import Range
from quantkit.errors import UserError
from quantkit.formats.onnx.writing.model import OPSETS, onnx_model
from quantkit.fusion.float_symbol import float_graph
from quantkit.ir.fused_layer import fused_layer_of
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.lowering.mxnet_int8 import int8_graph
from quantkit.lowering.qdq import DEQUANTIZE, QUANTIZE, qdq_network
from quantkit.quantization.arithmetic import activation_params
from quantkit.quantization.plan import QuantizationPlan, TensorQuantization
from quantkit.quantization.quantized_graph import QuantizedGraph
from tests.lowering.networks import NETWORKS, quantized
from tests.lowering.test_subsampling import downsampling
from tests.networks import DATA, Builder, images
from tests.processes import environment
from tests.quantization.algorithms.networks import planned, simulated
from tests.requirements import package

onnxruntime = package("onnxruntime")
pytestmark = pytest.mark.usefixtures("engine")


def lowered(name: str, preset: str = "none", *exclude: str) -> tuple[Graph, QuantizationPlan, Graph]:
    """A network and its plan, and what it is lowered to."""
    made = quantized(name, preset, *exclude)
    return made.graph, made.plan, int8_graph(made)


def network(graph: Graph, plan: QuantizationPlan, shapes: Mapping[str, tuple[int, ...]], **options: Any) -> Any:
    """The fused network with its roundings."""
    return qdq_network(QuantizedGraph(graph, plan), infer_shapes(float_graph(graph), shapes), **options)


def session(graph: Graph, plan: QuantizationPlan, shapes: Mapping[str, tuple[int, ...]], **written: Any) -> Any:
    made = network(graph, plan, shapes)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    for name, value in written.items():
        setattr(options, name, value)
    content = onnx_model(made.graph, made.shapes).SerializeToString()
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def alone(graph: Graph, node: Node) -> Graph:
    """The network of one operator; what it reads comes from outside."""
    inputs = tuple(dict.fromkeys(tensor.node for tensor in node.inputs if tensor.node not in graph.params))
    params = {tensor.node: graph.params[tensor.node] for tensor in node.inputs if tensor.node in graph.params}
    return Graph((node,), inputs, (node.output,), params)


def downsampled() -> tuple[Graph, QuantizationPlan]:
    fused, plan = planned(downsampling(), images())
    return fused.graph, plan


def test_openvino_computes_strided_layers_in_integers() -> None:
    openvino = package("openvino")
    graph, plan = downsampled()
    made = network(graph, plan, {"data": images().shape})
    content = onnx_model(made.graph, made.shapes).SerializeToString()
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(BytesIO(content)), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    compiled([images()])
    told = (operator.get_rt_info() for operator in compiled.get_runtime_model().get_ordered_ops())
    kinds = [(str(info["layerType"].astype(str)), str(info["runtimePrecision"].astype(str))) for info in told]
    layers = [precision for kind, precision in kinds if kind == "Convolution"]
    assert layers == ["u8"] * 4


@pytest.mark.parametrize("name", ["rectified concatenation", "concatenation read twice"])
def test_openvino_loads_a_concatenation_that_is_rectified(name: str, tmp_path: Path) -> None:
    """In a process of its own, which OpenVINO may end; up to the rounded ReLU, where nothing else reads it either."""
    openvino = package("openvino")
    graph, plan, _ = lowered(name)
    made = network(graph, plan, {"data": images().shape})
    (after,) = (node.output for node in made.graph.nodes if node.name == "relu_dequantized")
    path = tmp_path / "net.onnx"
    cut = made.graph.with_outputs([after]).pruned()
    path.write_bytes(onnx_model(cut, made.shapes).SerializeToString())
    code = f"import {openvino.__name__}, sys; openvino.Core().compile_model(sys.argv[1], 'CPU')"
    done = subprocess.run([sys.executable, "-c", code, path], env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def cases() -> list[str]:
    return [name for name in NETWORKS if name not in ("split", "row after dense")]


@pytest.mark.requires("vnni")
@pytest.mark.parametrize("preset", ["none", "balanced"])
@pytest.mark.parametrize("name", cases())
def test_every_operator_rounds_as_the_engine_does(name: str, preset: str) -> None:
    graph, plan, _ = lowered(name, preset)
    values = {Tensor("data"): images(), **simulated(graph, plan, images(), {})}
    for node in graph.nodes:
        form = plan.tensors.get(node.output)
        if form is None or plan.decisions[node.name].precision == "fp32":
            continue
        one = alone(graph, node)
        given = {name: values[Tensor(name)] for name in one.inputs}
        (found,) = session(one, plan, {name: value.shape for name, value in given.items()}).run(None, given)
        step = activation_params(form.range, form.dtype).scale
        off = np.abs(found - values[node.output]) / step
        fused_layer = fused_layer_of(node)
        if fused_layer is not None and fused_layer.addend is not None:
            # Rounded before the sum, in steps at most twice as wide, and once more after it.
            assert off.max() < 2.01
        else:
            assert off.max() < 1.01
            # Products on the edge between two integers may fall either way.
            assert np.count_nonzero(off > 0.01) <= 1 + off.size / 200


@pytest.mark.requires("vnni")
@pytest.mark.usefixtures("int8_engine")
@pytest.mark.parametrize("preset", ["none", "balanced"])
@pytest.mark.parametrize("name", NETWORKS)
def test_the_network_computes_what_mxnet_does(name: str, preset: str) -> None:
    graph, plan, int8 = lowered(name, preset)
    data = images(seed=5)
    found = session(graph, plan, {"data": data.shape}).run(None, {"data": data})
    for expected, value in zip(run(int8, {"data": data}), found):
        assert value.shape == expected.shape
        assert np.sum(value * expected) / np.linalg.norm(value) / np.linalg.norm(expected) > 0.9995


@pytest.mark.parametrize("name", NETWORKS)
def test_no_layer_is_left_in_fp32(name: str, tmp_path: Path) -> None:
    import onnx

    graph, plan, _ = lowered(name)
    optimized = tmp_path / "optimized.onnx"
    session(graph, plan, {"data": images().shape}, optimized_model_filepath=str(optimized))
    kinds = Counter(node.op_type for node in onnx.load(optimized).graph.node)
    layers = [fused_layer_of(node) for node in graph.nodes]
    assert kinds["QLinearConv"] == sum(fused_layer is not None and fused_layer.is_convolution for fused_layer in layers)
    assert kinds["QGemm"] == sum(fused_layer is not None and not fused_layer.is_convolution for fused_layer in layers)
    assert not {"Conv", "Gemm", "MatMul", "FusedConv"} & set(kinds)


def test_layers_that_stay_in_fp32_read_and_write_real_numbers() -> None:
    graph, plan, _ = lowered("v1", "none", "conv1", "dense")
    made = network(graph, plan, {"data": images().shape}).graph
    layers = {node.name: node for node in made.nodes if node.op in ("Convolution", "FullyConnected")}
    floats = {name for name, node in layers.items() if node.inputs[1].node in made.params}
    assert floats == {"bn1", "dense"}
    (reader,) = made.consumers[Tensor("relu1")]
    assert reader.op == QUANTIZE


def test_tensors_keep_their_names() -> None:
    graph, plan, _ = lowered("v1")
    made = network(graph, plan, {"data": images().shape}).graph
    assert made.inputs == graph.inputs
    assert made.outputs == graph.outputs
    for node in graph.nodes:
        if node.output in plan.tensors and plan.is_int8(node):
            assert made.by_name[node.name].op == DEQUANTIZE


def test_a_network_all_in_fp32_computes_what_the_fused_one_does() -> None:
    graph, plan, _ = lowered("inverted residual")
    floats = QuantizationPlan({name: replace(each, precision="fp32") for name, each in plan.decisions.items()}, {})
    data = images()
    made = network(graph, floats, {"data": data.shape}).graph
    assert not {QUANTIZE, DEQUANTIZE} & {node.op for node in made.nodes}
    (found,) = session(graph, floats, {"data": data.shape}).run(None, {"data": data})
    (expected,) = run(float_graph(graph), {"data": data})
    assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()


def test_signed_tensors_hold_the_same_levels() -> None:
    graph, plan, _ = lowered("v2")
    made = network(graph, plan, {"data": images().shape}).graph
    for tensor, form in plan.tensors.items():
        name = tensor.node if made.by_name.get(tensor.node) and made.by_name[tensor.node].op == DEQUANTIZE else ""
        reader = made.by_name[name or f"{tensor.node}_dequantized"]
        scale, zero_point = (made.params[each.node] for each in reader.inputs[1:])
        assert scale == np.float32(activation_params(form.range, form.dtype).scale)
        assert zero_point.dtype == np.uint8
        assert zero_point == (128 if form.dtype == "int8" else 0)


@pytest.mark.parametrize(
    ("measured", "taken"),
    [
        ((-0.5, 0.75), (-0.5, 0.75)),
        ((-1e6, 0.75), (None, 0.75)),
        ((-0.5, 1e6), (-0.5, None)),
        ((0.25, 0.75), (0, 0.75)),
        ((-0.5, -0.25), (-0.5, 0)),
        (None, (None, None)),
    ],
)
def test_results_before_a_sum_are_rounded_to_what_was_measured_and_matters(measured: Any, taken: Any) -> None:
    """Beyond the result's range less the addend's, the sum is 0 or saturates."""
    graph, plan, _ = lowered("v1")
    plan = replace(plan, pre_add_ranges={Tensor("relu2"): Range(*measured)} if measured else {})
    made = network(graph, plan, {"data": images().shape}).graph
    (total,) = (node for node in made.nodes if node.op == "elemwise_add")
    scale, zero_point = (made.params[each.node] for each in made.by_name[total.inputs[0].node].inputs[1:])
    whole, addend = (plan.tensors[Tensor(name)].range.largest for name in ("relu2", "relu0"))
    low, high = (bound if bound is not None else limit for bound, limit in zip(taken, (-addend, whole)))
    assert scale == pytest.approx((high - low) / 255, rel=1e-6)
    assert zero_point == np.rint(-low / scale)


@pytest.mark.parametrize(("measured", "taken"), [((1.5, 2), (0, 0.5)), ((-2, -1.5), (-0.25, 0))])
def test_results_that_always_saturate_a_sum_are_rounded_to_its_ends(measured: Any, taken: Any) -> None:
    graph, plan, _ = lowered("v1")
    forms = {
        Tensor(name): TensorQuantization(Range(0, peak), "uint8") for name, peak in (("relu2", 0.5), ("relu0", 0.25))
    }
    plan = replace(plan, tensors={**plan.tensors, **forms}, pre_add_ranges={Tensor("relu2"): Range(*measured)})
    made = network(graph, plan, {"data": images().shape}).graph
    (total,) = (node for node in made.nodes if node.op == "elemwise_add")
    scale, zero_point = (made.params[each.node] for each in made.by_name[total.inputs[0].node].inputs[1:])
    assert scale == pytest.approx((taken[1] - taken[0]) / 255, rel=1e-6)
    assert zero_point == (255 if taken[0] else 0)


@pytest.mark.parametrize("opset", OPSETS)
def test_every_opset_gives_the_same(opset: int) -> None:
    graph, plan, _ = lowered("branches")
    data = images()
    made = network(graph, plan, {"data": data.shape})
    found = []
    for version in (13, opset):
        content = onnx_model(made.graph, made.shapes, version).SerializeToString()
        found.append(onnxruntime.InferenceSession(content).run(None, {"data": data}))
    for first, second in zip(*found):
        np.testing.assert_array_equal(first, second)


def test_reduced_ranges_reach_the_file() -> None:
    graph, plan, _ = lowered("v1")
    full, reduced = (network(graph, plan, {"data": images().shape}, reduce_range=each) for each in ("none", "all"))
    names = [name for name, value in full.graph.params.items() if value.dtype == np.int8 and value.ndim > 1]
    assert len(names) == 4
    for name in names:
        assert np.abs(full.graph.params[name].astype(int)).max() >= 127
        assert np.abs(reduced.graph.params[name].astype(int)).max() == 64


def test_depthwise_convolutions_are_not_narrowed_without_need() -> None:
    graph, plan, _ = lowered("inverted residual")
    made = {
        each: network(graph, plan, {"data": images().shape}, reduce_range=each).graph.params
        for each in ("none", "auto", "all")
    }
    (name,) = (name for name, value in made["none"].items() if value.dtype == np.int8 and value.shape[1:] == (1, 3, 3))
    np.testing.assert_array_equal(made["auto"][name], made["none"][name])
    assert np.abs(made["all"][name].astype(int)).max() == 64


@pytest.mark.parametrize(
    ("groups", "narrowed"), [({}, True), ({"num_group": 1}, True), ({"num_group": 2}, False)], ids=["none", "1", "2"]
)
def test_convolutions_of_all_channels_are_narrowed_where_they_need_it(groups: dict[str, int], narrowed: bool) -> None:
    """Two equal weights side by side overflow, but in a depthwise convolution."""
    b = Builder()
    stem = b.relu("relu", b.conv("conv", DATA, 3, 2))
    weight = b.param("w", np.ones((2, 2 // groups.get("num_group", 1), 3, 3)))
    attrs = {"kernel": (3, 3), "num_filter": 2, "no_bias": True, **groups}
    fused, plan = planned(b.graph(b.op("Convolution", "last", stem, weight, **attrs)), images())
    made = network(fused.graph, plan, {"data": images().shape}, reduce_range="auto").graph
    assert (np.abs(made.params["w_integers"].astype(int)).max() == 64) == narrowed


def test_dense_layers_are_narrowed_where_they_need_it() -> None:
    b = Builder()
    dense = b.op("FullyConnected", "dense", DATA, b.param("w", np.ones((5, 768))), num_hidden=5, no_bias=True)
    fused, plan = planned(b.graph(dense), images())
    made = network(fused.graph, plan, {"data": images().shape}, reduce_range="auto").graph
    assert np.abs(made.params["w_integers"].astype(int)).max() == 64


def test_an_unknown_reduction_is_refused() -> None:
    graph, plan, _ = lowered("v1")
    with pytest.raises(UserError, match="some"):
        network(graph, plan, {"data": images().shape}, reduce_range="some")
