"""Networks in the styles of PyTorch's, TensorFlow's and Keras' exporters, built here from single operators."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

from quantkit.backends.mxnet.execute import run
from quantkit.errors import ModelError
from quantkit.formats.onnx.reading.network import import_network
from quantkit.fusion.fuse import fuse
from tests.formats.onnx.reading.files import Writer, by_onnxruntime, save
from tests.requirements import requires

requires("onnxruntime")
pytestmark = pytest.mark.usefixtures("engine")

Style = Callable[[], ModelProto]


def shape_of(w: Writer, data: str, axis: int) -> str:
    return w.op("Gather", w.op("Shape", data), np.array(axis), axis=0)


def vector(w: Writer, *values: Any) -> str:
    """A shape put together of single values, as tracing exporters do."""
    parts = [value if isinstance(value, str) else w.constant(np.array(value)) for value in values]
    axes = [] if w.opset < 13 else [np.array([0])]
    attributes = {"axes": [0]} if w.opset < 13 else {}
    return str(w.op("Concat", *(w.op("Unsqueeze", part, *axes, **attributes) for part in parts), axis=0))


def pytorch(opset: int = 9, batch: Any = "N") -> ModelProto:
    """Residual block, depthwise layer with Clip, flattened by the shape that it computes."""
    w = Writer(opset, (batch, 3, 16, 16))
    stem = w.op("Relu", w.conv("x", 3, 8, pads=[1, 1, 1, 1]))
    body = w.conv(w.op("Relu", w.conv(stem, 8, 8, pads=[1, 1, 1, 1])), 8, 8, pads=[1, 1, 1, 1])
    data = w.op("Relu", w.op("Add", body, stem))
    bounds = {"min": 0.0, "max": 6.0} if opset < 11 else {}
    data = w.op("Clip", w.conv(data, 8, 8, groups=8, strides=[2, 2]), *([] if bounds else [0.0, 6.0]), **bounds)
    data = w.op("GlobalAveragePool", data)
    data = w.op("Reshape", data, vector(w, shape_of(w, data, 0), -1))
    return w.model(w.op("Gemm", data, w.normal(5, 8), w.normal(5), transB=1))


def mobilenet_v3() -> ModelProto:
    """Hard swish as a product, squeeze and excitation, means of axes."""
    w = Writer(17, ("N", 3, 16, 16))
    data = w.conv("x", 3, 8, strides=[2, 2], pads=[1, 1, 1, 1])
    data = w.op("Mul", data, w.op("HardSigmoid", data, alpha=1 / 6))
    gate = w.op("ReduceMean", data, axes=[2, 3], keepdims=1)
    gate = w.op("HardSigmoid", w.conv(w.op("Relu", w.conv(gate, 8, 4, 1)), 4, 8, 1), alpha=1 / 6)
    data = w.op("ReduceMean", w.op("Mul", gate, data), axes=[2, 3], keepdims=0)
    return w.model(w.op("Gemm", w.op("HardSwish", data), w.normal(5, 8), w.normal(5), transB=1))


def shufflenet() -> ModelProto:
    """Channels shuffled by shapes, parts split off."""
    w = Writer(11, (1, 3, 16, 16))
    data = w.op("Relu", w.conv("x", 3, 8))
    left, right = w.op("Split", data, count=2, axis=1)
    data = w.op("Concat", left, w.op("Relu", w.conv(right, 4, 4, pads=[1, 1, 1, 1])), axis=1)
    split = w.op("Reshape", data, np.array([1, 2, 4, 14, 14]))
    data = w.op("Reshape", w.op("Transpose", split, perm=[0, 2, 1, 3, 4]), np.array([1, -1, 14, 14]))
    return w.model(w.op("Gemm", w.op("ReduceMean", data, axes=[2, 3], keepdims=0), w.normal(8, 5), w.normal(5)))


def convnext() -> ModelProto:
    """Layer normalization and dense layers with the channels last; a gelu of single operators."""
    w = Writer(17, ("N", 3, 16, 16))
    data = w.conv("x", 3, 8, 4, strides=[4, 4])
    inner = w.op("Transpose", w.conv(data, 8, 8, 3, groups=8, pads=[1, 1, 1, 1]), perm=[0, 2, 3, 1])
    inner = w.op("LayerNormalization", inner, w.normal(8), w.normal(8), axis=-1, epsilon=1e-6)
    inner = w.op("Add", w.op("MatMul", inner, w.normal(8, 16)), w.normal(16))
    error = w.op("Add", w.op("Erf", w.op("Div", inner, 2**0.5)), 1.0)
    inner = w.op("Mul", w.op("Mul", inner, error), 0.5)
    inner = w.op("Add", w.op("MatMul", inner, w.normal(16, 8)), w.normal(8))
    inner = w.op("Mul", w.op("Transpose", inner, perm=[0, 3, 1, 2]), w.normal(8, 1, 1))
    data = w.op("Flatten", w.op("GlobalAveragePool", w.op("Add", inner, data)))
    return w.model(w.op("Gemm", data, w.normal(5, 8), w.normal(5), transB=1))


def tensorflow() -> ModelProto:
    """Channels last outside, padding as TensorFlow's SAME, biases as sums, reshaped by a strided slice of the shape."""
    w = Writer(13, ("N", 16, 18, 3))
    data = w.op("Transpose", "x", perm=[0, 3, 1, 2])
    data = w.op(
        "Relu", w.op("Add", w.conv(data, 3, 8, bias=False, auto_pad="SAME_UPPER", strides=[2, 2]), w.normal(1, 8, 1, 1))
    )
    data = w.op("MaxPool", data, kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER")
    data = w.op("BatchNormalization", w.conv(data, 8, 8, bias=False), *(w.random.uniform(0.5, 1.5, 8) for _ in "1234"))
    data = w.op("Transpose", w.op("Relu", data), perm=[0, 2, 3, 1])
    batch = w.op(
        "Slice", w.op("Cast", w.op("Shape", data), to=TensorProto.INT32), np.array([0]), np.array([1]), np.array([0])
    )
    batch = w.op("Squeeze", batch, np.array([0]))
    shape = w.op("Cast", vector(w, w.op("Cast", batch, to=TensorProto.INT64), 2 * 3 * 8), to=TensorProto.INT64)
    data = w.op("MatMul", w.op("Reshape", data, shape), w.normal(48, 5))
    return w.model(w.op("Softmax", w.op("Add", data, w.normal(5))))


def keras() -> ModelProto:
    """Zeros padded by an operator of their own, means with the channels last, a product and a sum at the end."""
    w = Writer(9, ("N", 17, 17, 3))
    data = w.op("Transpose", "x", perm=[0, 3, 1, 2])
    data = w.op("Pad", data, pads=[0, 0, 3, 3, 0, 0, 3, 3])
    data = w.op("LeakyRelu", w.conv(data, 3, 8, 7, strides=[2, 2]), alpha=0.3)
    data = w.op("ReduceMean", w.op("Transpose", data, perm=[0, 2, 3, 1]), axes=[1, 2], keepdims=0)
    return w.model(w.op("Softmax", w.op("Add", w.op("MatMul", data, w.normal(8, 5)), w.normal(5)), axis=1))


def segmentation() -> ModelProto:
    """Enlarged to the size of the input, which is computed; two outputs."""
    w = Writer(17, ("N", 3, 20, 24))
    features = w.op("Relu", w.conv("x", 3, 8, strides=[2, 2], pads=[1, 1, 1, 1]))
    sizes = w.op("Concat", w.op("Shape", features, start=0, end=1), np.array([4]), w.op("Shape", "x", start=2), axis=0)
    parts = [w.op("Resize", w.conv(features, 8, 4, 1), "", "", sizes, mode="linear") for _ in "12"]
    return w.model(*parts)


def double_size() -> ModelProto:
    """A size computed in floating-point numbers, as PyTorch's ``interpolate`` of a factor."""
    w = Writer(11, ("N", 3, 8, 10))
    extents = [w.op("Cast", shape_of(w, "x", axis), to=TensorProto.FLOAT) for axis in (2, 3)]
    large = [w.op("Cast", w.op("Floor", w.op("Mul", each, 2.0)), to=TensorProto.INT64) for each in extents]
    sizes = w.op("Concat", w.op("Slice", w.op("Shape", "x"), np.array([0]), np.array([2])), vector(w, *large), axis=0)
    nothing = w.constant(np.zeros(0, np.float32))
    modes = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return w.model(
        w.op("Resize", w.conv("x", 3, 3, pads=[1, 1, 1, 1]), nothing, nothing, sizes, mode="nearest", **modes)
    )


STYLES: dict[str, Style] = {
    "PyTorch, opset 9": pytorch,
    "PyTorch, opset 21": lambda: pytorch(21),
    "PyTorch, one image": lambda: pytorch(13, 1),
    "MobileNet v3": mobilenet_v3,
    "ShuffleNet, one image": shufflenet,
    "ConvNeXt": convnext,
    "TensorFlow": tensorflow,
    "Keras": keras,
    "segmentation": segmentation,
    "double size": double_size,
}


@pytest.mark.parametrize("name", STYLES)
def test_computes_what_onnxruntime_does(name: str, tmp_path: Path) -> None:
    if name == "segmentation":
        requires("half-pixels")
    model = STYLES[name]()
    path = save(model, tmp_path / "net.onnx")
    found = import_network(path)
    dims = model.graph.input[0].type.tensor_type.shape.dim
    batch = dims[0].dim_value or 3
    data = np.random.default_rng(1).normal(size=(batch, *found.input_shape)).astype(np.float32)
    theirs = data.transpose(0, 2, 3, 1) if name in ("TensorFlow", "Keras") else data
    expected, computed = by_onnxruntime(path, np.ascontiguousarray(theirs)), run(found.graph, {"x": data})
    for one, other in zip(expected, computed):
        assert one.shape == other.shape
        assert float(np.abs(one - other).max()) <= 1e-5 * float(np.abs(one).max())
    two = np.concatenate([data[:1] + 1, data[:1]])
    for one, other in zip(computed, run(found.graph, {"x": two})):
        np.testing.assert_allclose(one[0], other[1], rtol=0, atol=1e-5 * float(np.abs(one).max()))


@pytest.mark.parametrize(
    ("name", "layers"),
    {"PyTorch, opset 9": 5, "TensorFlow": 3, "Keras": 2}.items(),
)
def test_what_exporters_leave_is_fused(name: str, layers: int, tmp_path: Path) -> None:
    """Convolutions that have their batch normalization already, sums, clips."""
    found = import_network(save(STYLES[name](), tmp_path / "net.onnx"))
    fused = fuse(found.graph, found.input_shape)
    operators = [node.op for node in fused.graph.nodes]
    kinds = ("Convolution", "FullyConnected", "fused_convolution", "fused_dense")
    assert sum(op in kinds for op in operators) == layers
    assert not {"elemwise_add", "broadcast_add", "clip", "Activation", "BatchNorm"} & set(operators)


def test_transposes_of_the_input_are_gone(tmp_path: Path) -> None:
    found = import_network(save(tensorflow(), tmp_path / "net.onnx"))
    assert found.input_shape == (3, 16, 18)
    first = found.graph.nodes[0]
    assert (first.op, first.inputs[0].node) == ("Pad", "x")


def test_names_of_nodes_are_kept_and_invented_where_there_are_none(tmp_path: Path) -> None:
    w = Writer()
    inner = w.op("Relu", w.op("Neg", "x", name="twice"), name="twice")
    model = w.model(w.op("Exp", w.op("Abs", inner), name="last"))
    model.graph.node[2].name = ""
    found = import_network(save(model, tmp_path / "net.onnx"))
    assert [node.name for node in found.graph.nodes] == ["twice", "t1", "t2", "t3"]
    assert found.graph.nodes[-1].origin == ("t3", "last")


def test_names_that_two_things_have_are_told_apart(tmp_path: Path) -> None:
    """Nodes, tensors and weights may have the same names in ONNX, not in MXNet."""
    w = Writer()
    w.constants["x_weight"] = w.random.normal(size=(4, 3, 1, 1)).astype(np.float32)
    result = w.op("Relu", w.op("Conv", "x", "x_weight", name="x_weight"), name="x")
    path = save(w.model(result), tmp_path / "net.onnx")
    graph = import_network(path).graph
    data = np.random.default_rng(1).normal(size=(2, 3, 9, 14)).astype(np.float32)
    np.testing.assert_allclose(run(graph, {"x": data})[0], by_onnxruntime(path, data)[0], rtol=0, atol=1e-5)
    assert set(graph.params) == {"x_weight_1"}


def test_weights_that_several_parameters_share(tmp_path: Path) -> None:
    """Exporters write equal arrays once, such as the scale and the variance of a new batch normalization."""
    w = Writer()
    ones, zeros = np.ones(3), w.constant(np.zeros(3))
    one = w.constant(ones)
    result = w.op(
        "Mul", w.op("BatchNormalization", "x", one, zeros, zeros, one), w.op("Reshape", one, np.array([3, 1, 1]))
    )
    path = save(w.model(result), tmp_path / "net.onnx")
    data = np.random.default_rng(1).normal(size=(2, 3, 9, 14)).astype(np.float32)
    found = run(import_network(path).graph, {"x": data})[0]
    np.testing.assert_allclose(found, by_onnxruntime(path, data)[0], rtol=0, atol=1e-5)


def test_half_precision_becomes_float32(tmp_path: Path) -> None:
    w = Writer()
    model = w.model(
        w.op("Conv", w.op("Cast", "x", to=TensorProto.FLOAT16), w.random.normal(size=(4, 3, 3, 3)).astype(np.float16))
    )
    graph = import_network(save(model, tmp_path / "net.onnx")).graph
    assert {value.dtype for value in graph.params.values()} == {np.dtype(np.float32)}


def test_an_open_size_is_asked_for(tmp_path: Path) -> None:
    w = Writer(shape=("N", 3, "height", "width"))
    path = save(w.model(w.conv("x", 3, 4)), tmp_path / "net.onnx")
    with pytest.raises(ModelError, match="--input-shape 3,224,224"):
        import_network(path)
    assert import_network(path, (3, 5, 7)).input_shape == (3, 5, 7)
    with pytest.raises(ModelError, match="has 3 channels, not 4"):
        import_network(path, (4, 5, 7))


def test_batches_that_cannot_be_freed(tmp_path: Path) -> None:
    w = Writer(shape=(2, 3, 8, 8))
    path = save(w.model(w.op("Reshape", "x", np.array([3, 2, 8, 8]))), tmp_path / "net.onnx")
    with pytest.raises(ModelError, match="mixes images of a batch"):
        import_network(path)


def test_all_operators_that_stand_in_the_way_are_named(tmp_path: Path) -> None:
    w = Writer()
    one = w.op("Shrink", "x", name="first")
    two = w.op("Add", w.op("Relu", one), w.op("Hardmax", "x", name="second"))
    other = helper.make_node("FusedConv", ["x"], ["fused"], "third", domain="com.microsoft")
    w.nodes.append(other)
    model = w.model(w.op("Add", two, "fused"))
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    path = save(model, tmp_path / "net.onnx")
    with pytest.raises(
        ModelError, match=r"3 of its operators: Shrink 'first'.*Hardmax 'second'.*FusedConv 'third'.*'com.micro"
    ):
        import_network(path)


def test_int8_networks_are_sent_back(tmp_path: Path) -> None:
    w = Writer()
    scaled = w.op("QuantizeLinear", "x", 0.1, np.array(0, np.uint8), name="quantize")
    path = save(w.model(w.op("DequantizeLinear", scaled, 0.1, np.array(0, np.uint8))), tmp_path / "net.onnx")
    with pytest.raises(ModelError, match=r"INT8 network already.*give its FP32 original"):
        import_network(path)
