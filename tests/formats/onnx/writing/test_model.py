"""ONNX networks in ONNX Runtime, held against MXNet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Optional

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.backends.mxnet.shapes import infer_shapes
from quantkit.errors import ModelError
from quantkit.formats.onnx.writing.conversion import WRITTEN_OPERATORS, Conversion, Operator
from quantkit.formats.onnx.writing.int8_lstm import INT8_LSTM
from quantkit.formats.onnx.writing.model import CONVERTERS, OPSETS, onnx_model
from quantkit.formats.onnx.writing.recurrent import RECURRENT
from quantkit.formats.onnx.written_form import written_problem
from quantkit.ir.graph import Graph
from quantkit.lowering.qdq import DEQUANTIZE, QUANTIZE
from quantkit.models.dataset import dataset
from quantkit.models.load import load_model
from quantkit.version import __version__
from tests.lowering.operators.build import SHAPE, one
from tests.lowering.operators.cases import CASES
from tests.lowering.operators.layers import normalized, pooled
from tests.networks import DATA, Builder, inverted_residual, residual_v1, residual_v2
from tests.requirements import package, requires

onnxruntime = package("onnxruntime")
onnx = package("onnx")
pytestmark = pytest.mark.usefixtures("engine")

NETWORKS = {"residual v1": residual_v1(True), "residual v2": residual_v2(), "inverted residual": inverted_residual()}


def data_of(shape: tuple[int, ...], count: int = 3) -> np.ndarray:
    return np.random.default_rng(4).normal(size=(count, *shape)).astype(np.float32)


def written(graph: Graph, shape: tuple[int, ...], opset: Optional[int] = 13, **metadata: str) -> Any:
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


def test_a_trained_detector_finds_the_same_boxes() -> None:
    """With the boxes of all images in the same rows, and -1 in the rows that are left."""
    model = load_model("digits_ssd")
    scenes = np.concatenate([batch.data for batch in dataset(model, "scenes:test").subset(6).batches(6)])
    expected = run(model.graph, {"data": scenes})
    assert (expected[0] >= 0).any() and (expected[0] == -1).any()
    for wanted, found in zip(expected, in_onnxruntime(written(model.graph, model.input_shape), scenes), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


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


def sampled(b: Builder) -> Graph:
    """A map at places inside of it, across its border and far outside."""
    places = b.op("tanh", "inside", b.op("slice_axis", "two", DATA, axis=1, begin=0, end=2))
    places = b.op("_mul_scalar", "places", places, scalar=1.3)
    return b.graph(b.op("BilinearSampler", "one", DATA, b.op("slice_axis", "some", places, axis=3, begin=0, end=5)))


@pytest.mark.parametrize("opset", [16, 19, 20, 21])
def test_maps_are_sampled_at_places_from_opset_16_on(opset: int) -> None:
    graph = sampled(Builder())
    assert_same(graph, SHAPE, opset)
    with pytest.raises(
        ModelError, match=r": maps are sampled at given places from opset 16 on only \(--opset 16\); end the network"
    ):
        written(graph, SHAPE, 15)


def test_without_a_given_opset_the_oldest_that_suffices_is_written() -> None:
    average, square = Builder(), Builder()
    graphs = {
        13: square.graph(one("square")(square)),
        16: sampled(Builder()),
        19: average.graph(pooled(pool_type="avg", pooling_convention="full", pad=(1, 1))(average)).pruned(),
    }
    assert {opset: written(graph, SHAPE, None).opset_import[0].version for opset, graph in graphs.items()} == {
        opset: opset for opset in graphs
    }


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


def test_every_converter_is_tested() -> None:
    def converters(ops: Iterable[str]) -> set[Any]:
        return {getattr(CONVERTERS[op], "func", CONVERTERS[op]) for op in ops}

    b = Builder()
    for build in CASES.values():
        build(b)
    # Roundings are no operators of MXNet, and sequences no images: test_qdq, test_recurrent and test_onnx_lstm.
    # Sampling needs a newer opset than the others, and so do deformable convolutions, which are read again in
    # reading.test_operators.
    deformable = {"_contrib_ModulatedDeformableConvolution", "_contrib_DeformableConvolution"}
    others = {QUANTIZE, DEQUANTIZE, *RECURRENT, *INT8_LSTM, "BilinearSampler", *deformable}
    assert converters(node.op for node in b.nodes) == converters(CONVERTERS.keys() - others)


def test_deformable_convolutions_without_a_mask_have_another_border() -> None:
    b = Builder()
    places = b.op("Convolution", "places", DATA, b.param("p", np.ones((18, 6, 3, 3))), kernel=(3, 3), num_filter=18)
    inputs = DATA, places, b.param("w", np.ones((4, 6, 3, 3)))
    attrs = {"kernel": (3, 3), "num_filter": 4, "no_bias": True}
    graph = b.graph(b.op("_contrib_DeformableConvolution", "one", *inputs, **attrs))
    with pytest.raises(ModelError, match="beyond it MXNet reads zeros, where ONNX interpolates"):
        onnx_model(graph, dict.fromkeys([DATA, *(node.output for node in graph.nodes)], (1, 6, 9, 14)), OPSETS[-1])


def test_opsets_that_lack_deformable_convolutions_are_refused() -> None:
    b = Builder()
    weight, inputs = b.param("w", np.ones((4, 6, 3, 3))), [DATA, DATA, DATA]
    attrs = {"kernel": (3, 3), "num_filter": 4, "no_bias": True}
    graph = b.graph(b.op("_contrib_ModulatedDeformableConvolution", "one", *inputs, weight, **attrs))
    shapes = dict.fromkeys([DATA, *(node.output for node in graph.nodes)], (1, 6, 9, 14))
    with pytest.raises(ModelError, match="from opset 19 on only"):
        onnx_model(graph, shapes, 18)
