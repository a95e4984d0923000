"""ONNX networks in ONNX Runtime, held against MXNet."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.backends.mxnet.shapes import infer_shapes
from quantkit.errors import ExtraMissing, ModelError, UserError
from quantkit.formats.onnx.writing.conversion import WRITTEN_OPERATORS, Conversion, Operator
from quantkit.formats.onnx.writing.int8_lstm import INT8_LSTM
from quantkit.formats.onnx.writing.model import CONVERTERS, OPSETS, onnx_model
from quantkit.formats.onnx.writing.recurrent import RECURRENT
from quantkit.formats.onnx.written_form import written_problem
from quantkit.ir.graph import Graph, Tensor
from quantkit.lowering.qdq import DEQUANTIZE, QUANTIZE
from quantkit.version import __version__
from tests.lowering.onnx_operators import CASES, SHAPE, Build, convolved, normalized, one, pooled, transposed
from tests.networks import DATA, Builder, inverted_residual, residual_v1, residual_v2
from tests.requirements import package, requires

onnxruntime = package("onnxruntime")
onnx = package("onnx")
pytestmark = pytest.mark.usefixtures("engine")

NETWORKS = {"residual v1": residual_v1(True), "residual v2": residual_v2(), "inverted residual": inverted_residual()}


def data_of(shape: tuple[int, ...], count: int = 3) -> np.ndarray:
    return np.random.default_rng(4).normal(size=(count, *shape)).astype(np.float32)


def written(graph: Graph, shape: tuple[int, ...], opset: int = 13, **metadata: str) -> Any:
    return onnx_model(graph, infer_shapes(graph, {"data": (1, *shape)}), opset, metadata)


def in_onnxruntime(model: Any, data: np.ndarray) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    outputs: list[np.ndarray] = session.run(None, {session.get_inputs()[0].name: data})
    return outputs


def assert_same(graph: Graph, shape: tuple[int, ...], opset: int = 13) -> None:
    """For a batch other than that of the shapes, up to what another order of FP32 sums changes."""
    data, model = data_of(shape), written(graph, shape, opset)
    # Bundles may hold it.
    assert written_problem(model.SerializeToString(), WRITTEN_OPERATORS) is None
    for expected, found in zip(run(graph, {"data": data}), in_onnxruntime(model, data)):
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_no_converter_writes_what_bundles_may_not_hold() -> None:
    conversion = Conversion(Builder().graph(DATA), {}, 17)
    with pytest.raises(ValueError, match=r"^the operator Loop is not listed in WRITTEN_OPERATORS$"):
        conversion.add(Operator("Loop", "loop", (), ("y",), {}))


@pytest.mark.parametrize("case", CASES)
def test_an_operator_computes_the_same(case: str) -> None:
    b = Builder()
    result = CASES[case](b)
    assert_same(b.graph(result).pruned(), SHAPE)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("opset", OPSETS)
def test_a_network_computes_the_same_in_every_opset(network: str, opset: int) -> None:
    assert_same(NETWORKS[network], (3, 16, 16), opset)
    b = Builder()
    assert_same(b.graph(b.op("max", "max", b.op("mean", "mean", DATA, axis=2, keepdims=True), axis=1)), SHAPE, opset)


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_windows_wholly_in_the_padding_are_refused(kind: str) -> None:
    """Rows: of 9, padded to 11, the sixth window of two begins at the eleventh; MXNet has it, ONNX leaves it out."""
    b = Builder()
    attrs = {"pooling_convention": "full", "pool_type": kind}
    graph = b.graph(b.op("Pooling", "pool", DATA, kernel=(2, 2), stride=(2, 2), pad=(1, 0), **attrs))
    shapes = infer_shapes(graph, {"data": (1, *SHAPE)})
    assert shapes[Tensor("pool")][2] == 6
    with pytest.raises(ModelError, match="its last window lies wholly in the padding, where ONNX has no window; end"):
        onnx_model(graph, shapes, 19)


@pytest.mark.parametrize("included", [True, False])
def test_averages_that_overhang_need_opset_19(included: bool) -> None:
    b = Builder()
    average = pooled(pool_type="avg", pooling_convention="full", pad=(1, 1), count_include_pad=included)
    graph = b.graph(average(b)).pruned()
    assert_same(graph, SHAPE, 19)
    with pytest.raises(
        ModelError,
        match=r": averages over windows that overhang the border are defined from opset 19 on only \(--opset 19\); end",
    ):
        written(graph, SHAPE, 18)


def test_names_batch_and_metadata() -> None:
    model = written(residual_v1(), (3, 16, 16), network="net", weights="random")
    (data,), (output,) = model.graph.input, model.graph.output
    assert (data.name, output.name) == ("data", "dense")
    assert [axis.dim_param or axis.dim_value for axis in data.type.tensor_type.shape.dim] == ["N", 3, 16, 16]
    assert [axis.dim_param or axis.dim_value for axis in output.type.tensor_type.shape.dim] == ["N", 10]
    assert {node.name for node in model.graph.node} >= {node.name for node in residual_v1().nodes}
    assert {entry.key: entry.value for entry in model.metadata_props} == {"network": "net", "weights": "random"}
    assert [node.op_type for node in model.graph.node].count("Flatten") == 1
    assert model.producer_name == "quantkit"
    assert model.producer_version == __version__
    assert model.opset_import[0].version == 13
    assert model.graph.name == "network"


@pytest.mark.parametrize(("opset", "version"), [(13, 7), (15, 8), (19, 9), (21, 10)])
def test_the_file_is_of_the_oldest_format_that_holds_its_operators(opset: int, version: int) -> None:
    """As ONNX's table of versions has them (docs/Versioning.md)."""
    assert written(residual_v1(), (3, 16, 16), opset).ir_version == version


def test_shapes_that_onnx_infers_otherwise_are_refused() -> None:
    graph = residual_v1()
    shapes = infer_shapes(graph, {"data": (1, 3, 16, 16)})
    with pytest.raises(onnx.shape_inference.InferenceError, match=r"dimension 1: \(10\) vs \(11\)"):
        onnx_model(graph, {**shapes, Tensor("dense"): (1, 11)})


def test_parameters_are_written_as_they_are() -> None:
    graph = residual_v1()
    found = {each.name: onnx.numpy_helper.to_array(each) for each in written(graph, (3, 16, 16)).graph.initializer}
    for name, value in graph.params.items():
        np.testing.assert_array_equal(found[name], value)


def test_only_parameters_that_are_read_are_written() -> None:
    b = Builder()
    graph = b.graph(b.batch_norm("norm", DATA, 6, fix_gamma=True))
    names = {constant.name for constant in written(graph, SHAPE).graph.initializer}
    assert names == {"norm_beta", "norm_moving_mean", "norm_moving_var", "norm_one"}


def test_names_of_constants_give_way_to_those_of_the_network() -> None:
    b = Builder()
    data = b.op("_plus_scalar", "one_min_1", b.op("_plus_scalar", "one_min", DATA, scalar=1), scalar=1)
    assert_same(b.graph(b.op("clip", "one", data, a_min=0, a_max=2)), SHAPE)


@pytest.mark.parametrize("opset", OPSETS)
def test_layer_normalization_is_one_operator_or_many(opset: int) -> None:
    b = Builder()
    graph = b.graph(normalized("LayerNorm", 14)(b))
    assert_same(graph, SHAPE, opset)
    kinds = {node.op_type for node in written(graph, SHAPE, opset).graph.node}
    assert ("LayerNormalization" in kinds) == (opset >= 17)


def test_half_pixels() -> None:
    b = Builder()
    graph = b.graph(one("_contrib_BilinearResize2D", height=13, width=20, align_corners=False)(b))
    requires("half-pixels")
    assert_same(graph, SHAPE)


@pytest.mark.parametrize("extent", [3, 7, 9, 14, 28, 299])
def test_new_sizes_are_exact(extent: int) -> None:
    from quantkit.formats.onnx.writing.layout import _scale

    for wanted in range(1, 400):
        assert np.floor(np.float32(extent) * _scale(extent, wanted)) == wanted
        assert _scale(extent, extent * wanted) == wanted


REFUSED: dict[str, tuple[Build, str]] = {
    "channels last": (convolved(6, layout="NHWC"), "the layout NHWC, where ONNX has channels first"),
    "transposed channels last": (transposed(5, layout="NHWC"), "the layout NHWC, where ONNX has channels first"),
    "pooled channels last": (pooled(layout="NHWC"), "the layout NHWC, where ONNX has channels first"),
    "batch norm of the last axis": (
        lambda b: b.batch_norm("one", DATA, 14, axis=3), "it normalizes axis 3, ONNX only axis 1"
    ),
    "sum pooling": (pooled(pool_type="sum"), "pooling of type 'sum'"),
    "same pooling": (pooled(pooling_convention="same"), "the pooling convention 'same'"),
    "adaptive pooling": (
        one("_contrib_AdaptiveAvgPooling2D", output_size=2), "adaptive pooling to more than one value a channel"
    ),
    "activation": (one("Activation", act_type="log_sigmoid"), "the activation 'log_sigmoid'"),
    "no activation": (one("Activation"), "the activation ''"),
    "random activation": (one("LeakyReLU", act_type="rrelu"), "the activation 'rrelu'"),
    "dropout at inference": (one("Dropout", mode="always"), "it drops values at inference too"),
    "reshaped batch": (
        one("Reshape", shape=(-3, 0, 0)), "shape=(-3, 0, 0), which does not keep the batch as its first axis"
    ),
    "codes from the end": (
        one("Reshape", shape=(0, -1), reverse=True), "shape=(0, -1), which does not keep the batch as its first axis"
    ),
    "squeezed batch": (one("squeeze"), "it names no axis, so that a batch of one would lose its own"),
    "axes squeezed at will": (
        one("squeeze", axis="()"), "it names no axis, so that a batch of one would lose its own"
    ),
    "temperature": (one("softmax", temperature=2.0), "a softmax with lengths or a temperature"),
    "softmax with lengths": (one("softmax", use_length=True), "a softmax with lengths or a temperature"),
    "softmax of several axes": (one("SoftmaxActivation"), "a softmax over several axes"),
    "target shape": (
        transposed(5, target_shape=(20, 30)), "a target shape, which decides on the padding"
    ),
    "norm of the channels": (normalized("LayerNorm", 6, axis=1), "it normalizes axis 1, not the last"),
    "norm with statistics": (normalized("LayerNorm", 14, output_mean_var=True), "it puts out its statistics"),
    "place among all": (one("argmax"), "it names no axis, so that it would search all images of a batch"),
    "computed choice": (one("take", "data", "exp"), "a choice that is computed, or that wraps around"),
    "wrapped choice": (
        lambda b: b.op("take", "one", DATA, b.param("p", np.zeros(2)), mode="wrap"),
        "a choice that is computed, or that wraps around",
    ),
    "linear by scale": (
        one("_contrib_BilinearResize2D", mode="odd_scale", scale_height=2),
        "a size that follows from another tensor, or a scale",
    ),
    "size of another tensor": (
        one("_contrib_BilinearResize2D", "data", "exp"), "a size that follows from another tensor, or a scale"
    ),
    "two enlarged": (
        one("UpSampling", "data", "exp", scale=2, sample_type="nearest", num_args=2),
        "an enlargement other than of one tensor by repeating its values",
    ),
    "smooth enlargement": (
        one("UpSampling", scale=2, sample_type="bilinear", num_args=1),
        "an enlargement other than of one tensor by repeating its values",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_has_no_onnx_form_is_refused_by_name(case: str) -> None:
    build, told = REFUSED[case]
    b = Builder()
    graph = b.graph(build(b)).pruned()
    # Shapes only of what the engine can run.
    with pytest.raises(ModelError) as error:
        onnx_model(graph, {DATA: (1, *SHAPE), **{node.output: (1, *SHAPE) for node in graph.nodes}})
    assert str(error.value) == (
        f"node 'one' ({graph.by_name['one'].op}) cannot be written as ONNX: {told}; "
        "end the network before it, or replace it by operators that ONNX has"
    )


def test_unknown_operators_are_refused_by_name() -> None:
    b = Builder()
    graph = b.graph(one("arccosh", "exp")(b))
    with pytest.raises(ModelError) as error:
        written(graph, SHAPE)
    assert str(error.value) == (
        "node 'one' cannot be written as ONNX: there is no converter for the operator arccosh; "
        "end the network before it, or add a converter to quantkit/formats/onnx/writing"
    )


def test_unknown_opsets_are_refused() -> None:
    for opset in (12, 22):
        with pytest.raises(UserError, match=f"^ONNX opset {opset} cannot be written; choose one from 13 to 21$"):
            written(residual_v1(), (3, 16, 16), opset)


def test_every_converter_is_tested() -> None:
    def converters(ops: Iterable[str]) -> set[Any]:
        return {getattr(CONVERTERS[op], "func", CONVERTERS[op]) for op in ops}

    b = Builder()
    for build in CASES.values():
        build(b)
    # Roundings are no operators of MXNet, and sequences no images: test_qdq, test_recurrent and test_onnx_lstm.
    others = {QUANTIZE, DEQUANTIZE, *RECURRENT, *INT8_LSTM}
    assert converters(node.op for node in b.nodes) == converters(CONVERTERS.keys() - others)


def test_a_missing_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(
        ExtraMissing, match=r"^ONNX files need the package onnx \(.*\); install it: pip install 'quantkit\[onnx\]'$"
    ):
        written(residual_v1(), (3, 16, 16))


def test_parameters_beyond_what_a_file_holds_are_refused() -> None:
    graph = residual_v1()
    huge = np.broadcast_to(np.float32(0), (2**29,))
    graph = Graph(graph.nodes, graph.inputs, graph.outputs, {**graph.params, "dense_bias": huge})
    shapes = infer_shapes(residual_v1(), {"data": (1, 3, 16, 16)})
    # Gammas are not fixed, so all parameters are read.
    size = sum(value.nbytes for value in graph.params.values())
    with pytest.raises(
        ModelError, match=f"^the network's {size} bytes of parameters do not fit in one ONNX file, which holds 2 GB$"
    ):
        onnx_model(graph, shapes)
