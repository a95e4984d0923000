"""What is written in ONNX, operator by operator: inputs, attributes, names of what the network does not have."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from quantkit.backends.mxnet.shapes import infer_shapes
from quantkit.formats.onnx.writing.conversion import Conversion, Operator
from quantkit.formats.onnx.writing.model import CONVERTERS
from quantkit.ir.graph import Node
from quantkit.lowering.qdq import DEQUANTIZE, QUANTIZE
from tests.lowering.operators.build import SHAPE
from tests.lowering.operators.cases import CASES
from tests.lowering.test_lowered_form import lines
from tests.networks import DATA, Builder


def told(conversion: Conversion) -> Iterator[str]:
    """The constants that the network does not have, then the operators, in words."""
    for name, values in conversion.constants.items():
        if name not in conversion.graph.params:
            yield f"{name} = {values.dtype} {values.tolist()}"
    for operator in conversion.operators:
        attributes = [f"{name}={value}" for name, value in operator.attributes.items()]
        yield " ".join([f"{', '.join(operator.outputs)} = {operator.op}({', '.join(operator.inputs)})", *attributes])


# By case and opset.
FORMS = {
    ("convolution with everything", 13): """
one = Conv(data, w, b) kernel_shape=(3, 1) strides=(1, 2) dilations=(2, 1) pads=(2, 0, 2, 0) group=3
""",
    ("transposed convolution", 13): """
one = ConvTranspose(data, w, b) kernel_shape=(3, 2) strides=(2, 3) dilations=(1, 2) pads=(1, 0, 1, 0) \
output_padding=(1, 2) group=2
""",
    ("dense", 13): """
one_flat = Flatten(data) axis=1
one = Gemm(one_flat, w, b) transB=1
""",
    ("dense of the last axis", 13): """
one_weight_turned = Transpose(w) perm=(1, 0)
one_product = MatMul(data, one_weight_turned)
one = Add(one_product, b)
""",
    ("dense of the last axis without bias", 13): """
one_weight_turned = Transpose(w) perm=(1, 0)
one = MatMul(data, one_weight_turned)
""",
    ("layer norm", 13): """
one_eps = float32 9.999999747378752e-05
one_mean = ReduceMean(data) axes=(-1,) keepdims=1
one_centred = Sub(data, one_mean)
one_squares = Mul(one_centred, one_centred)
one_variance = ReduceMean(one_squares) axes=(-1,) keepdims=1
one_safe = Add(one_variance, one_eps)
one_deviation = Sqrt(one_safe)
one_normal = Div(one_centred, one_deviation)
one_scaled = Mul(one_normal, scale)
one = Add(one_scaled, shift)
""",
    ("layer norm", 17): """
one = LayerNormalization(data, scale, shift) axis=-1 epsilon=0.0001
""",
    ("max with an overhang and padding", 13): """
one = MaxPool(data) kernel_shape=(3, 3) strides=(2, 2) pads=(1, 1, 1, 1) ceil_mode=1
""",
    ("prelu of channels", 13): """
one_slope_shape = int64 [6, 1, 1]
one_slopes = Reshape(slope, one_slope_shape)
one = PRelu(data, one_slopes)
""",
    ("gelu", 13): """
one_root = float32 0.7071067690849304
one_one = float32 1.0
one_half = float32 0.5
one_scaled = Mul(data, one_root)
one_erf = Erf(one_scaled)
one_share = Add(one_erf, one_one)
one_product = Mul(data, one_share)
one = Mul(one_product, one_half)
""",
    ("_rminus_scalar", 13): """
one_scalar = float32 1.5
one = Sub(one_scalar, data)
""",
    ("clip", 13): """
one_min = float32 -0.5
one_max = float32 0.25
one = Clip(data, one_min, one_max)
""",
    ("flatten", 13): """
one = Flatten(data) axis=1
""",
    ("reshape (0, -1)", 13): """
one_shape = int64 [0, 756]
one = Reshape(data, one_shape)
""",
    ("one more axis", 13): """
one_axes = int64 [2]
one = Unsqueeze(data, one_axes)
""",
    ("one axis less", 13): """
more_axes = int64 [-1]
one_axes = int64 [-1]
more = Unsqueeze(data, more_axes)
one = Squeeze(more, one_axes)
""",
    ("slice to the end", 13): """
one_starts = int64 [3]
one_ends = int64 [9223372036854775807]
one_axes = int64 [-1]
one = Slice(data, one_starts, one_ends, one_axes)
""",
    ("slice in steps", 13): """
one_starts = int64 [0, 9223372036854775807]
one_ends = int64 [9223372036854775807, -9223372036854775807]
one_axes = int64 [2, 3]
one_steps = int64 [2, -3]
one = Slice(data, one_starts, one_ends, one_axes, one_steps)
""",
    ("split", 13): """
parts_sizes = int64 [2, 2, 2]
parts, parts_output1, parts_output2 = Split(data, parts_sizes) axis=1
one = Sub(parts_output2, parts)
""",
    ("split and squeezed", 13): """
parts_sizes = int64 [1, 1, 1, 1, 1, 1]
parts_axes = int64 [1]
parts_part, parts_output1_part, parts_output2_part, parts_output3_part, parts_output4_part, \
parts_output5_part = Split(data, parts_sizes) axis=1
parts = Squeeze(parts_part, parts_axes)
parts_output1 = Squeeze(parts_output1_part, parts_axes)
parts_output2 = Squeeze(parts_output2_part, parts_axes)
parts_output3 = Squeeze(parts_output3_part, parts_axes)
parts_output4 = Squeeze(parts_output4_part, parts_axes)
parts_output5 = Squeeze(parts_output5_part, parts_axes)
one = Sub(parts_output2, parts)
""",
    ("choice", 13): """
one_indices = int64 [3, 0, 8, 3]
one = Gather(data, one_indices) axis=2
""",
    ("spread", 13): """
one_shape = int64 [1, 1, 5, 7]
mean = ReduceMean(data) axes=[2, 3] keepdims=1
one = Expand(mean, one_shape)
""",
    ("largest's place", 13): """
one_index = ArgMax(data) axis=1 keepdims=0
one = Cast(one_index) to=1
""",
    ("mean", 18): """
one_axes = int64 [2, 3]
one = ReduceMean(data, one_axes) keepdims=0
""",
    ("padding", 13): """
one_pads = int64 [0, 0, 1, 3, 0, 0, 2, 4]
one_value = float32 0.5
one = Pad(data, one_pads, one_value) mode=constant
""",
    ("enlargement", 13): """
one_scales = float32 [1.0, 1.0, 2.0, 2.0]
one = Resize(data, , one_scales) mode=nearest coordinate_transformation_mode=asymmetric nearest_mode=floor
""",
    ("linear, smaller", 13): """
one_scales = float32 [1.0, 1.0, 0.5555555820465088, 0.7857142686843872]
one = Resize(data, , one_scales) mode=linear coordinate_transformation_mode=align_corners
""",
}


def converted(case: str, opset: int) -> Conversion:
    b = Builder()
    graph = b.graph(CASES[case](b)).pruned()
    conversion = Conversion(graph, infer_shapes(graph, {"data": (1, *SHAPE)}), opset)
    for node in graph.nodes:
        CONVERTERS[node.op](conversion, node)
    return conversion


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(("case", "opset"), FORMS)
def test_operators(case: str, opset: int) -> None:
    conversion = converted(case, opset)
    assert list(told(conversion)) == lines(FORMS[case, opset])
    assert all(operator.name == operator.outputs[0] for operator in conversion.operators)


@pytest.mark.parametrize("axis", [{}, {"axis": 0}, {"axis": 1}])
@pytest.mark.parametrize("op", [QUANTIZE, DEQUANTIZE])
def test_roundings_name_an_axis_where_the_network_does(op: str, axis: dict[str, int]) -> None:
    b = Builder()
    graph = b.graph(b.op(op, "one", DATA, b.param("scale", np.ones(6)), b.param("zero_point", np.zeros(6)), **axis))
    conversion = Conversion(graph, {}, 13)
    CONVERTERS[op](conversion, graph.nodes[0])
    assert conversion.operators == [Operator(op, "one", ("data", "scale", "zero_point"), ("one",), axis)]


def test_a_scalar_that_is_left_out_is_1() -> None:
    """As in MXNet 1.9."""
    b = Builder()
    graph = b.graph(b.op("_plus_scalar", "one", DATA))
    conversion = Conversion(graph, {}, 13)
    CONVERTERS["_plus_scalar"](conversion, graph.nodes[0])
    assert list(told(conversion)) == ["one_scalar = float32 1.0", "one = Add(data, one_scalar)"]


def test_names_that_are_taken_get_a_number() -> None:
    b = Builder()
    graph = b.graph(b.op("tanh", "one", b.op("tanh", "one_more", DATA)))
    conversion, node = Conversion(graph, {}, 13), graph.nodes[-1]
    names = [conversion.floats(node, "more", 0), conversion.step(node, "more", "Neg", "data")]
    names += [conversion.integers(node, "more", (1,)), conversion.step(node, "more", "Neg", "data")]
    assert names == ["one_more_1", "one_more_2", "one_more_3", "one_more_4"]


@pytest.mark.parametrize("values", [(), (2, 3)])
def test_integers_have_64_bits(values: tuple[int, ...]) -> None:
    conversion = Conversion(Builder().graph(), {}, 13)
    found = conversion.constants[conversion.integers(Node("one", "sum", ()), "axes", values)]
    assert found.dtype == np.int64
    assert found.tolist() == list(values)
